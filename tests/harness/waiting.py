"""Waiting for a condition with a deadline. No test sleeps for a fixed time in the hope that it is enough."""

import os
import time

SLOWDOWN = float(os.environ.get("TARN_TEST_SLOWDOWN", "1"))


def scaled(seconds):
    """`seconds` of an ordinary build, for the build that is tested."""
    return seconds * SLOWDOWN


def wait_until(condition, seconds, what, every=0.02):
    """Polls `condition()` until it is true and returns its answer; fails the test after `seconds`, naming `what`."""
    deadline = time.monotonic() + scaled(seconds)
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {scaled(seconds):g} s: {what} (last answer: {answer!r})")
        time.sleep(every)
