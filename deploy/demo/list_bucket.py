#!/usr/bin/env python3
"""Lists a bucket page by page over HTTP: list_bucket.py ENDPOINT BUCKET [--page N]; prints NAME<TAB>SIZE lines."""

import argparse
import json
import urllib.request


def pages(endpoint, bucket, page_size):
    """Yields the entries of one page after the other; an empty continuation token is the end."""
    token = ""
    while True:
        value = {"pagesize": page_size, "continuation_token": token, "props": "name,size"}
        body = json.dumps({"action": "list", "value": value}).encode()
        request = urllib.request.Request(
            f"{endpoint}/v1/buckets/{bucket}?provider=ais", data=body, method="GET",
            headers={"Content-Type": "application/json", "Accept": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as response:
            page = json.load(response)
        yield page.get("entries") or []
        token = page["continuation_token"]
        if not token:
            return


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("endpoint")
    parser.add_argument("bucket")
    parser.add_argument("--page", type=int, default=1000)
    arguments = parser.parse_args()
    for entries in pages(arguments.endpoint, arguments.bucket, arguments.page):
        for entry in entries:
            print(f"{entry['name']}\t{entry.get('size', 0)}")


if __name__ == "__main__":
    main()
