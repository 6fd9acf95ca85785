#!/bin/sh
# Takes a proxy out of the cluster map before its pod ends: leave.sh URL-OF-THE-PROXY FILE-WITH-ITS-ID
# Pods of a Deployment have new names each time, so an entry that stays would be down for good.
set -u
export TARN_ENDPOINT="$1"
id=$(cat "$2") || exit 1
# Services and load balancers stop to send clients here meanwhile.
sleep "${LEAVE_PAUSE:-5}"
for _ in 1 2 3; do
  tarn --retry-for 2s node decommission "$id" --yes && exit 0
  # The primary may not leave: another proxy becomes primary first.
  down=$(curl -fsS --max-time 5 "$1/v1/cluster?what=rebalance" | sed -n 's/.*"without_lease":\[\([^]]*\)\].*/\1/p')
  other=$(tarn --retry-for 2s node ls |
    awk -v own="$id" -v down="$down" '$2 == "proxy" && $1 != own && !index(down, "\"" $1 "\"") {print $1; exit}')
  [ -n "$other" ] || { echo "proxy $id stays in the cluster map: no other proxy is up"; exit 0; }
  tarn --retry-for 2s cluster set-primary "$other"
done
echo "proxy $id stays in the cluster map"
exit 1
