#!/bin/sh
# Reads objects while a pod is gone: test-gone.sh URL-OF-THE-PROXIES NAMESPACE POD-OF-A-TARGET SECONDS
# Stores objects of two copies, deletes the pod, and reads all of them until the pod that Kubernetes makes in its place
# is ready. /run/api has a token and the certificate of the API server.
set -eu
proxy=$1 pod=$3 end=$(($(date +%s) + $4))
bucket=helm-test-$(date +%s)-$$ objects=12
host=$KUBERNETES_SERVICE_HOST
case $host in *:*) host="[$host]" ;; esac
api="https://$host:$KUBERNETES_SERVICE_PORT/api/v1/namespaces/$2/pods/$pod"
export TARN_ENDPOINT="$proxy"
cd "${TMPDIR:-/tmp}"
fail() { echo "failed: $*" >&2; exit 1; }

# What the API server answers, without blanks, and its status in the last line.
ask() {
  # From a file, so that no list of processes shows the token.
  printf 'header = "Authorization: Bearer %s"\n' "$(cat /run/api/token)" |
    curl -sS --max-time 20 --cacert /run/api/ca.crt -K - -w '\n%{http_code}' -X "$1" "$api" | tr -d ' \t'
}
# The first "uid" of a pod is its own; empty: there is no pod, or no answer.
uid() { echo "$answer" | grep -o '"uid":"[^"]*"' | head -n 1; }
is_ready() { echo "$answer" | tr -d '\n' | tr '{' '\n' | grep '"type":"Ready"' | grep -q '"status":"True"'; }
# True if the pod that was deleted is there no more, and the one in its place is not ready.
is_gone() {
  answer=$(ask GET) || return 1
  case $(echo "$answer" | tail -n 1) in
    404) return 0 ;;
    200) [ "$(uid)" != "$before" ] && ! is_ready ;;
    *) return 1 ;;
  esac
}
# Once more a second later, as clients do that have met a target which ends.
read_object() {
  curl -fsS --max-time 20 -L -o got "$1" || { sleep 1; curl -fsS --max-time 60 -L -o got "$1" || fail "GET of $1, twice"; }
  cmp sent got || fail "GET of $1 has other bytes"
}

answer=$(ask GET)
before=$(uid)
if [ -z "$before" ] || ! is_ready; then fail "pod $pod is not ready: $answer"; fi
tarn bucket create "$bucket" --copies 2 --domain node
trap 'tarn bucket rm "$bucket" --yes > /dev/null' EXIT
head -c 200000 /dev/urandom > sent
number=0
while [ "$number" -lt "$objects" ]; do
  curl -fsS --max-time 60 -L -T sent "$proxy/v1/objects/$bucket/$number?provider=ais" || fail "PUT of object $number"
  number=$((number + 1))
done
answer=$(ask DELETE)
case $(echo "$answer" | tail -n 1) in 200 | 202) ;; *) fail "pod $pod was not deleted: $answer" ;; esac

reads=0 meanwhile=0
while :; do
  [ "$(date +%s)" -lt "$end" ] || fail "pod $pod was not ready again in time"
  gone=no
  if is_gone; then gone=yes; fi
  number=0
  while [ "$number" -lt "$objects" ]; do
    read_object "$proxy/v1/objects/$bucket/$number?provider=ais"
    number=$((number + 1))
  done
  reads=$((reads + objects))
  answer=$(ask GET) || continue
  [ "$gone" = no ] || { [ "$(uid)" != "$before" ] && is_ready; } || meanwhile=$((meanwhile + objects))
  if [ "$(uid)" != "$before" ] && is_ready; then break; fi
done
[ "$meanwhile" -gt 0 ] || fail "pod $pod was never seen to be gone"
tarn cluster wait --timeout 120s > /dev/null || fail "the cluster does not settle"
echo "passed: $reads reads around the end of $pod, $meanwhile of them while it was gone"
