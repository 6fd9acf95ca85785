"""How much of a fault one run of a test injects: `tests/run` little of it, `tests/soak` more, with TARN_TEST_DOSE=full."""

import os

FULL = os.environ.get("TARN_TEST_DOSE") == "full"


def dose(some, full):
    return full if FULL else some
