#!/bin/sh
# Creates a bucket if it is missing: buckets.sh SECONDS BUCKET OPTIONS-OF-TARN-BUCKET-CREATE...
# TARN_ENDPOINT is the URL of the proxies.
set -u
seconds=$1 bucket=$2
end=$(($(date +%s) + seconds))
while :; do
  tarn --retry-for 5s bucket show "$bucket" > /dev/null 2>&1
  case $? in
    0) echo "bucket $bucket is there"; exit 0 ;;
    3) shift; tarn bucket create "$@" && exit 0 ;;
  esac
  [ "$(date +%s)" -lt "$end" ] || { echo "bucket $bucket was not created within $seconds s"; exit 1; }
  sleep 2
done
