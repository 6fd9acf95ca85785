"""Several targets: their rates add up, and no payload passes the proxy. A rebalance leaves readers their share and moves no
more than it must. A killed target is soon replaced by others."""

import contextlib
import re
import socket
import subprocess
import time
import urllib.parse

from lib.drive_rows import COLD, mb_a_second, read_at_once
from lib.rows import Result
from lib.servers import BUCKET, EmulatedDrive, Tarn
from lib.stage import Failed, Unavailable, drop_from_cache, median, spread, wait_until

MIB = 1 << 20
HASH_SPARE = 2.5  # so many times the objects that a target is to have on average, so that the one with the fewest has them


# --- the sum of targets -----------------------------------------------------------------------------------------------------

TARGETS, DRIVE_RATE, READERS_A_TARGET = (1, 2, 4, 8), 50e6, 2


def drives_of(stage, exits, directory, targets, rate):
    return [exits.enter_context(EmulatedDrive(stage, directory / "tarn" / f"t{i}" / "d1", directory / f"behind{i}", rate, 0, 0))
            for i in targets]


class Fleet:
    """Targets of one emulated drive each, and for each target the same number of objects."""

    def __init__(self, stage, exits, count, size, objects):
        directory = stage.new_directory(f"targets-{count}")
        self.stage, self.count = stage, count
        self.drives = drives_of(stage, exits, directory, range(1, count + 1), DRIVE_RATE)
        self.tarn = exits.enter_context(Tarn(stage, directory / "tarn", burst=False, targets=count))
        self.tarn.store([f"shard-{i:06}.tar" for i in range(int(count * objects * (HASH_SPARE if count > 1 else 1)))], size)
        self.files = [dict(sorted(self.tarn.data_files(size, i).items())[:objects]) for i in range(1, count + 1)]
        if min(len(files) for files in self.files) < objects:
            raise Failed(f"of {count} targets one got too few objects: {[len(files) for files in self.files]}")

    def read(self, seconds, through_tarn=True):
        for drive in self.drives:
            drive.model(False)
        for files in self.files:
            drop_from_cache(files.values())
        for drive in self.drives:
            drive.model(True)
        sources = [self.tarn.proxy_urls(files) if through_tarn else list(files.values()) for files in self.files]
        total = read_at_once(self.stage, sources, READERS_A_TARGET, seconds)
        for drive in self.drives:
            drive.model(False)
        return total


def measure_targets(stage):
    stage.need_drive()
    seconds, size, objects = (1, 8 * MIB, 10) if stage.quick else (3, 16 * MIB, 14)
    stage.need_space(int(sum(TARGETS) * objects * HASH_SPARE * size))
    with contextlib.ExitStack() as exits:
        fleets = {count: Fleet(stage, exits, count, size, objects) for count in TARGETS}
        rates = {f"{count} targets": [] for count in TARGETS} | {"8 drives alone": []}
        for _ in range(stage.rounds):
            for count, fleet in fleets.items():
                rates[f"{count} targets"].append(fleet.read(seconds))
            rates["8 drives alone"].append(fleets[8].read(seconds, through_tarn=False))
    raw = {f"{side}, MB/s": spread(values) for side, values in rates.items()}
    command = (f"{READERS_A_TARGET} readers a target, through the proxy's redirect, targets of one emulated drive of "
               f"{DRIVE_RATE / 1e6:.0f} MB/s, {seconds} s")
    for count in TARGETS[1:]:
        ratios = [many / (count * one) for many, one in zip(rates[f"{count} targets"], rates["1 targets"])]
        yield Result(f"targets_{count}", median(ratios), stage.rounds, raw, command, COLD)
    alone = [a / b for a, b in zip(rates["8 targets"], rates["8 drives alone"])]
    yield Result("targets_8_sum", median(alone), stage.rounds, raw, command, COLD)


# --- a rebalance ------------------------------------------------------------------------------------------------------------

FIRST_TARGETS, REBALANCE_RATE, REBALANCE_READERS = 3, 100e6, 6


def is_in_place(tarn, timeout="0s"):
    """True if everything lies where it belongs within `timeout`."""
    words = [str(tarn.stage.programs / "tarn"), "--endpoint", tarn.endpoint, "cluster", "wait", "--timeout", timeout]
    return subprocess.run(words, capture_output=True).returncode == 0


def moved_bytes(tarn):
    return sum(int(count) for i in range(1, tarn.targets + 1)
               for count in re.findall(r"rebalance ended .* bytes=(\d+)", tarn.log(f"t{i}")))


def wait_in_place(tarn):
    if not is_in_place(tarn, "300s"):
        raise Failed("after 300 s names are still misplaced")


class Moving:
    """Readers of all objects of some targets, as fast as they are served: before a change and while objects move because of it."""

    def __init__(self, stage, exits, targets, more):
        self.stage = stage
        self.seconds, self.size, self.count = (2, 16 * MIB, 80) if stage.quick else (6, 32 * MIB, 96)
        stage.need_space(3 * self.count * self.size)
        directory = stage.new_directory("moving")
        self.drives = drives_of(stage, exits, directory, range(1, targets + more + 1), REBALANCE_RATE)
        self.tarn = exits.enter_context(Tarn(stage, directory / "tarn", burst=False, targets=targets))
        names = [f"shard-{i:06}.tar" for i in range(self.count)]
        self.tarn.store(names, self.size)
        wait_in_place(self.tarn)
        self.urls = stage.write_lines("moving.sources", self.tarn.proxy_urls(names) * 100)
        self.before, self.during, self.excess = [], [], []

    def bodies(self, target):
        return self.tarn.data_files(self.size, target)

    def forget(self):
        """Cold, and from here on the drives are as slow as they are."""
        for drive in self.drives:
            drive.model(False)
        for i in range(1, self.tarn.targets + 1):
            drop_from_cache(self.bodies(i).values())
        for drive in self.drives:
            drive.model(True)

    def read(self):
        return mb_a_second(self.stage.readers(self.urls, REBALANCE_READERS, self.seconds))

    def change(self, begin, least):
        """Measures one round. `begin` returns when something moves; `least()` is the number of objects that had to move."""
        self.forget()
        self.before.append(self.read())
        self.forget()
        already = moved_bytes(self.tarn)
        begin()
        self.during.append(self.read())
        if is_in_place(self.tarn):
            raise Failed("all had moved before the readers were through: the data set is too small for this drive")
        wait_in_place(self.tarn)
        self.excess.append((moved_bytes(self.tarn) - already) / (self.size * least()))

    def results(self, row, what):
        """Results of row_foreground and row_moved."""
        for drive in self.drives:
            drive.model(False)
        raw = {"before, MB/s": spread(self.before), "during, MB/s": spread(self.during), "moved / least": spread(self.excess)}
        command = (f"{REBALANCE_READERS} readers of {self.count} objects of {self.size // MIB} MiB through the proxy's redirect while "
                   f"{what}; an emulated drive of {REBALANCE_RATE / 1e6:.0f} MB/s each, default limits")
        ratios = [during / before for during, before in zip(self.during, self.before)]
        yield Result(f"{row}_foreground", median(ratios), len(ratios), raw, command, COLD)
        yield Result(f"{row}_moved", median(self.excess), len(ratios), raw, command, COLD)


def measure_rebalance(stage):
    """Every round a target more."""
    stage.need_drive()
    rounds = min(stage.rounds, 3)
    with contextlib.ExitStack() as exits:
        moving = Moving(stage, exits, FIRST_TARGETS, rounds)
        tarn = moving.tarn

        def join():
            new = tarn.add_target()
            wait_until(lambda: moving.bodies(tarn.targets), 30, f"something moves to {new}")

        for _ in range(rounds):
            moving.change(join, lambda: len(moving.bodies(tarn.targets)))
        yield from moving.results("rebalance", f"a target joins {FIRST_TARGETS} or more")


def measure_drain(stage):
    """Every round another target is in maintenance, and sends all that it has to the others."""
    stage.need_drive()
    rounds = min(stage.rounds, 2)
    with contextlib.ExitStack() as exits:
        moving = Moving(stage, exits, FIRST_TARGETS + rounds, 0)
        tarn = moving.tarn
        for number in range(FIRST_TARGETS + rounds, FIRST_TARGETS, -1):
            had = len(moving.bodies(number))

            def drain(number=number, had=had):
                words = ["node", "maintenance", "start", tarn.nodes[f"t{number}"]["id"]]
                subprocess.run([str(stage.programs / "tarn"), "--endpoint", tarn.endpoint, *words], check=True, capture_output=True)
                wait_until(lambda: len(moving.bodies(number)) < had, 30, f"something moves from t{number}")

            moving.change(drain, lambda had=had: had)
        yield from moving.results("drain", f"a target of {FIRST_TARGETS + 1} or more is drained")


# --- a target is killed -----------------------------------------------------------------------------------------------------

def succeeds(method, url, body=None):
    """True if curl, which follows redirects and does not repeat, gets a 200 and all of its body."""
    words = ["curl", "-s", "-L", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "2", "-X", method, url]
    if body is not None:
        words += ["--data-binary", body]
    result = subprocess.run(words, capture_output=True, text=True)
    return result.returncode == 0 and result.stdout == "200"


def server_of(tarn, name, method, bucket=BUCKET):
    """The name (t1..) of the target to which the proxy sends such requests."""
    _, headers, _ = tarn.call(method, tarn.path(bucket, name), b"" if method == "PUT" else None)
    where = urllib.parse.urlsplit(headers["Location"]).netloc
    return next(node for node, facts in tarn.nodes.items() if urllib.parse.urlsplit(facts["urls"]["public"]).netloc == where)


def seconds_without(tarn, name, method, body=None, bucket=BUCKET):
    """From kill -9 of the owner of `name` until `method` of it succeeds; then the target is started again."""
    owner, url = server_of(tarn, name, method, bucket), tarn.proxy_urls([name], bucket)[0]
    tarn.kill(owner)
    began = time.monotonic()
    wait_until(lambda: succeeds(method, url, body), 30, f"{method} of a name whose owner was killed")
    took = time.monotonic() - began
    tarn.start(owner)
    wait_in_place(tarn)
    return took


def measure_failover(stage, row, method, body, bucket):
    with Tarn(stage, stage.new_directory("failover"), burst=False, targets=3, bucket=bucket) as tarn:
        names = [f"shard-{i:06}.tar" for i in range(stage.rounds)]
        tarn.store(names, MIB)
        took = [seconds_without(tarn, name, method, body) for name in names]
    # The longest round, because a bound holds for every client.
    yield Result(row, max(took), stage.rounds, {"seconds": spread(took)},
                 f"the longest of the rounds, from kill -9 of the owner, then {method} through the proxy's redirect, again and again, until it succeeds", "warm")


def measure_failover_write(stage):
    yield from measure_failover(stage, "failover_write_s", "PUT", "new", None)


COPIES = {"mirror": {"enabled": True, "copies": 2, "domain": "node"}}


def measure_failover_write_copies(stage):
    yield from measure_failover(stage, "failover_write_copies_s", "PUT", "new", COPIES)


def measure_failover_read(stage):
    try:
        yield from measure_failover(stage, "failover_read_s", "GET", None, COPIES)
    except Failed as error:
        if "501" in str(error) or "400" in str(error):
            raise Unavailable(f"no copies on nodes: {error}") from error
        raise


# --- what passes the proxy --------------------------------------------------------------------------------------------------

def exchange_bytes(endpoint, head):
    """Bytes of a request without its body and of the proxy's answer."""
    host = urllib.parse.urlsplit(endpoint)
    with socket.create_connection((host.hostname, host.port), timeout=10) as connection:
        connection.sendall(head)
        got = b""
        while chunk := connection.recv(1 << 16):
            got += chunk
    if not got.startswith((b"HTTP/1.1 302", b"HTTP/1.1 307")):
        raise Failed(f"no redirect: {got[:200]!r}")
    return len(head) + len(got)


def body_bytes_received(tarn):
    _, _, text = tarn.call("GET", "/metrics")
    return sum(float(line.split()[-1]) for line in text.decode().splitlines()
               if line.startswith("tarn_http_body_bytes_received_total"))


def measure_proxy_bytes(stage):
    size, count = (16 if stage.quick else 64) * MIB, 8
    with Tarn(stage, stage.new_directory("proxy-bytes"), burst=False) as tarn:
        file = stage.directory / "upload"
        with open(file, "wb") as upload:
            upload.truncate(size)
        before, passed = body_bytes_received(tarn), 0
        for i in range(count):
            path = tarn.path(BUCKET, f"shard-{i}.tar")
            subprocess.run(["curl", "-sfL", "-T", str(file), tarn.endpoint + path], check=True, timeout=60)
            for method, more in (("PUT", f"Content-Length: {size}\r\nExpect: 100-continue\r\n"), ("GET", "")):
                passed += exchange_bytes(tarn.endpoint, (f"{method} {path} HTTP/1.1\r\nHost: tarn\r\nUser-Agent: curl/7.88.1\r\n"
                                                         f"Accept: */*\r\n{more}Connection: close\r\n\r\n").encode())
            subprocess.run(["curl", "-sfL", "-o", "/dev/null", tarn.endpoint + path], check=True, timeout=60)
        bodies = body_bytes_received(tarn) - before
        file.unlink()
    yield Result("proxy_bytes", (passed + bodies) / (2 * count * size), 1,
                 {"bytes of heads and answers": passed, "bytes of bodies": bodies, "bytes redirected": 2 * count * size},
                 f"curl uploads and reads {count} objects of {size // MIB} MiB; heads are counted at the client's socket, bodies by "
                 "tarn_http_body_bytes_received_total of the proxy", "warm")
