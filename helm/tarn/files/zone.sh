#!/bin/sh
# Writes the zone of a machine into a file: zone.sh MACHINE LABEL FILE
# The zone is what the API server has under LABEL of the machine. /run/api has a token and the server's certificate.
set -u
machine=$1 label=$2 file=$3
fail() { echo "no zone for targets on machine $machine: $1" >&2; exit 1; }
host=$KUBERNETES_SERVICE_HOST
case $host in *:*) host="[$host]" ;; esac
# From a file, so that no list of processes shows the token.
answer=$(printf 'header = "Authorization: Bearer %s"\n' "$(cat /run/api/token)" |
  curl -sS --max-time 20 --cacert /run/api/ca.crt -K - -w '\n%{http_code}' \
    -H 'Accept: application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io' \
    "https://$host:$KUBERNETES_SERVICE_PORT/api/v1/nodes/$machine" 2>&1) || fail "the API server does not answer: $answer"
status=$(echo "$answer" | tail -n 1)
[ "$status" = 200 ] || fail "the API server answers $status: $(echo "$answer" | sed -n 's/.*"message": *"\(.*\)".*/\1/p' | head -n 1)"
zone=$(echo "$answer" | tr -d ' \n' | sed -n 's/.*[{,]"labels":{\([^}]*\)}.*/\1/p' | tr ',' '\n' |
  awk -F'"' -v label="$label" '$2 == label { print $4 }')
[ -n "$zone" ] || fail "it has no label $label (kubectl label node $machine $label=NAME), or set targets.zone.mode to none"
echo "$zone" > "$file"
echo "zone of machine $machine: $zone"
