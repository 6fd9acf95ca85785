"""The rows: names, baselines and targets. docs/performance.md says why each target is what it is; a test compares the two."""

from dataclasses import dataclass, field

NGINX = "nginx sendfile"
DAV = "nginx WebDAV"


@dataclass(frozen=True)
class Row:
    name: str
    of: str  # the baseline of a ratio; for a figure with a unit, what it counts
    want: str  # "<=", ">=" or "+-": how the value must lie to the target
    target: float | None  # None: reported, nothing promised
    slack: float = 0  # for "+-"

    def passes(self, value):
        """True or False; None when nothing is promised."""
        if self.target is None:
            return None
        if self.want == "<=":
            return value <= self.target
        if self.want == ">=":
            return value >= self.target
        return abs(value - self.target) <= self.slack

    def target_text(self):
        if self.target is None:
            return "-"
        if self.want == "+-":
            return f"{self.target - self.slack:g} to {self.target + self.slack:g}"
        return f"{self.want} {self.target:g}"


def _get_rows():
    for size in ("1GiB", "64MiB", "1MiB"):
        yield Row(f"get_{size}_cpu", NGINX, "<=", 1.00)
        yield Row(f"get_{size}_rate", NGINX, ">=", 1.05)
    yield Row("get_4KiB_cpu", NGINX, "<=", 0.90)
    yield Row("get_4KiB_rate", NGINX, ">=", 1.00)


def _put_rows():
    for size in ("1GiB", "64MiB", "1MiB", "4KiB"):
        small = size == "4KiB"
        yield Row(f"put_{size}_cpu", DAV, "<=", 2.0 if small else 1.15)
        yield Row(f"put_{size}_rate", DAV, ">=", None if small else 1.00)
        yield Row(f"put_{size}_synced_cpu", DAV, "<=", None)
        yield Row(f"put_{size}_synced_rate", DAV, ">=", 0.5 if size == "64MiB" else None)


def _coded_rows():
    for layout in ("striped", "whole"):
        yield Row(f"ec_put_{layout}_cpu", "plain PUT x bytes stored, beside 0.06 s/GB", "<=", 1.00)
        yield Row(f"ec_put_{layout}_rate", "plain PUT", ">=", None)
    yield Row("degraded_get_whole", "the same GETs before their owner died", ">=", 0.87)
    yield Row("degraded_get_striped", "the same GETs before two nodes died", ">=", 0.7)
    yield Row("ec_failover_read_s", "seconds from kill -9, coded objects", "<=", 1)
    yield Row("striped_get_4_drives", "one such drive", ">=", 3.5)
    yield Row("rebuild_rate", "what its busiest drive allows", ">=", 0.7)
    yield Row("rebuild_read", "as many bytes as slices need", "<=", 1.05)
    yield Row("rebuild_foreground", "readers before it", ">=", 0.7)
    yield Row("rebuild_foreground_p99", "their GETs before it", "<=", 2)
    yield Row("rebuild_small_objects_per_s", "objects of 64 KiB a second", ">=", None)
    yield Row("scrub_foreground", "readers without it", ">=", 0.95)
    yield Row("ec_join_moved", "the least possible", "<=", 1.1)


ROWS = {row.name: row for row in [
    *_get_rows(),
    Row("get_4KiB_redirected_cpu", "one GET of nginx", "<=", 2.2),
    Row("redirect_cpu", "nginx return 302", "<=", 1.00),
    Row("redirect_rate", "nginx return 302", ">=", 1.00),
    *_put_rows(),
    Row("list_json_names_per_s", "names a second", ">=", 400_000),
    Row("list_msgpack_names_per_s", "names a second", ">=", 500_000),
    Row("idle_conn_KiB", "KiB a connection, user space", "<=", 8),
    Row("transfer_KiB", "KiB a transfer, user space", "<=", 16_384),
    Row("start_first_put_s", "seconds from exec", "<=", 0.5),
    Row("start_100k_s", "seconds from exec", "<=", 1.0),
    Row("readers_4_on_one_drive", "one reader", ">=", 0.8),
    Row("readers_16_on_one_drive", "one reader", ">=", 0.7),
    Row("readers_64_on_one_drive", "one reader", ">=", 0.7),
    Row("readers_16_and_4_uploads", "one reader", ">=", 0.65),
    Row("drives_sum", "the drives alone", ">=", 0.95),
    Row("second_epoch", "the first epoch", "+-", 1.00, 0.03),
    Row("stall_200MBps", "points of time stalled more than with local files", "<=", 2),
    Row("stall_1GBps", "points of time stalled more than with local files", "<=", 2),
    *(Row(f"targets_{count}", f"{count} times one target", ">=", 0.97) for count in (2, 4, 8)),
    Row("targets_8_sum", "their drives alone", ">=", 0.95),
    Row("rebalance_foreground", "readers before it", ">=", 0.7),
    Row("rebalance_moved", "the least possible", "<=", 1.05),
    Row("drain_foreground", "readers before it", ">=", 0.7),
    Row("drain_moved", "the least possible", "<=", 1.05),
    Row("failover_read_s", "seconds from kill -9, objects with two copies", "<=", 3),
    Row("failover_write_s", "seconds from kill -9", "<=", 5),
    Row("failover_write_copies_s", "seconds from kill -9, objects with two copies", "<=", 5),
    Row("proxy_bytes", "bytes redirected", "<=", 1e-4),
    *_coded_rows(),
    Row("cold_get_rate", "the same GET from upstream", ">=", 1.0),
    Row("cold_get_first_byte", "the same GET from upstream", "<=", 1.2),
    Row("cold_get_shared_link", "the same GET from upstream", ">=", 1.0),
    Row("write_through_rate", "the same PUT to upstream", ">=", 0.9),
    Row("cold_get_shared", "bytes from upstream, of its size", "<=", 1.0),
    Row("warm_get_rate", "the same GET, cold", ">=", None),
    Row("prefetch_4_connections", "over one connection", ">=", 3.5),
    Row("full_get_rate", "GETs from a cache that is half full", ">=", 0.9),
    Row("refetch_bytes", "bytes that a drive lost", "<=", 1.0),
    *(Row(f"slices_{work}_{code}", "ISA-L alone", ">=", 0.9) for work in ("encode", "decode") for code in ("4_2", "8_2", "10_4")),
]}


@dataclass
class Result:
    """What was measured for one row, or why it could not be."""
    name: str
    value: float | None = None
    rounds: int = 0
    raw: dict = field(default_factory=dict)  # the figures of all sides, medians unless they say otherwise
    command: str = ""
    caches: str = ""
    unavailable: str = ""

    def record(self):
        row = ROWS[self.name]
        record = {"name": self.name, "value": self.value, "of": row.of, "target": row.target, "want": row.target_text()}
        if self.value is None:
            return record | {"unavailable": self.unavailable}
        return record | {"pass": row.passes(self.value), "rounds": self.rounds, "raw": self.raw, "caches": self.caches,
                         "command": self.command}


def number(value):
    """Four digits that matter, without an exponent."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    return str(value)


def verdict(record):
    if record["value"] is None:
        return "not measured"
    return {True: "ok", False: "MISSED", None: "no target"}[record["pass"]]


def text_of(record):
    """A record for people: one line, then what lies behind it."""
    name = f"{record['name']:26}"
    if record["value"] is None:
        return f"{name} not measured: {record['unavailable']}"
    lines = [f"{name} {number(record['value']):>9}  {record['of']}; want {record['want']}: {verdict(record)}"]
    for side, figures in record["raw"].items():
        if isinstance(figures, dict):
            figures = ", ".join(f"{key} {number(value)}" for key, value in figures.items())
        lines.append(f"    {side}: {number(figures)}")
    lines.append(f"    {record['rounds']} rounds; caches: {record['caches']}; {record['command']}")
    return "\n".join(lines)


def markdown_of(records):
    """The table of docs/performance.md, with what was measured filled in."""
    measured = {record["name"]: record for record in records}
    lines = ["| row | value | of | target | |", "|---|---|---|---|---|"]
    for row in ROWS.values():
        record = measured.get(row.name)
        value = number(record["value"]) if record and record["value"] is not None else ""
        lines.append(f"| `{row.name}` | {value} | {row.of} | {row.target_text()} | {verdict(record) if record else ''} |")
    return "\n".join(lines)
