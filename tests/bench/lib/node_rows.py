"""Lists, memory of a node, and how fast it starts."""

import contextlib
import http.client
import json
import os
import re
import resource
import selectors
import socket
import struct
import subprocess
import time

from lib.rows import Result
from lib.servers import BUCKET, Tarn, cpu_seconds, free_port, memory_of, mounted_image, settle
from lib.stage import Failed, drop_from_cache, median, rounds_of, spread, wait_until

IDLE_CONNECTIONS = 9000
TRANSFERS = 32
GIB = 1 << 30
LIST = {"json": "application/json", "msgpack": "application/msgpack"}


# --- many names -----------------------------------------------------------------------------------------------------------

def fill_with_names(stage, tarn, count):
    """`count` objects without bytes: files with attributes on the stopped target's drive, which it adopts as it starts."""
    tarn.store(["prototype"], 4096)
    prototype = tarn.data_files(4096)["prototype"]
    tarn.down()
    began = time.monotonic()
    subprocess.run([str(stage.programs / "tarn-bench-seed"), str(tarn.drive()), str(prototype), str(count), "shard-"],
                   check=True, timeout=900)
    stage.say(f"{count} files made in {time.monotonic() - began:.0f} s; the target adopts them")
    began = time.monotonic()
    tarn.up()
    stage.say(f"started in {time.monotonic() - began:.0f} s")


class Lister:
    def __init__(self, tarn):
        self.connection = http.client.HTTPConnection(tarn.endpoint.partition("//")[2], timeout=60)

    def list_all(self, kind):
        """(names, pages, seconds in which the client waited) of one whole list; reading the page is not counted."""
        token, names, pages, seconds = "", 0, 0, 0.0
        while True:
            value = {"props": "name,size", "continuation_token": token, "uuid": "u" if token else ""}
            body = json.dumps({"action": "list", "name": "", "value": value})
            began = time.perf_counter()
            self.connection.request("GET", f"/v1/buckets/{BUCKET}?provider=ais", body,
                                    {"Content-Type": "application/json", "Accept": LIST[kind]})
            answer = self.connection.getresponse()
            page = answer.read()
            seconds += time.perf_counter() - began
            if answer.status != 200:
                raise Failed(f"list: status {answer.status}: {page[:300]!r}")
            count, token = (_json_page if kind == "json" else _msgpack_page)(page)
            names += count
            pages += 1
            if not token:
                return names, pages, seconds


def _json_page(page):
    token = re.search(rb'"continuation_token":"([^"]*)"', page[:4096])
    return page.count(b'{"name":'), token.group(1).decode()


def _msgpack_page(page):
    """Entries and token from the head of a page: {"UUID", "ContinuationToken", "Flags", "Entries"}, in this order."""
    key = page.index(b"ContinuationToken") + len(b"ContinuationToken")
    first = page[key]
    if first & 0xe0 == 0xa0:
        length, key = first & 0x1f, key + 1
    elif first == 0xd9:
        length, key = page[key + 1], key + 2
    else:
        length, key = struct.unpack(">H", page[key + 1:key + 3])[0], key + 3
    token = page[key:key + length].decode()
    entries = page.index(b"Entries", key) + len(b"Entries")
    kind = page[entries]
    if kind & 0xf0 == 0x90:
        count = kind & 0x0f
    else:
        count = struct.unpack(">H" if kind == 0xdc else ">I", page[entries + 1:entries + (3 if kind == 0xdc else 5)])[0]
    return count, token


def measure_list(stage):
    count = 100_000 if stage.quick else 1_000_000
    stage.need_space(4 << 30)
    directory = stage.new_directory("list")
    with mounted_image(stage, directory / "t1" / "d1", count), Tarn(stage, directory, burst=False) as tarn:
        fill_with_names(stage, tarn, count)
        tarn.hurry()
        lister = Lister(tarn)

        def whole(kind):
            before = [cpu_seconds(pid) for pid in tarn.pids]
            names, pages, seconds = lister.list_all(kind)
            proxy, target = (cpu_seconds(pid) - cpu for pid, cpu in zip(tarn.pids, before))
            if names != count + 1:  # and the prototype
                raise Failed(f"the list has {names} names of {count + 1}")
            return {"names": names, "pages": pages, "seconds": seconds, "proxy": proxy, "target": target}

        measured = rounds_of(stage, {kind: lambda _, kind=kind: whole(kind) for kind in LIST})
    for kind, runs in measured.items():
        rates = [run["names"] / run["seconds"] for run in runs]
        raw = {"names/s": spread(rates, 6), "ms a page": spread([run["seconds"] / run["pages"] * 1e3 for run in runs]),
               "CPU us a name": {side: float(f"{median([run[side] / run['names'] * 1e6 for run in runs]):.3g}")
                                 for side in ("proxy", "target")},
               "names": count + 1, "names a page": 10_000}
        yield Result(f"list_{kind}_names_per_s", median(rates), stage.rounds, raw,
                     "whole lists through the proxy, one connection, props name,size; proxy and target on one core",
                     "index warm")


# --- memory -----------------------------------------------------------------------------------------------------------------

def measure_idle(stage):
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    count = min(2000 if stage.quick else IDLE_CONNECTIONS, limit - 500)
    figures = {"target": [], "proxy": []}
    for _ in range(stage.rounds):
        # Fresh programs every time: a heap that has grown before hides the growth.
        with Tarn(stage, stage.new_directory("idle"), burst=False) as tarn:
            tarn.store(["small"], 4096)
            figures["target"].append(_idle(tarn.target_urls(["small"])[0], tarn.target_pid, count))
            figures["proxy"].append(_idle(tarn.proxy_urls(["small"])[0], tarn.proxy_pid, count))
    yield Result("idle_conn_KiB", max(median(values) for values in figures.values()), stage.rounds,
                 {f"{side}, KiB": spread(values) for side, values in figures.items()},
                 f"{count} kept connections after one GET of 4 KiB (the proxy: one redirect) each; the greater of both",
                 "irrelevant")


def _idle(url, pid, count):
    """KiB of its own memory that a process holds for each of `count` connections after one request."""
    address, _, path = url.partition("//")[2].partition("/")
    host, _, port = address.partition(":")
    request = f"GET /{path} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode()
    before = settle(pid)
    connections = []
    try:
        for _ in range(count):
            connection = socket.create_connection((host, int(port)), timeout=10)
            connections.append(connection)
            connection.sendall(request)
            if not connection.recv(65536).startswith(b"HTTP/1.1"):
                raise Failed(f"{url} gave no answer to connection {len(connections)}")
        return (settle(pid) - before) / count
    finally:
        for connection in connections:
            connection.close()


def measure_transfer(stage):
    """Slow transfers that are all under way at once: memory that the target holds for each."""
    stage.need_space(2 * GIB)
    figures = {"GET, cold": [], "PUT": []}
    with Tarn(stage, stage.new_directory("transfer"), burst=False) as tarn:
        tarn.store(["big"], GIB)
        file = tarn.data_files(GIB)["big"]
        for _ in range(stage.rounds):
            tarn.down()  # buffers that were used before would be used again, and not be seen
            tarn.up()
            idle = settle(tarn.target_pid)
            drop_from_cache([file])
            figures["GET, cold"].append(_slow_gets(tarn, idle))
            figures["PUT"].append(_slow_puts(tarn, idle))
    yield Result("transfer_KiB", max(median(values) for values in figures.values()), stage.rounds,
                 {f"{side}, KiB": spread(values) for side, values in figures.items()},
                 f"{TRANSFERS} slow GETs of 32 MiB each, then {TRANSFERS} slow PUTs, at the target; the greater of both", "cold")


def _peak_while(pid, idle, seconds, step):
    """The most KiB that the process has above `idle` while `step` is called again and again, for each transfer."""
    peak, next_look, end = 0, 0.0, time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        if now > next_look:
            peak = max(peak, memory_of(pid) - idle)
            next_look = now + 0.05
        if not step():
            break
    return peak / TRANSFERS


def _open(url, head):
    parts = url.partition("//")[2]
    address, _, path = parts.partition("/")
    host, _, port = address.partition(":")
    connection = socket.create_connection((host, int(port)), timeout=10)
    connection.sendall(head.format(path=path, address=address).encode())
    return connection


def _slow_gets(tarn, idle):
    url = tarn.target_urls(["big"])[0]
    slice_bytes = GIB // TRANSFERS
    selector = selectors.DefaultSelector()
    left = {}

    def step():
        if not left:  # within the measurement: connections are part of a transfer
            for i in range(TRANSFERS):
                connection = _open(url, "GET /{path} HTTP/1.1\r\nHost: {address}\r\n"
                                   f"Range: bytes={i * slice_bytes}-{(i + 1) * slice_bytes - 1}\r\n\r\n")
                left[connection] = slice_bytes
                selector.register(connection, selectors.EVENT_READ)
        for key, _ in selector.select(0.1):
            count = len(key.fileobj.recv(65536))
            left[key.fileobj] -= count
            if not count or left[key.fileobj] <= 0:
                return False  # the first is done: from here on they are fewer
        return True

    try:
        return _peak_while(tarn.target_pid, idle, 3, step)
    finally:
        for connection in left:
            connection.close()


def _slow_puts(tarn, idle):
    urls = tarn.upload_urls([f"slow-{i}" for i in range(TRANSFERS)], GIB)
    buffer, connections = os.urandom(65536), []

    def step():
        if not connections:
            for url in urls:
                connection = _open(url, "PUT /{path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: " f"{GIB}\r\n\r\n")
                connection.setblocking(False)
                connections.append(connection)
        for connection in connections:
            with contextlib.suppress(BlockingIOError):
                connection.send(buffer)
        time.sleep(0.005)
        return True

    try:
        return _peak_while(tarn.target_pid, idle, 3, step)
    finally:
        for connection in connections:  # cut off: nothing is stored
            connection.close()


# --- start -----------------------------------------------------------------------------------------------------------------

def _launch(stage, proxy_words, target_words, secret):
    """Both programs, the second as soon as the first has made the secret."""
    core = stage.server(burst=False)
    processes = []
    with open(stage.directory / "start.log", "ab") as log:
        def start(name, words):
            processes.append(subprocess.Popen([*core, str(stage.programs / name), *words], stdin=subprocess.DEVNULL,
                                              stdout=log, stderr=log))

        start("tarn-proxy", proxy_words)
        wait_until(secret.exists, 10, "the proxy makes the cluster's secret", every=0.001)
        start("tarn-target", target_words)
    return processes


def _first_put_and_get(address):
    """Asks until a PUT is taken, then reads it back: what a user sees as `it is up`."""
    body = b"first"
    deadline = time.monotonic() + 60

    def ask(method, where, path):
        connection = http.client.HTTPConnection(where, timeout=10)
        try:
            connection.request(method, path, body=body if method == "PUT" else None)
            answer = connection.getresponse()
            content = answer.read()
            if answer.status in (302, 307):
                where, _, path = answer.headers["Location"].partition("//")[2].partition("/")
                return ask(method, where, "/" + path)
            return answer.status, content
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()

    for method, wanted in (("PUT", None), ("GET", body)):
        while True:
            status, content = ask(method, address, "/v1/objects/data/first?provider=ais")
            if status == 200 and wanted in (None, content):
                break
            if time.monotonic() > deadline:
                raise Failed(f"no {method} within 60 s of the start, the last status was {status}")
            time.sleep(0.002)


def _timed_start(stage, address, *launch):
    began = time.monotonic()
    processes = _launch(stage, *launch)
    try:
        _first_put_and_get(address)
        return time.monotonic() - began
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(60)


def _start_empty(stage):
    directory = stage.new_directory("start")
    public, relay, internal, target, target_internal = (f"127.0.0.1:{free_port()}" for _ in range(5))
    (directory / "d1").mkdir()
    secret = directory / "p1" / "cluster.secret"
    return _timed_start(
        stage, public,
        ["--dir", str(directory / "p1"), "--listen", public, "--relay", relay, "--internal", internal],
        ["--dir", str(directory / "t1"), "--drive", str(directory / "d1"), "--listen", target, "--internal",
         target_internal, "--join", f"http://{internal}", "--secret-file", str(secret)], secret)


def measure_start_empty(stage):
    seconds = [_start_empty(stage) for _ in range(stage.rounds)]
    yield Result("start_first_put_s", median(seconds), stage.rounds, {"seconds": spread(seconds)},
                 "tarn-proxy, then tarn-target once there is a secret, empty directories, embedded store; until a PUT through "
                 "the proxy is taken and read back", "programs warm")


def measure_start_full(stage):
    count = 100_000
    stage.need_space(4 << 30)
    directory = stage.new_directory("start-100k")
    with mounted_image(stage, directory / "t1" / "d1", count), Tarn(stage, directory, burst=False) as tarn:
        fill_with_names(stage, tarn, count)
        tarn.down()
        nodes = {node["name"]: node["arguments"] for node in
                 json.loads((tarn.directory / "cluster.json").read_text())["nodes"]}
        address, secret = tarn.endpoint.partition("//")[2], tarn.directory / "p1" / "cluster.secret"
        seconds = [_timed_start(stage, address, nodes["p1"], nodes["t1"], secret) for _ in range(stage.rounds)]
    yield Result("start_100k_s", median(seconds), stage.rounds, {"seconds": spread(seconds), "objects": count},
                 "the same on a drive that holds 100,000 objects, after a clean stop", "warm")
