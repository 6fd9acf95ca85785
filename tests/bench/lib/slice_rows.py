"""The streams of ec/ beside the functions of ISA-L that they call: CPU time of one thread, no cluster."""

from lib.rows import Result
from lib.stage import BURST_SECONDS, median, rounds_of, spread

CODES = ("4+2", "8+2", "10+4")


def row_of(work, code):
    return f"slices_{work}_{code.replace('+', '_')}"


def measure(stage, work, code):
    """ISA-L's time over what the stream takes beyond the checksums of its blocks, within each round."""
    words = ["--code", code, "--work", work, "--seconds", BURST_SECONDS]
    bursts = rounds_of(stage, {"all": lambda _: stage.tool("tarn-bench-slices", *words)})["all"]
    rounds = [{side: 1e9 * its["cpu_s"] / its["bytes"] for side, its in burst.items()} for burst in bursts]
    raw = {f"{side}, cpu s/GB": spread([one[side] for one in rounds]) for side in rounds[0]}
    raw["ISA-L and CRC32C over the stream with both"] = spread([(one["isal"] + one["crc32c"]) / one["stream"] for one in rounds])
    value = median([one["isal"] / (one["stream"] - one["crc32c"]) for one in rounds])
    yield Result(row_of(work, code), value, stage.rounds, raw, " ".join(map(str, ["tarn-bench-slices", *words])),
                 "the processor's: two stripes")
