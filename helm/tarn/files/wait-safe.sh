#!/bin/sh
# Waits before a target ends until the cluster can spare it: wait-safe.sh URL-OF-THE-PROXIES SECONDS
# Safe: all other targets are up, and no object has to move. After SECONDS the target ends anyway, and when no proxy
# answers, since then the whole cluster ends.
set -u
end=$(($(date +%s) + $2))
silent=0
while [ "$(date +%s)" -lt "$end" ]; do
  if state=$(curl -fsS --max-time 5 "$1/v1/cluster?what=rebalance"); then
    silent=0
    # Nodes that the cluster takes for down. Ids of targets begin with t.
    down=$(echo "$state" | sed -n 's/.*"without_lease":\[\([^]]*\)\].*/\1/p' | tr ',' '\n' | sed -n 's/^"\(t.*\)"$/\1/p' | tr '\n' ' ')
    case $state in *'"past":0'*) moving=no ;; *) moving=yes ;; esac
    [ -z "$down" ] && [ $moving = no ] && exit 0
    echo "waiting: targets down: ${down:-none}; objects to move: $moving"
  else
    silent=$((silent + 1))
    [ "$silent" -lt 3 ] || { echo "no proxy answers: not waiting"; exit 0; }
  fi
  sleep 1
done
echo "not safe within $2 s: the target ends anyway"
