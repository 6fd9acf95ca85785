#!/usr/bin/env bash
# One node: containerd, kubelet and kube-proxy, in the network and mount namespace in which cluster.py starts this.
# node.sh NUMBER DIRECTORY-OF-THE-CLUSTER PROGRAMS IMAGES ADDRESS-OF-THE-CONTROL-PLANE
set -euo pipefail
number=$1 cluster=$2 programs=$3 images=$4 gateway=$5
node=$cluster/n$number
run=/run/tarn-kubernetes/n$number
mount --make-rshared /
mkdir -p "$node"/{log,pid,cni,sysctl,pod-logs,container-logs} "$cluster/volumes/n$number" "$run"

# kubelet sets these. It gets files of its own, so that the machine keeps its settings.
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
  kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  file=$node/sysctl/$(tr / _ <<<"${setting%%=*}")
  echo "${setting##*=}" >"$file"
  mount --bind "$file" "/proc/sys/${setting%%=*}"
done
echo "nameserver $gateway" >"$node/resolv.conf"
mount --bind "$node/resolv.conf" "$(readlink -f /etc/resolv.conf)"
# Logs of its own, see podLogsDir: a kubelet deletes those of all pods that are not its own.
mkdir -p /var/log/containers
mount --bind "$node/container-logs" /var/log/containers

# Drives of its own under the paths that all machines have.
mount --bind "$cluster/volumes/n$number" /mnt

# A cgroup for each kubelet: one that shares it deletes the pods of the other.
for hierarchy in cpu cpuacct cpuset memory devices freezer blkio pids systemd; do
  [[ -d /sys/fs/cgroup/$hierarchy ]] && mkdir -p "/sys/fs/cgroup/$hierarchy/tarn-k8s-$number"
done
if [[ -e /sys/fs/cgroup/cpuset/cpuset.cpus ]]; then
  for file in cpuset.cpus cpuset.mems; do
    cat "/sys/fs/cgroup/cpuset/$file" >"/sys/fs/cgroup/cpuset/tarn-k8s-$number/$file"
  done
fi

# restrict_oom_score_adj: the machine may refuse scores below its own.
cat >"$node/containerd.toml" <<EOF
version = 2
root = "$node/containerd"
state = "$run/containerd"
[grpc]
  address = "$run/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = "localhost/pause:1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$node/cni"
[plugins."io.containerd.internal.v1.opt"]
  path = "$node/opt"
EOF
cat >"$node/cni/10-bridge.conflist" <<EOF
{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": "$node/ipam", "ranges": [[{"subnet": "10.244.$number.0/24"}]],
            "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
EOF
cat >"$node/kubelet.yaml" <<EOF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
cgroupRoot: /tarn-k8s-$number
failSwapOn: false
failCgroupV1: false
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
clusterDNS: ["$gateway"]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix://$run/containerd.sock
localStorageCapacityIsolation: false
podLogsDir: $node/pod-logs
evictionHard: {memory.available: 200Mi}
resolvConf: $node/resolv.conf
nodeStatusUpdateFrequency: 2s
syncFrequency: 10s
EOF

start() {
  local name=$1
  shift
  setsid "$@" >"$node/log/$name.log" 2>&1 &
  echo $! >"$node/pid/$name"
}

start containerd containerd -c "$node/containerd.toml"
for _ in $(seq 120); do
  ctr -a "$run/containerd.sock" version >/dev/null 2>&1 && break
  sleep 0.25
done
for image in "$images"/*.tar; do
  ctr -a "$run/containerd.sock" -n k8s.io images import "$image" >/dev/null
done
start kubelet "$programs/kubelet" --config="$node/kubelet.yaml" --kubeconfig="$cluster/config/kubelet$number" \
  --hostname-override="n$number" --node-ip="10.250.0.$number" --root-dir="$node/kubelet" --cert-dir="$node/pki" \
  --node-labels="topology.kubernetes.io/zone=z$number"
start kube-proxy "$programs/kube-proxy" --kubeconfig="$cluster/config/proxy" --hostname-override="n$number" \
  --cluster-cidr=10.244.0.0/16 --proxy-mode=iptables --conntrack-max-per-core=0 \
  --conntrack-tcp-timeout-established=0s --conntrack-tcp-timeout-close-wait=0s --metrics-bind-address=127.0.0.1
wait
