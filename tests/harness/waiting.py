"""Waiting for a condition with a deadline. No test sleeps for a fixed time in the hope that it is enough."""

import os
import time

SLOWDOWN = float(os.environ.get("TARN_TEST_SLOWDOWN", "1"))


def scaled(seconds):
    """`seconds` of an ordinary build, for the build that is tested."""
    return seconds * SLOWDOWN


IN_GATE = os.environ.get("TARN_TEST_TIER") == "gate"
# In the gate a deadline only guards against hanging: what is to be fast is asserted by deep tests and measured by tests/bench.
GUARD = 90 if IN_GATE else 0


def guarded(seconds):
    """`seconds` as a limit that only guards against hanging."""
    return max(scaled(seconds), GUARD)


def assert_within(seconds, bound, what=""):
    """Fails the test when `seconds` is not below the bound of an ordinary build. Not in the gate, where the machine may be
    busy: tests/run deep asserts it."""
    print(f"took {seconds:.2f} s of {bound:g} s: {what}")
    assert IN_GATE or seconds < scaled(bound), what


def wait_until(condition, seconds, what, every=0.02):
    """Polls `condition()` until it is true and returns its answer; fails the test after `seconds`, naming `what`."""
    seconds = guarded(seconds)
    deadline = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what} (last answer: {answer!r})")
        time.sleep(every)
