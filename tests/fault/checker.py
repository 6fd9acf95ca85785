"""Judges a history: is there any order of the operations that explains what every client saw?

A name is a linearizable register (docs/reliability.md). Four checkers look for what cannot be explained:

1. `check_integrity` and `check_register`: near linear. Every body is one value, whole. Values form zones in
   time that may not overlap (Gibbons & Korach). An object that was acknowledged is not missing.
2. `check_linearizable`: a search for an order (Wing & Gong, Lowe), one name at a time. Exact.
3. `check_lists`: what must, may and must not be in a list.
4. `check_final`: after everything is quiet, GET, HEAD and LIST say the same, and it is explained.

Writes without an answer, or with a 5xx, may take effect at any time up to the end, once, or never. Answers
marked Tarn-Stale are old by contract: their bodies are judged, their age is not.
"""

import bisect
import collections
import dataclasses
import math

from history import UNKNOWN, value_bytes

ABSENT = None
END = math.inf


@dataclasses.dataclass
class Report:
    violations: list = dataclasses.field(default_factory=list)
    names: int = 0
    operations: int = 0
    unknown: int = 0
    stale: int = 0
    given_up: int = 0  # names whose search was too long; checker 1 still judged them

    @property
    def ok(self):
        return not self.violations

    def __str__(self):
        head = (
            f"{self.operations} operations on {self.names} names, {self.unknown} without a certain outcome, "
            f"{self.stale} stale answers, {self.given_up} searches given up: {len(self.violations)} violations"
        )
        return "\n".join([head, *self.violations[:20]])


def check(ops, search=True, budget=200_000, final=None):
    """All checkers over one history. `final`: what `check_final` takes."""
    report = Report()
    by_name = collections.defaultdict(list)
    lists = []
    for op in ops:
        if op.op == "list":
            lists.append(op)
        else:
            by_name[op.key].append(op)
    report.operations, report.names = len(ops), len(by_name)
    report.stale = sum(op.stale for op in ops)

    registers = {}
    for key, mine in by_name.items():
        register = Register(key, mine)
        registers[key] = register
        report.unknown += register.unknown
        found = register.integrity_violations or check_register(register)
        if not found and search:
            verdict = check_linearizable(register, budget)
            if verdict is None:
                report.given_up += 1
            elif verdict:
                found = [verdict]
        report.violations += found
    report.violations += check_lists(registers, lists)
    if final:
        report.violations += check_final(registers, *final)
    return report


@dataclasses.dataclass(slots=True)
class Event:
    """An operation as the register sees it: what it needs (`needs`), and what it leaves (`sets`)."""

    call: float
    ret: float
    op: object
    needs: tuple = ()  # ("is", value or ABSENT), ("present",), ("not", value) or nothing
    sets: tuple = ()  # (value or ABSENT,) or nothing
    optional: bool = False


class Register:
    """All operations on one name, with versions identified."""

    def __init__(self, key, ops):
        self.key = key
        self.ops = ops
        self.puts = {}  # value -> the PUT that wrote it
        self.by_etag = {}  # ETag -> value
        self.integrity_violations = []
        self.events = []
        self.unknown = 0
        self._find_values()
        for op in ops:
            event = self._event(op)
            if event:
                self.events.append(event)
        self.events.sort(key=lambda event: (event.call, event.ret))

    def _wrong(self, op, text):
        self.integrity_violations.append(f"{text}: {op.line()}")

    def _find_values(self):
        for op in self.ops:
            if op.op == "put":
                self.puts[op.value] = op
                if op.etag and op.outcome == "done":
                    self._bind(op, op.value)
        for op in self.ops:
            if op.wrong:
                self._wrong(op, op.wrong)
            elif op.if_match and op.op == "get" and op.outcome == "done" and op.etag != op.if_match:
                self._wrong(op, "another version than the one that was asked for")
            elif op.op == "get" and op.outcome == "done":
                self._find_value_of(op)

    def _bind(self, op, value):
        """An ETag names one version, and a version has one ETag."""
        if self.by_etag.setdefault(op.etag, value) != value:
            self._wrong(op, f"the ETag is that of another version ({self.by_etag[op.etag]:x})")

    def _find_value_of(self, op):
        if op.value is None:  # too short to tell: by its bytes, then by its ETag
            same = [value for value in self.puts if self._could_be(op, value)]
            if len(same) != 1 and op.etag in self.by_etag and self.by_etag[op.etag] in same:
                same = [self.by_etag[op.etag]]
            if not same:
                self._wrong(op, "no client wrote these bytes")
                return
            if self.by_etag.get(op.etag, same[0]) not in same:
                self._wrong(op, "these bytes are not those of the version that the ETag names")
                return
            if len(same) > 1:
                return
            op.value = same[0]
        put = self.puts.get(op.value)
        if put is None:
            self._wrong(op, f"value {op.value:x} was never written to this name")
        elif put.outcome in ("refused", "precondition"):
            self._wrong(op, f"value {op.value:x} was refused with {put.status}")
        elif put.call > op.ret:
            self._wrong(op, f"value {op.value:x} was read before it was written")
        elif op.offset + op.length > put.length or (op.status == 200 and op.length != put.length):
            self._wrong(op, f"{op.length} bytes from {op.offset} on of an object of {put.length}")
        elif op.total not in (-1, put.length):
            self._wrong(op, f"the answer says {op.total} bytes of an object of {put.length}")
        elif op.etag:
            self._bind(op, op.value)

    def _could_be(self, op, value):
        put = self.puts[value]
        end = op.offset + op.length
        if put.outcome in ("refused", "precondition") or end > put.length or op.length > 32:
            return False
        if op.status == 200 and op.length != put.length:
            return False
        body = value_bytes(value, op.length, op.offset)  # its ends overlap, or meet
        return (body[:16].hex(), body[-16:].hex()) == (op.first, op.last)

    def _event(self, op):
        outcome = op.outcome
        if op.op == "put":
            needs = ()
            if op.if_none_match:
                needs = ("is", ABSENT)
            elif op.if_match:
                # An ETag that only a HEAD can have told belongs to a PUT whose answer was lost.
                needs = ("is", self.by_etag[op.if_match]) if op.if_match in self.by_etag else ("present",)
            if outcome == "done":
                return Event(op.call, op.ret, op, needs, (op.value,))
            if outcome == UNKNOWN:
                self.unknown += 1
                return Event(op.call, END, op, needs, (op.value,), optional=True)
            if outcome == "precondition" and op.if_none_match:
                return Event(op.call, op.ret, op, ("present",))
            if outcome == "precondition" and op.if_match:
                return Event(op.call, op.ret, op, ("not", self.by_etag.get(op.if_match, op.if_match)))
            return None
        if op.op == "delete":
            if outcome == "done":
                return Event(op.call, op.ret, op, (), (ABSENT,))
            if outcome == UNKNOWN:
                self.unknown += 1
                return Event(op.call, END, op, (), (ABSENT,), optional=True)
            return Event(op.call, op.ret, op, ("is", ABSENT)) if outcome == "absent" else None
        if op.stale:
            return None
        if outcome == "absent":
            return Event(op.call, op.ret, op, ("is", ABSENT))
        if outcome == "precondition" and op.if_match:
            return Event(op.call, op.ret, op, ("not", self.by_etag.get(op.if_match, op.if_match)))
        if outcome != "done":
            return None
        value = op.value
        if op.op == "head":
            if op.etag not in self.by_etag:
                return Event(op.call, op.ret, op, ("present",))
            value = self.by_etag[op.etag]
            if value in self.puts and op.total not in (-1, self.puts[value].length):
                self._wrong(op, f"HEAD says {op.total} bytes of an object of {self.puts[value].length}")
        if value is None:
            return Event(op.call, op.ret, op, ("present",))
        return Event(op.call, op.ret, op, ("is", value))

    def zones(self):
        """value -> (first, last): some operation saw or made the value before `first`, some other one after
        `last`. Only of values that certainly existed."""
        first, last, certain = {}, {}, set()
        for event in self.events:
            values = [event.sets[0]] if event.sets and event.sets[0] is not ABSENT else []
            if event.needs[:1] == ("is",) and event.needs[1] is not ABSENT and not event.optional:
                values.append(event.needs[1])
            for value in values:
                first[value] = min(first.get(value, END), event.ret)
                last[value] = max(last.get(value, -END), event.call)
                if not event.optional:
                    certain.add(value)
        return {value: (first[value], last[value]) for value in certain}


def _line(register, text, *events):
    shown = "; ".join(event.op.line() for event in events)
    return f"{register.key[0]}/{register.key[1]}: {text}: {shown}"


def check_register(register):
    """Checker 1. Finds most of what can go wrong, in n log n; what it finds is certain."""
    events = register.events
    writes = {event.sets[0]: event for event in events if event.sets and event.sets[0] is not ABSENT}
    for event in events:
        if event.needs[:1] == ("is",) and event.needs[1] is not ABSENT and not event.optional:
            write = writes.get(event.needs[1])
            if write is None:
                return [_line(register, "saw a version that no client wrote", event)]
            if write.call > event.ret:
                return [_line(register, "saw a version before it was written", event, write)]

    # While a value was certainly there, no other may have been, and it was not absent.
    zones = register.zones()
    forward = sorted((low, high, value) for value, (low, high) in zones.items() if low < high)
    for (_, high, value), (low, _, other) in zip(forward, forward[1:]):
        if low < high:
            return [_line(register, f"values {value:x} and {other:x} alternate", writes[value], writes[other])]
    points = [(high, low, f"value {value:x}", writes[value])
              for value, (low, high) in zones.items() if low >= high]
    points += [(event.call, event.ret, "absence", event) for event in events
               if not event.optional and ABSENT in event.sets + event.needs[1:2]]
    starts = [low for low, _, _ in forward]
    for call, ret, what, event in points:
        index = bisect.bisect_left(starts, call) - 1
        if index >= 0 and ret < forward[index][1]:
            value = forward[index][2]
            return [_line(register, f"{what} while value {value:x} was there", event, writes[value])]
    return _check_lost(register)


def _check_lost(register):
    """An object that was there, and that nothing can have deleted since, is not absent."""
    seen = sorted((event.ret, event.call, index) for index, event in enumerate(register.events)
                  if not event.optional and _shows_presence(event))
    latest, best = [], None  # by time of return: the sight with the latest call
    for ret, call, index in seen:
        best = max(best, (call, index)) if best else (call, index)
        latest.append((ret, best))
    deletes = sorted((event.call, event.ret) for event in register.events if event.sets == (ABSENT,))
    longest = []  # by time of call: the latest return
    for call, ret in deletes:
        longest.append((call, max(ret, longest[-1][1]) if longest else ret))
    for event in register.events:
        if event.optional or event.needs != ("is", ABSENT):
            continue
        index = bisect.bisect_left(latest, event.call, key=lambda pair: pair[0]) - 1
        if index < 0:
            continue
        call, sight = latest[index][1]
        possible = bisect.bisect_right(longest, event.ret, key=lambda pair: pair[0]) - 1
        if possible < 0 or longest[possible][1] < call:
            return [_line(register, "lost", event, register.events[sight])]
    return []


def _shows_presence(event):
    if event.sets:
        return event.sets[0] is not ABSENT
    return event.needs == ("present",) or (event.needs[:1] == ("is",) and event.needs[1] is not ABSENT)


def check_linearizable(register, budget=200_000):
    """Checker 2. A sentence when no order explains the history, "" when one does, None when the search was
    given up after `budget` steps."""
    return _Search(register).run(budget)


def holds(needs, state):
    """True if the state of a name is what an operation needs."""
    if not needs:
        return True
    if needs[0] == "is":
        return state == needs[1]
    if needs[0] == "present":
        return state is not ABSENT
    return state != needs[1]


class _Search:
    """Depth first over (what is done, state), each visited once.

    What keeps it short: an observation that the state satisfies is taken at once (it changes nothing); a
    value that a reader has still to see is not overwritten (it never comes back: values are unique). A write
    whose readers have all begun is over in an instant. The order of such writes does not matter if they ask the
    same of the state before them, except for the time that each has left: only the most urgent is tried.
    So are deletes. Values that no event needs any longer are one state.
    """

    def __init__(self, register):
        self.register = register
        events = register.events
        asked = {event.needs[1] for event in events if event.needs[:1] == ("not",)}
        needed = asked | {event.needs[1] for event in events if event.needs[:1] == ("is",)}
        self.tells_presence = any(event.needs[:1] in (("present",), ("not",)) for event in events)
        self.closed = [event for event in events if event.ret is not END]
        self.open = [event for event in events if event.ret is END and (
            event.sets == (ABSENT,) or event.sets[0] in needed or self.tells_presence)]
        self.needs_value = collections.defaultdict(int)  # value -> mask of closed events that must see it
        readers = collections.defaultdict(list)
        for index, event in enumerate(self.closed):
            if event.needs[:1] == ("is",) and event.needs[1] is not ABSENT:
                self.needs_value[event.needs[1]] |= 1 << index
                readers[event.needs[1]].append(event)
        # Values that also others than readers may ask for.
        self.special = asked | {event.needs[1] for event in self.open if event.needs[:1] == ("is",)}
        self.special |= {value for value, its in readers.items() if any(event.sets for event in its)}
        # When the last reader of a value begins, and when the value must be there at the latest.
        self.last_call = {value: max(event.call for event in its) for value, its in readers.items()}
        self.pressure = {}
        for event in events:
            for value in (*event.sets[:1], *event.needs[1:2]):
                self.pressure[value] = min(self.pressure.get(value, END), event.ret)

    def run(self, budget):
        everything = (1 << len(self.closed)) - 1
        start = self._settle(0, 0, ABSENT, 0)
        stack = [(start, None)]
        seen = set()
        furthest = 0
        while stack:
            (done, used, state, low), moves = stack.pop()
            if moves is None:
                if done == everything:
                    return ""
                key = (low, done >> low, used, self._alike(done, state))
                if key in seen:
                    continue
                seen.add(key)
                furthest = max(furthest, low)
                budget -= 1
                if budget < 0:
                    return None
                moves = self._moves(done, used, state, low)
            if not moves:
                continue
            step = moves.pop()
            stack.append(((done, used, state, low), moves))
            stack.append((step, None))
        stuck = self.closed[min(furthest, len(self.closed) - 1)]
        around = [event for event in self.register.events
                  if event.call <= stuck.ret and event.ret >= stuck.call and event is not stuck][:6]
        return _line(self.register, "no order explains", stuck, *around)

    def _still_needed(self, done, state):
        """Mask of the closed events that have still to see this state."""
        return self.needs_value.get(state, 0) & ~done if state is not ABSENT else 0

    def _alike(self, done, state):
        """The state, or what stands for all values that no event needs any longer."""
        forgotten = state is not ABSENT and state not in self.special and not self._still_needed(done, state)
        return "forgotten" if forgotten else state

    def _candidates(self, done, low):
        """The closed events that may come next: called before every other one that is left has returned."""
        found = []
        limit = END
        index = low
        while index < len(self.closed) and self.closed[index].call <= limit:
            if not done >> index & 1:
                found.append(index)
                limit = min(limit, self.closed[index].ret)
            index += 1
        return [index for index in found if self.closed[index].call <= limit], limit

    def _settle(self, done, used, state, low):
        """Takes every observation that holds."""
        while True:
            candidates, _ = self._candidates(done, low)
            taken = 0
            for index in candidates:
                event = self.closed[index]
                if not event.sets and holds(event.needs, state):
                    taken |= 1 << index
            if not taken:
                return done, used, state, low
            done |= taken
            while done >> low & 1:
                low += 1

    def _moves(self, done, used, state, low):
        """All next states behind a step that changes the state, the most promising last."""
        candidates, limit = self._candidates(done, low)
        still_needed = self._still_needed(done, state)
        moves, most_urgent = [], {}

        def consider(event, next_done, next_used):
            value = event.sets[0]
            urgency = event.ret if value is ABSENT else self.pressure[value]
            move = (urgency, next_done, next_used, value)
            if value is ABSENT or (value not in self.special and self.last_call.get(value, -END) <= limit):
                kind = (event.needs, value is ABSENT)
                if kind not in most_urgent or urgency < most_urgent[kind][0]:
                    most_urgent[kind] = move
            else:
                moves.append(move)

        for index in candidates:
            event = self.closed[index]
            if event.sets and holds(event.needs, state) and not still_needed & ~(1 << index):
                consider(event, done | 1 << index, used)
        for index, event in enumerate(self.open if not still_needed else []):
            useless = event.sets == (ABSENT,) and state is ABSENT
            if not used >> index & 1 and event.call <= limit and holds(event.needs, state) and not useless:
                consider(event, done, used | 1 << index)
        moves += most_urgent.values()
        moves.sort(key=lambda move: move[0], reverse=True)
        steps = []
        for _, next_done, next_used, next_state in moves:
            next_low = low
            while next_done >> next_low & 1:
                next_low += 1
            steps.append(self._settle(next_done, next_used, next_state, next_low))
        return steps


def check_lists(registers, lists):
    """Checker 3. `lists`: operations with `names`; one that took several pages is one operation."""
    violations = []
    by_bucket = collections.defaultdict(list)
    for (bucket, name), register in registers.items():
        by_bucket[bucket].append((name, register, _Presence(register)))
    for op in lists:
        if op.outcome != "done" or op.stale:
            continue
        if op.wrong:
            violations.append(f"{op.wrong}: {op.line()}")
        listed = {entry[0] for entry in op.names}
        encoded = [entry[0].encode("utf-8", "surrogateescape") for entry in op.names]
        for before, after in zip(encoded, encoded[1:]):
            if before == after:
                violations.append(f"{op.bucket}: {after!r} is listed twice: {op.line()}")
            elif before > after:
                violations.append(f"{op.bucket}: {after!r} is listed after {before!r}: {op.line()}")
        known = {}
        for name, register, presence in by_bucket[op.bucket]:
            known[name] = register
            if not name.startswith(op.name):
                continue
            if name not in listed and presence.must(op.call, op.ret):
                violations.append(f"{op.bucket}/{name}: acknowledged, not deleted, not listed: {op.line()}")
            if name in listed and not presence.may(op.call, op.ret):
                violations.append(f"{op.bucket}/{name}: deleted or never written, but listed: {op.line()}")
        for name, size, etag in op.names:
            if name not in known:
                violations.append(f"{op.bucket}/{name}: never written, but listed: {op.line()}")
            elif not name.startswith(op.name):
                violations.append(f"{op.bucket}/{name}: listed without the prefix: {op.line()}")
            elif not _is_a_version(known[name], size, etag):
                violations.append(f"{op.bucket}/{name}: listed with {size} bytes, ETag {etag}, no version: {op.line()}")
    return violations


def _is_a_version(register, size, etag):
    if etag and etag in register.by_etag:
        put = register.puts.get(register.by_etag[etag])
        return size is None or put is None or put.length == size
    return size is None or any(put.length == size for put in register.puts.values()
                               if put.outcome in ("done", UNKNOWN))


class _Greatest:
    """Finds the greatest value of (key, value) pairs with a key below, or at most, a limit. BEFORE is below all values."""

    BEFORE = float("-inf")

    def __init__(self, pairs):
        self.keys, self.greatest = [], [self.BEFORE]
        for key, value in sorted(pairs):
            self.keys.append(key)
            self.greatest.append(max(self.greatest[-1], value))

    def below(self, limit):
        return self.greatest[bisect.bisect_left(self.keys, limit)]

    def up_to(self, limit):
        return self.greatest[bisect.bisect_right(self.keys, limit)]


class _Presence:
    """When a name was certainly, possibly, or not there."""

    def __init__(self, register):
        zones = register.zones()
        deletes = [(event.call, event.ret) for event in register.events if event.sets == (ABSENT,)]
        absences = [(event.call, event.ret) for event in register.events
                    if not event.optional and event.needs == ("is", ABSENT) and not event.sets]
        self.last_seen = _Greatest(zones.values())  # by when it was seen first, or made
        self.last_deleted = _Greatest(deletes)
        self.written = _Greatest((event.call, min(event.ret, zones[event.sets[0]][0]) if event.sets[0] in zones else END)
                                 for event in register.events if event.sets and event.sets[0] is not ABSENT)
        self.gone = _Greatest((end, start) for start, end in deletes + absences)

    def must(self, call, ret):
        """True if it was there all the time from `call` to `ret`: written before, and no delete can have removed it."""
        last = self.last_seen.below(call)
        # A delete that was done before the value was seen (or made) for the last time came before it.
        return last > _Greatest.BEFORE and (last >= ret or last > self.last_deleted.up_to(ret))

    def may(self, call, ret):
        """True if it may have been there from `call` to `ret`: a write began, and no delete surely removed it."""
        done = self.written.up_to(ret)
        return done > _Greatest.BEFORE and done >= self.gone.below(call)


def check_final(registers, bucket, found, listed):
    """Checker 4, after everything is quiet. `found`: name -> (GET Op, HEAD Op); `listed`: the list Op.

    Those operations also belong into the history; here only that GET, HEAD and LIST agree (I8).
    """
    violations = []
    entries = {name: (size, etag) for name, size, etag in listed.names}
    for name, (get, head) in found.items():
        if get.outcome not in ("done", "absent") or head.outcome not in ("done", "absent"):
            violations.append(f"{bucket}/{name}: no certain answer at the end: {get.line()}; {head.line()}")
            continue
        if (get.outcome == "done") != (head.outcome == "done"):
            violations.append(f"{bucket}/{name}: GET and HEAD differ: {get.line()}; {head.line()}")
        if (get.outcome == "done") != (name in entries):
            violations.append(f"{bucket}/{name}: GET and LIST differ: {get.line()}; {listed.line()}")
        if get.outcome != "done":
            continue
        if head.outcome == "done" and (head.etag != get.etag or head.total not in (-1, get.length)):
            violations.append(f"{bucket}/{name}: HEAD is of another version: {get.line()}; {head.line()}")
        size, etag = entries.get(name, (None, None))
        if size is not None and size != get.length:
            violations.append(f"{bucket}/{name}: listed with {size} bytes: {get.line()}")
        if etag and etag != get.etag:
            violations.append(f"{bucket}/{name}: listed with ETag {etag}: {get.line()}")
    for name in entries:
        if name not in found and (bucket, name) in registers:
            violations.append(f"{bucket}/{name}: listed, but the judge did not read it")
    return violations
