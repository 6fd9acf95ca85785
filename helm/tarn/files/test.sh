#!/bin/sh
# Stores, reads and deletes objects through redirects and through the relay: test.sh URL-OF-THE-PROXIES URL-OF-THE-RELAY BUCKET
set -eu
proxy=$1 relay=$2 bucket=$3
work=${TMPDIR:-/tmp}/tarn-test-$$
prefix=helm-test-$$-$(date +%s)
mkdir "$work"
trap 'rm -r "$work"' EXIT
cd "$work"
fail() { echo "failed: $*" >&2; exit 1; }

head -c 1000000 /dev/urandom > sent
tail -c +1001 sent | head -c 500 > part
sent=0
hosts=
while [ "$sent" -lt 12 ]; do
  url="$proxy/v1/objects/$bucket/$prefix/$sent?provider=ais"
  where=$(curl -sS --max-time 30 -o /dev/null -w '%{http_code} %{redirect_url}' "$url")
  case $where in
    302\ http*|307\ http*) ;;
    *) fail "the proxy does not redirect: $where" ;;
  esac
  hosts="$hosts $(echo "$where" | sed 's|.*://\([^/]*\)/.*|\1|')"
  curl -fsS --max-time 60 -L -T sent "$url" || fail "PUT of $url"
  curl -fsS --max-time 60 -L -o got "$url" || fail "GET of $url"
  cmp sent got || fail "GET of $url has other bytes"
  curl -fsS --max-time 60 -L -r 1000-1499 -o got "$url" || fail "GET of a range of $url"
  cmp part got || fail "GET of a range of $url has other bytes"
  [ "$(curl -sS --max-time 60 -o got -w '%{http_code}' "$relay/v1/objects/$bucket/$prefix/$sent?provider=ais")" = 200 ] ||
    fail "GET of $url by the relay, without a redirect"
  cmp sent got || fail "GET of $url by the relay has other bytes"
  curl -fsS --max-time 60 -L -X DELETE "$url" || fail "DELETE of $url"
  [ "$(curl -sS --max-time 60 -L -o got -w '%{http_code}' "$url")" = 404 ] || fail "$url is there after its DELETE"
  sent=$((sent + 1))
done
echo "passed: PUT, GET, Range and DELETE of $sent objects at$(echo "$hosts" | tr ' ' '\n' | sort -u | tr '\n' ' ')"
