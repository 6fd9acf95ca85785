#!/usr/bin/env python3
"""Reads the objects of a folder again and again: reader.py FOLDER PREFIX PROXY:PORT...

Each read goes to the first proxy, in turn, that listens, and follows its redirect. It is tried twice. Prints a line for
each object: `read`, or `failed`, its name and why. Ends when it is killed."""

import itertools
import socket
import sys
import time
import urllib.request
from pathlib import Path


def listens(proxy):
    host, _, port = proxy.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        return False
    return True


def read(proxies, number, name, wanted):
    """An empty text when the object is there, else what is wrong."""
    proxy = next((proxies[(number + step) % len(proxies)] for step in range(len(proxies)) if listens(proxies[(number + step) % len(proxies)])), None)
    if proxy is None:
        return "no proxy listens"
    try:
        with urllib.request.urlopen(f"http://{proxy}/v1/objects/{name}?provider=ais", timeout=20) as answer:
            return "" if answer.read() == wanted else f"{proxy}: other bytes"
    except OSError as error:
        return f"{proxy}: {error!r}"


def main():
    folder, prefix, *proxies = sys.argv[1:]
    files = sorted(Path(folder).iterdir())
    for number in itertools.count():
        file = files[number % len(files)]
        wanted, wrong = file.read_bytes(), []
        for _ in range(2):
            problem = read(proxies, number, f"{prefix}{file.name}", wanted)
            if not problem:
                break
            wrong.append(problem)
            time.sleep(1.5)
        print(f"failed {file.name} {wrong}" if len(wrong) == 2 else "read", flush=True)
        time.sleep(0.02)


if __name__ == "__main__":
    main()
