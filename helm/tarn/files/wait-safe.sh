#!/bin/sh
# Waits before a target ends until the cluster can spare it: wait-safe.sh URL-OF-THE-PROXIES SECONDS NODE.JSON
# A proxy says whether it can (`tarn node safe-to-stop`). After SECONDS the target ends anyway, and when no proxy
# answers, since then the whole cluster ends. HOOK_LOG: where lines go; by default to the log of the container.
set -u
end=$(($(date +%s) + $2))
id=$(sed -n 's/.*"id": *"\([^"]*\)".*/\1/p' "$3")
log=${HOOK_LOG:-/proc/1/fd/1}
if { true >> "$log"; } 2> /dev/null; then exec >> "$log" 2>&1; fi
silent=0 last=
while left=$((end - $(date +%s))) && [ "$left" -gt 0 ]; do
  # It may have to count all objects first, so the answer has all of the time that is left. Keepalive probes tell a
  # proxy that counts from one whose pod is gone: 10 s.
  if answer=$(curl -fsS --connect-timeout 5 --keepalive-time 1 --max-time "$left" "$1/v1/cluster?what=safe_to_stop&node=$id"); then
    silent=0
    case $answer in *'"safe":true'*) echo "wait-safe: may stop: $answer"; exit 0 ;; esac
    [ "$answer" = "$last" ] || echo "wait-safe: waiting: $answer"
    last=$answer
  else
    silent=$((silent + 1))
    [ "$silent" -lt 3 ] || { echo "wait-safe: no proxy answers about target $id: not waiting"; exit 0; }
  fi
  sleep 1
done
echo "wait-safe: not safe within $2 s: the target ends anyway"
