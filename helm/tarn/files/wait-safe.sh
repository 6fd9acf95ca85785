#!/bin/sh
# Waits before a target ends until the cluster can spare it: wait-safe.sh URL-OF-THE-PROXIES SECONDS
# Safe: all other targets are up, and no object has to move. After SECONDS the target ends anyway, and when no proxy
# answers, since then the whole cluster ends.
set -u
export TARN_ENDPOINT="$1"
end=$(($(date +%s) + $2))
silent=0
while [ "$(date +%s)" -lt "$end" ]; do
  if nodes=$(tarn --retry-for 0s node ls 2>&1) && moves=$(curl -fsS --max-time 5 "$1/v1/cluster?what=rebalance"); then
    silent=0
    down=$(echo "$nodes" | awk '$2 == "target" && $3 == "down" {print $1}')
    case $moves in *'"past":0'*) moving= ;; *) moving=yes ;; esac
    [ -z "$down$moving" ] && exit 0
    echo "waiting: targets down: ${down:-none}; objects to move: ${moving:-no}"
  else
    silent=$((silent + 1))
    [ "$silent" -lt 3 ] || { echo "no proxy answers: not waiting"; exit 0; }
  fi
  sleep 1
done
echo "not safe within $2 s: the target ends anyway"
