"""A client outside of the pod network that reads and writes until it gets SIGTERM, then prints what happened as JSON.

load.py BUCKET TRIES URL...   URLs of the proxies' Service at each machine

A call that fails is tried again, TRIES times in all, each time at the next machine but the one that failed it. For 2 s
proxies redirect to a machine that died, and by turns it could be asked after that. A read that fails then counts, and so
does one of other bytes. Writes that fail are not counted as stored; all others are read at the end."""

import collections
import contextlib
import hashlib
import json
import signal
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

PATIENCE = 8  # seconds of one try: longer than a lease, so that the next one is sent elsewhere
OBJECTS = 40
SIZE = 20_000


class Load:
    def __init__(self, bucket, tries, urls):
        self.bucket, self.tries, self.urls, self.calls = bucket, int(tries), collections.deque(urls), 0
        self.asked = None  # the machine that the last request went to
        self.stored, self.failures, self.retries, self.longest, self.ends = {}, [], 0, 0.0, False
        signal.signal(signal.SIGTERM, self._end)

    def _end(self, *_):
        self.ends = True

    def _turn(self, failed):
        """The URL whose turn it is, of another machine than the one that failed."""
        self.urls.rotate(-1)
        if urllib.parse.urlsplit(self.urls[0]).hostname == failed:
            self.urls.rotate(-1)
        return self.urls[0]

    def _call(self, failed, method, name, body=None):
        self.calls += 1
        url = f"{self._turn(failed)}/v1/objects/{self.bucket}/{name}?provider=ais"
        for _ in range(5):  # redirects, also of a PUT
            self.asked = urllib.parse.urlsplit(url).hostname
            request = urllib.request.Request(url, data=body, method=method)
            try:
                with urllib.request.build_opener(Unredirected).open(request, timeout=PATIENCE) as answer:
                    return answer.read()
            except urllib.error.HTTPError as error:
                if error.code not in (302, 307):
                    raise
                url = error.headers["Location"]
        raise OSError("too many redirects")

    def call(self, *words):
        begun, failed = time.monotonic(), None
        try:
            for _ in range(self.tries - 1):
                with contextlib.suppress(OSError):  # also urllib's errors
                    return self._call(failed, *words)
                failed = self.asked
                self.retries += 1
                time.sleep(1)
            return self._call(failed, *words)
        finally:
            self.longest = max(self.longest, time.monotonic() - begun)

    def write(self, number):
        name = f"load/{number}"
        body = hashlib.sha256(name.encode()).digest() * (SIZE // 32)
        try:
            self.call("PUT", name, body)
            self.stored[name] = body
        except OSError as error:
            self.failures.append(f"PUT {name}: {error}")

    def read(self, name):
        try:
            if self.call("GET", name) != self.stored[name]:
                self.failures.append(f"GET {name}: other bytes")
        except OSError as error:
            self.failures.append(f"GET {name}: {error}")

    def run(self):
        for number in range(OBJECTS):
            self.write(number)
        print("ready" if self.stored else f"nothing stored: {self.failures[:3]}", flush=True)
        number = 0
        while self.stored and not self.ends:
            number += 1
            if number % 10 == 0:
                self.write(OBJECTS + number)
            self.read(list(self.stored)[number * 7 % len(self.stored)])
            time.sleep(0.02)
        self.ends = True
        for name in self.stored:
            self.read(name)
        print(json.dumps({"calls": self.calls, "stored": len(self.stored), "retries": self.retries, "longest": round(self.longest, 1),
                          "failures": self.failures}), flush=True)


class Unredirected(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


if __name__ == "__main__":
    Load(sys.argv[1], sys.argv[2], sys.argv[3:]).run()
