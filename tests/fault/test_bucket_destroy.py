"""Buckets that are destroyed and made again under writers (faults.md L6)."""

import os
import random
import threading
import time

from harness import attribute
from harness.waiting import wait_until

ROUNDS = 12


def test_nothing_outlives_its_bucket(cluster, seed):
    """A PUT is acknowledged before the bucket goes, or refused: whatever was acknowledged behind it is in the next one, and
    nothing else is. No file of a destroyed bucket stays."""
    rng = random.Random(seed)
    bucket, acknowledged, late = "goes-and-comes", 0, []
    for turn in range(ROUNDS):
        cluster.create_bucket(bucket)
        results, enough = [], threading.Event()

        def write(number):
            index = 0
            while not enough.is_set():
                name, begun = f"w{number}-{index}", time.monotonic()
                answer = cluster.put(bucket, name, b"%d" % turn)
                results.append((name, begun, answer.status))
                index += 1

        writers = [threading.Thread(target=write, args=(i,)) for i in range(4)]
        for writer in writers:
            writer.start()
        time.sleep(rng.uniform(0.02, 0.15))
        assert cluster.destroy_bucket(bucket).status == 200
        gone = time.monotonic()
        again = turn % 2 == 0
        if again:
            cluster.create_bucket(bucket)
        time.sleep(0.05)
        enough.set()
        for writer in writers:
            writer.join()
        taken = {name for name, _, status in results if status == 200}
        acknowledged += len(taken)
        if again:
            behind = {name for name, begun, status in results if status == 200 and begun > gone}
            listed = set(cluster.names(bucket))
            assert behind <= listed <= taken | {name for name, _, status in results if status >= 500}
            assert cluster.destroy_bucket(bucket).status == 200
        else:
            late += [(name, status) for name, begun, status in results if begun > gone and status == 200]
    print(f"injected: {ROUNDS} buckets destroyed under {acknowledged} acknowledged PUTs; detected: {len(late)} acknowledged behind it")
    assert acknowledged > 10 * ROUNDS and not late, late[:5]
    cluster.create_bucket(bucket)
    assert cluster.names(bucket) == []
    cluster.destroy_bucket(bucket)

    def left():
        return [path for target in cluster.targets() for drive in cluster.drives(target)
                for path in (drive / "data").glob("*/*") if is_of(path, bucket)]

    wait_until(lambda: not left(), 10, "no file of it is left")


def is_of(path, bucket):
    try:
        return attribute.decode(os.getxattr(path, "user.tarn"))["bucket"] == bucket
    except OSError:
        return False
