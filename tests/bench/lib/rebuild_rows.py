"""Coded objects heal: how fast a lost node's slices are made again, and how many slices a join moves. Also what readers keep
meanwhile, and beside a scrub."""

import contextlib
import json
import subprocess
import time

from lib.cluster_rows import drives_of, wait_in_place
from lib.coded_rows import CODED, DATA, PARITY, TARGETS, coded_cluster, coding, files_of, forget, full_speed, names_of, wait_readable
from lib.drive_rows import COLD, mb_a_second
from lib.rows import Result
from lib.servers import Tarn
from lib.stage import Failed, median, ratio, rounds_of, spread, wait_until

MIB = 1 << 20

# --- a rebuild --------------------------------------------------------------------------------------------------------------

REBUILD_RATE, REBUILD_READERS, OUT_AFTER = 40e6, 8, 20
# The default floor, 8 MiB/s, is for drives of 200 MB/s; here it has the same share of a slower one.
REBUILD_FLOOR = f"{int(8 * 1024 * REBUILD_RATE / 200e6)}KiB"


def rebuild_reports(tarn):
    """The rebuild report of each target that answers."""
    status, _, body = tarn.call("GET", "/v1/cluster?what=rebuild")
    if status != 200:
        raise Failed(f"what=rebuild: status {status}")
    return [told for told in json.loads(body)["targets"].values() if "state" in told]


def is_rebuilding(tarn):
    return any(told["state"] == "working" and told["left_objects"] for told in rebuild_reports(tarn))


def wait_whole(tarn, seconds, progress=lambda made: None):
    """Until nothing is missing or on the wrong target, twice a second apart; `progress` hears how many bytes were made."""
    deadline, since = time.monotonic() + seconds, None
    while since is None or time.monotonic() - since < 1:
        if time.monotonic() > deadline:
            raise Failed(f"after {seconds} s coded objects are still not whole: {rebuild_reports(tarn)}")
        reports = rebuild_reports(tarn)
        progress(sum(told["bytes"] for told in reports))
        whole = all(told["state"] == "whole" and not told["left_objects"] for told in reports)
        since = (since or time.monotonic()) if whole else None
        time.sleep(0.05)


class Rebuild:
    """Targets that are killed one after another, each for good; what they had is made again at others."""

    def __init__(self, stage, exits, losses):
        self.stage, self.alive = stage, DATA + PARITY + losses
        self.seconds, self.size, count = (2, 16 * MIB, 48) if stage.quick else (6, 32 * MIB, 72)
        stage.need_space(4 * count * self.size)
        self.tarn, self.drives = coded_cluster(
            stage, exits, "rebuild", targets=self.alive, drive_rate=REBUILD_RATE,
            settings=[f"target.out_after={OUT_AFTER}s", f"rebuild.bandwidth_min={REBUILD_FLOOR}"])
        self.names = names_of(count)
        self.tarn.store(self.names, self.size, CODED)
        wait_whole(self.tarn, 60)
        self.urls = stage.write_lines("rebuild.sources", self.tarn.proxy_urls(self.names, CODED) * 100)
        self.shares, self.raw_rates, self.excess, self.before, self.during = [], [], [], [], []

    def forget(self):
        forget(self.tarn, self.drives, range(1, self.alive + 1))

    def lose(self):
        """Kills the last target; returns how many bytes of slices it had."""
        lost = sum(size for _, _, _, size in files_of(self.tarn, [self.alive]))
        self.tarn.kill(f"t{self.alive}")
        self.alive -= 1
        return lost

    def wait_begin(self):
        wait_until(lambda: is_rebuilding(self.tarn), OUT_AFTER + 60, "a rebuild begins", every=0.05)

    def read(self):
        return self.stage.readers(self.urls, REBUILD_READERS, self.seconds)

    def rate(self):
        """One round of rebuild_rate: no client reads."""
        lost = self.lose()
        self.forget()
        self.wait_begin()
        began, ended, seen = time.monotonic(), None, None
        least = [drive.head()["bytes"] for drive in self.drives]

        def progress(made):
            nonlocal ended, seen
            if made != seen:
                ended, seen = time.monotonic(), made

        wait_whole(self.tarn, 240, progress)
        took = ended - began
        passed = [drive.head()["bytes"] - before for drive, before in zip(self.drives, least)][:self.alive]
        # What is lost is written once and read from DATA others: more than that is not what a drive has to do.
        needed = min(1.0, lost * (DATA + 1) / sum(passed))
        self.raw_rates.append({"MB/s": lost / 1e6 / took, "s": took, "lost, MB": lost / 1e6, "through drives, MB": sum(passed) / 1e6,
                               "through the busiest, MB": max(passed) / 1e6})
        self.shares.append(max(passed) * needed / REBUILD_RATE / took)
        self.excess.append((sum(passed) - lost) / (DATA * lost))

    def foreground(self):
        """One round of rebuild_foreground: readers without the target, before and while its slices are made again."""
        self.lose()
        wait_readable(self.tarn, self.names)
        self.forget()
        self.before.append(self.read())
        if is_rebuilding(self.tarn):
            raise Failed("the rebuild began before the readers were through")
        self.forget()
        self.wait_begin()
        self.during.append(self.read())
        if not is_rebuilding(self.tarn):
            raise Failed("the rebuild was over before the readers were through: the data set is too small for these drives")
        wait_whole(self.tarn, 240)


def measure_rebuild(stage):
    stage.need_drive()
    rounds = 1 if stage.quick else min(stage.rounds, 2)
    with contextlib.ExitStack() as exits:
        rebuild = Rebuild(stage, exits, 2 * rounds)
        for _ in range(rounds):
            rebuild.rate()
            rebuild.foreground()
        full_speed(rebuild.drives)
    drive = f"an emulated drive of {REBUILD_RATE / 1e6:.0f} MB/s each, rebuild.bandwidth_min {REBUILD_FLOOR}"
    raw = {key: spread([each[key] for each in rebuild.raw_rates]) for key in rebuild.raw_rates[0]}
    yield Result("rebuild_rate", median(rebuild.shares), rounds, raw,
                 f"a target of {DATA + PARITY + 2 * rounds} or less is lost; bytes that its slices make pass through the busiest drive, over its "
                 f"rate and the time from the first slice to the last; {drive}", COLD)
    yield Result("rebuild_read", median(rebuild.excess), rounds, {"read / least": spread(rebuild.excess)} | raw,
                 f"the same: bytes that pass through all drives without what is made, over {DATA} times what is made", COLD)
    before, during = ([mb_a_second(each) for each in side] for side in (rebuild.before, rebuild.during))
    p99 = {side: [each["p99_s"] for each in its] for side, its in (("before", rebuild.before), ("during", rebuild.during))}
    command = f"{REBUILD_READERS} readers of all objects, {rebuild.seconds} s, after a target died, then while its slices are made again; {drive}"
    yield Result("rebuild_foreground", ratio(during, before), rounds,
                 {"before, MB/s": spread(before), "during, MB/s": spread(during)}, command, COLD)
    yield Result("rebuild_foreground_p99", ratio(p99["during"], p99["before"]), rounds,
                 {f"{side}, s": spread(its) for side, its in p99.items()}
                 | {"GETs": sum(each["sources"] for each in rebuild.before + rebuild.during)},
                 f"99 of 100 whole GETs of {rebuild.size // MIB} MiB took at most so long: {command}", COLD)


# --- small objects ----------------------------------------------------------------------------------------------------------

SMALL = 64 << 10


def measure_small(stage):
    """Objects of 64 KiB, cut into slices, on the drives of this machine: the processors are the limit."""
    rounds, count = (1, 300) if stage.quick else (min(stage.rounds, 3), 3000)
    alive, rates, seconds = DATA + PARITY + rounds, [], []
    with contextlib.ExitStack() as exits:
        tarn, _ = coded_cluster(stage, exits, "small", targets=alive, settings=["target.out_after=3s"])
        bucket = f"{CODED}-small"
        tarn.make_bucket(bucket, {"ec": coding("striped")["ec"] | {"objsize_limit": SMALL - 1}})
        wait_in_place(tarn)
        tarn.store(names_of(count), SMALL, bucket)
        wait_whole(tarn, 60)
        for _ in range(rounds):
            lost = len(files_of(tarn, [alive]))
            tarn.kill(f"t{alive}")
            alive -= 1
            wait_until(lambda: is_rebuilding(tarn), 60, "a rebuild begins", every=0.02)
            began, ended, seen = time.monotonic(), None, None

            def progress(made):
                nonlocal ended, seen
                if made != seen:
                    ended, seen = time.monotonic(), made

            wait_whole(tarn, 240, progress)
            seconds.append(ended - began)
            rates.append(lost / (ended - began))
    yield Result("rebuild_small_objects_per_s", median(rates), rounds, {"objects/s": spread(rates), "s": spread(seconds)},
                 f"a target of {DATA + PARITY + rounds} or less is lost that has a slice of most of {count} objects of 64 KiB, {DATA}+{PARITY}; slices "
                 "made again a second, CPU and drive of this machine", "warm")


# --- a scrub ----------------------------------------------------------------------------------------------------------------

SCRUB_RATE, SCRUB_READERS, SCRUBBED_TARGETS = 100e6, 6, 3


def scrub_is_at_work(tarn):
    """True while a drive is in a pass that was asked for, also after that was stopped."""
    status, _, body = tarn.call("GET", "/v1/cluster?what=scrub")
    if status != 200:
        raise Failed(f"what=scrub: status {status}")
    drives = [drive for told in json.loads(body)["targets"].values() for drive in told.get("drives", {}).values()]
    return any(drive["running"] and drive["job"] for drive in drives)


def scrub(tarn, verb):
    """`tarn scrub VERB`, which returns at once."""
    words = [str(tarn.stage.programs / "tarn"), "--endpoint", tarn.endpoint, "scrub", verb]
    result = subprocess.run(words, capture_output=True, text=True)
    if result.returncode != 0:
        raise Failed(f"{' '.join(words)}: exit {result.returncode}: {result.stdout}{result.stderr}")


def measure_scrub(stage):
    """Readers of plain objects, cold, while nothing else happens and while all drives are read through as fast as they may."""
    stage.need_drive()
    seconds, size, count = (2, 16 * MIB, 60) if stage.quick else (6, 32 * MIB, 90)
    stage.need_space(2 * count * size)
    with contextlib.ExitStack() as exits:
        directory = stage.new_directory("scrub")
        drives = drives_of(stage, exits, directory, range(1, SCRUBBED_TARGETS + 1), SCRUB_RATE)
        tarn = exits.enter_context(Tarn(stage, directory / "tarn", burst=False, targets=SCRUBBED_TARGETS))
        tarn.store(names_of(count), size)
        wait_in_place(tarn)
        urls = stage.write_lines("scrub.sources", tarn.proxy_urls(names_of(count)) * 100)
        scrubbed = []

        def read(with_scrub):
            forget(tarn, drives)
            if with_scrub:
                scrub(tarn, "start")
                wait_until(lambda: scrub_is_at_work(tarn), 30, "the scrub begins", every=0.05)
            before = sum(drive.head()["bytes"] for drive in drives)
            burst = stage.readers(urls, SCRUB_READERS, seconds)
            if with_scrub:
                if not scrub_is_at_work(tarn):
                    raise Failed("the scrub was over before the readers were through: the data set is too small for these drives")
                scrubbed.append((sum(drive.head()["bytes"] for drive in drives) - before - burst["bytes"]) / 1e6 / burst["seconds"])
                scrub(tarn, "stop")  # the drives go on with it in a week
            return mb_a_second(burst)

        measured = rounds_of(stage, {"beside a scrub": lambda _: read(True), "alone": lambda _: read(False)})
        full_speed(drives)
    yield Result("scrub_foreground", ratio(measured["beside a scrub"], measured["alone"]), stage.rounds,
                 {f"{side}, MB/s": spread(values) for side, values in measured.items()} | {"read beside them, MB/s": spread(scrubbed)},
                 f"{SCRUB_READERS} readers of {SCRUBBED_TARGETS} targets, an emulated drive of {SCRUB_RATE / 1e6:.0f} MB/s each, {seconds} s, "
                 "while `tarn scrub start` reads all drives through without a limit", COLD)


# --- a join -----------------------------------------------------------------------------------------------------------------

def measure_join(stage):
    """Every round a target more."""
    rounds = min(stage.rounds, 3)
    size, count = (4 * MIB, 60) if stage.quick else (8 * MIB, 120)
    stage.need_space(3 * count * size)
    excess, shares = [], []
    with contextlib.ExitStack() as exits:
        tarn, _ = coded_cluster(stage, exits, "join")
        tarn.store(names_of(count), size, CODED)
        wait_whole(tarn, 60)
        for _ in range(rounds):
            before = {path for _, _, path, _ in files_of(tarn)}
            made = sum(told["bytes"] for told in rebuild_reports(tarn))
            tarn.add_target()
            wait_until(lambda: files_of(tarn, [tarn.targets]), 60, "something moves to it")
            wait_whole(tarn, 240)
            wait_in_place(tarn)
            told = sum(told["bytes"] for told in rebuild_reports(tarn)) - made
            written = sum(size for _, _, path, size in files_of(tarn) if path not in before)
            least = sum(size for _, _, _, size in files_of(tarn, [tarn.targets]))
            # Files show what was written anew and is there; what they count shows what was written twice.
            excess.append(max(told, written) / least)
            shares.append(least / (count * size * (DATA + PARITY) / DATA / tarn.targets))
    yield Result("ec_join_moved", median(excess), rounds,
                 {"moved / least": spread(excess), "on the new one / even share": spread(shares)},
                 f"a target joins {TARGETS} or more; bytes of slices that are written because of it over those on the new one in the end; "
                 f"{count} objects of {size // MIB} MiB, {DATA}+{PARITY}", "warm")
