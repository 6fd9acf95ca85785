{{/* Name of all objects of a release. Short enough for pod names and the labels that Kubernetes derives. */}}
{{- define "tarn.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- default $full .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{/* Labels that never change: selectors use them. Call with (list $ COMPONENT). */}}
{{- define "tarn.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ default $root.Chart.Name $root.Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ $root.Release.Name | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "tarn.labels" -}}
{{- $root := index . 0 -}}
{{ include "tarn.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Metadata of an object. Call with (list $ COMPONENT NAME). */}}
{{- define "tarn.metadata" -}}
{{- $root := index . 0 -}}
name: {{ index . 2 }}
namespace: {{ $root.Release.Namespace }}
labels:
  {{- include "tarn.labels" . | nindent 2 }}
{{- end }}

{{- define "tarn.image" -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}

{{- define "tarn.secretName" -}}
{{ default (printf "%s-secret" (include "tarn.fullname" .)) .Values.secret.existingSecret }}
{{- end }}

{{/* DNS name of the namespace's services. */}}
{{- define "tarn.domain" -}}
{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end }}

{{- define "tarn.any" -}}
{{ ternary "[::]" "0.0.0.0" (eq .Values.ipFamily "IPv6") }}
{{- end }}

{{- define "tarn.proxyUrl" -}}
http://{{ include "tarn.fullname" . }}-proxy.{{ include "tarn.domain" . }}:{{ .Values.proxies.service.port }}
{{- end }}

{{- define "tarn.relayUrl" -}}
http://{{ include "tarn.fullname" . }}-relay.{{ include "tarn.domain" . }}:{{ .Values.proxies.relay.port }}
{{- end }}

{{/* URL of the address of a machine. */}}
{{- define "tarn.hostUrl" -}}
{{ ternary "http://[$(HOST_IP)]" "http://$(HOST_IP)" (eq .Values.ipFamily "IPv6") }}
{{- end }}

{{/* URL of a target by the name of its pod. */}}
{{- define "tarn.podUrl" -}}
http://$(POD_NAME).{{ include "tarn.fullname" . }}-target.{{ include "tarn.domain" . }}:{{ .Values.targets.publicAddress.port }}
{{- end }}

{{/* URL by which clients reach a target; Kubernetes expands $(..). nodePort is left to the shell of the pod. */}}
{{- define "tarn.targetUrl" -}}
{{- $public := .Values.targets.publicAddress -}}
{{- if $public.url -}}
{{ $public.url }}
{{- else if eq $public.mode "podDNS" -}}
{{ include "tarn.podUrl" . }}
{{- else if eq $public.mode "hostPort" -}}
{{ include "tarn.hostUrl" . }}:{{ $public.port }}
{{- else if ne $public.mode "nodePort" -}}
{{ fail (printf "targets.publicAddress.mode %s needs targets.publicAddress.url" $public.mode) }}
{{- end -}}
{{- end }}

{{- define "tarn.etcdUrls" -}}
{{- $root := . -}}
{{- if .Values.etcd.external.endpoints -}}
{{ join "," .Values.etcd.external.endpoints }}
{{- else -}}
{{- $urls := list -}}
{{- range $i := until (int .Values.etcd.replicas) -}}
{{- $urls = append $urls (printf "http://%s-etcd-%d.%s-etcd.%s:2379" (include "tarn.fullname" $root) $i (include "tarn.fullname" $root) (include "tarn.domain" $root)) -}}
{{- end -}}
{{ join "," $urls }}
{{- end -}}
{{- end }}

{{/* Options for etcd and the secret: of proxies and targets. */}}
{{- define "tarn.commonArgs" -}}
{{- $external := .Values.etcd.external -}}
- --meta
- {{ include "tarn.etcdUrls" . }}
{{- if $external.endpoints }}
{{- if $external.tlsSecret }}
- --meta-ca
- /run/tarn/etcd-ca.pem
{{- if $external.clientCertificate }}
- --meta-cert
- /run/tarn/etcd-cert.pem
- --meta-key
- /run/tarn/etcd-key.pem
{{- end }}
{{- end }}
{{- if $external.user }}
- --meta-user
- {{ $external.user | quote }}
- --meta-password-file
- /run/tarn/etcd-password
{{- end }}
{{- end }}
- --secret-file
- /run/tarn/cluster.secret
{{- end }}

{{/* --threads and --set options. Call with the values of the role. */}}
{{- define "tarn.settingArgs" -}}
- --threads
- {{ int .threads | quote }}
- --set
- shutdown.grace={{ int .shutdownGraceSeconds }}s
{{- range $key, $value := .settings }}
- --set
- {{ printf "%s=%s" $key (include "tarn.scalar" $value) | quote }}
{{- end }}
{{- end }}

{{/* Text of a number, a truth value or a text; whole numbers without an exponent. */}}
{{- define "tarn.scalar" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) }}{{ int64 . }}{{ else }}{{ toString . }}{{ end -}}
{{- end }}

{{/* Variables that the URL of a target may use. */}}
{{- define "tarn.addressEnv" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: POD_INDEX
  valueFrom: {fieldRef: {fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']"}}
- name: HOST_IP
  valueFrom: {fieldRef: {fieldPath: status.hostIP}}
- name: NODE_NAME
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
{{- end }}

{{/* Pod Security "restricted". */}}
{{- define "tarn.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ int64 .Values.security.runAsUser }}
runAsGroup: {{ int64 .Values.security.runAsUser }}
fsGroup: {{ int64 .Values.security.runAsUser }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "tarn.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Values of releases of before have no zone (--reuse-values). */}}
{{- define "tarn.zoneMode" -}}
{{ dig "zone" "mode" "none" .Values.targets }}
{{- end }}

{{/* Service account of the targets; empty: the default one. */}}
{{- define "tarn.targetAccount" -}}
{{- $own := eq (include "tarn.zoneMode" .) "node" | ternary (printf "%s-target" (include "tarn.fullname" .)) "" -}}
{{ default $own .Values.serviceAccountName }}
{{- end }}

{{/* Init container: the zone of the machine. It alone mounts a token of the API. */}}
{{- define "tarn.zoneContainer" -}}
- name: zone
  image: {{ include "tarn.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [sh, /scripts/zone.sh, $(NODE_NAME), {{ dig "zone" "nodeLabel" "topology.kubernetes.io/zone" .Values.targets | quote }}, /run/tarn/zone]
  env:
    - name: NODE_NAME
      valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
  securityContext:
    {{- include "tarn.containerSecurity" . | nindent 4 }}
  resources:
    requests: {cpu: 10m, memory: 16Mi}
    limits: {memory: 64Mi}
  volumeMounts:
    - {name: api, mountPath: /run/api, readOnly: true}
    - {name: scripts, mountPath: /scripts, readOnly: true}
    - {name: run, mountPath: /run/tarn}
{{- end }}

{{/* Volume: a token of the API and the certificate of its server. */}}
{{- define "tarn.apiVolume" -}}
- name: api
  projected:
    defaultMode: 0440
    sources:
      - serviceAccountToken: {path: token, expirationSeconds: 600}
      - configMap:
          name: kube-root-ca.crt
          items: [{key: ca.crt, path: ca.crt}]
{{- end }}

{{/* Fields of all pods. Call with (list $ SERVICE-ACCOUNT). */}}
{{- define "tarn.podFields" -}}
automountServiceAccountToken: false
{{- with index . 1 }}
serviceAccountName: {{ . }}
{{- end }}
{{- with index . 0 }}
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  {{- include "tarn.podSecurity" . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "tarn.podCommon" -}}
{{- include "tarn.podFields" (list . .Values.serviceAccountName) }}
{{- end }}

{{/* Placement of pods. Call with (list $ COMPONENT VALUES). */}}
{{- define "tarn.scheduling" -}}
{{- $selector := include "tarn.selector" . -}}
{{- $component := index . 1 -}}
{{- with index . 2 -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    {{- if eq $component "proxy" }}
    # In an upgrade those of before, which leave, do not count.
    matchLabelKeys: [pod-template-hash]
    {{- end }}
    labelSelector:
      matchLabels:
        {{- $selector | nindent 8 }}
  {{- if .spreadOverZones }}
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: DoNotSchedule
    {{- if eq $component "proxy" }}
    matchLabelKeys: [pod-template-hash]
    {{- end }}
    labelSelector:
      matchLabels:
        {{- $selector | nindent 8 }}
  {{- end }}
{{- if eq .antiAffinity "required" }}
affinity:
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- $selector | nindent 12 }}
{{- else if eq .antiAffinity "preferred" }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- $selector | nindent 14 }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Init container: private copies of the secrets. The programs refuse files that a group may read, and the files of
a Secret are readable for the fsGroup. */}}
{{- define "tarn.secretsContainer" -}}
{{- $external := .Values.etcd.external -}}
- name: secrets
  image: {{ include "tarn.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command:
    - install
    - --mode=0600
    - --target-directory=/run/tarn
    - /etc/tarn/cluster.secret
    {{- if $external.endpoints }}
    {{- if $external.tlsSecret }}
    - /etc/tarn/etcd-ca.pem
    {{- if $external.clientCertificate }}
    - /etc/tarn/etcd-cert.pem
    - /etc/tarn/etcd-key.pem
    {{- end }}
    {{- end }}
    {{- if $external.user }}
    - /etc/tarn/etcd-password
    {{- end }}
    {{- end }}
  securityContext:
    {{- include "tarn.containerSecurity" . | nindent 4 }}
  resources:
    requests: {cpu: 10m, memory: 16Mi}
    limits: {memory: 64Mi}
  volumeMounts:
    - {name: secrets, mountPath: /etc/tarn, readOnly: true}
    - {name: run, mountPath: /run/tarn}
{{- end }}

{{- define "tarn.commonVolumes" -}}
{{- $external := .Values.etcd.external -}}
- name: secrets
  projected:
    defaultMode: 0440
    sources:
      - secret:
          name: {{ include "tarn.secretName" . }}
          items:
            - {key: {{ .Values.secret.key }}, path: cluster.secret}
      {{- if $external.endpoints }}
      {{- if $external.tlsSecret }}
      - secret:
          name: {{ $external.tlsSecret }}
          items:
            - {key: ca.crt, path: etcd-ca.pem}
            {{- if $external.clientCertificate }}
            - {key: tls.crt, path: etcd-cert.pem}
            - {key: tls.key, path: etcd-key.pem}
            {{- end }}
      {{- end }}
      {{- if $external.user }}
      - secret:
          name: {{ required "etcd.external.user needs etcd.external.passwordSecret" $external.passwordSecret }}
          items:
            - {key: password, path: etcd-password}
      {{- end }}
      {{- end }}
- name: run
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
- name: scripts
  configMap:
    name: {{ include "tarn.fullname" . }}-scripts
{{- end }}

{{/* Probes of proxies and targets. /healthz: the event loop turns. /readyz: the node can do its work.
Call with (list PORT STARTUP-SECONDS). */}}
{{- define "tarn.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: {{ index . 0 }}}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: {{ div (add (int (index . 1)) 4) 5 }}
livenessProbe:
  httpGet: {path: /healthz, port: {{ index . 0 }}}
  periodSeconds: 10
  timeoutSeconds: 10
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: {{ index . 0 }}}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 2
{{- end }}

{{/* How Services choose a proxy, where the cluster knows that. Values of releases of before have none (--reuse-values). */}}
{{- define "tarn.trafficDistribution" -}}
{{- $wanted := dig "trafficDistribution" "PreferSameNode" .Values.proxies -}}
{{- $version := .Capabilities.KubeVersion.Version -}}
{{- if and $wanted (semverCompare ">=1.34-0" $version) -}}
{{ $wanted }}
{{- else if and $wanted (semverCompare ">=1.31-0" $version) -}}
PreferClose
{{- end -}}
{{- end }}

{{/* Spec of a Service for clients outside. Call with its values. */}}
{{- define "tarn.serviceType" -}}
type: {{ .type }}
{{- if ne .type "ClusterIP" }}
externalTrafficPolicy: {{ .externalTrafficPolicy }}
{{- end }}
{{- if eq .type "LoadBalancer" }}
{{- with .loadBalancerClass }}
loadBalancerClass: {{ . }}
{{- end }}
{{- with .sourceRanges }}
loadBalancerSourceRanges:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{/* A volume claim template. Its labels never change: it is immutable. Call with (list $ COMPONENT NAME VOLUME). */}}
{{- define "tarn.claim" -}}
{{- $volume := index . 3 -}}
- metadata:
    name: {{ index . 2 }}
    labels:
      {{- include "tarn.selector" . | nindent 6 }}
  spec:
    accessModes: [ReadWriteOnce]
    {{- with $volume.storageClass }}
    storageClassName: {{ . }}
    {{- end }}
    resources:
      requests:
        storage: {{ required (printf "%s needs a size, or a hostPath" (index . 2)) $volume.size }}
{{- end }}
