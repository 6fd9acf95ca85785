"""The checker is itself checked: it accepts every history that a store may produce, and none that it may not.

Valid histories are played by a model store in which every operation takes effect at one moment between its
call and its return. Each mutation then breaks a history in a way that no order can explain; that this is so
is argued where the mutation picks its victims. Small histories are also judged by trying every order.
"""

import collections
import copy
import dataclasses
import itertools
import random

import checker
import history
import pytest
from history import Op, value_bytes, value_of

VALID = 1200
MUTATED = 1600
SMALL = 4000


class Model:
    """A store in which every operation takes effect at one instant, and the histories its clients record."""

    def __init__(self, rng, clients=4, names=3, operations=70, deletes=0.15, unknown=0.08, stale=0.03):
        self.rng = rng
        self.names = [f"n{index}" for index in range(names)]
        self.state = {}
        self.old = collections.defaultdict(list)
        self.lengths = {}
        self.values = itertools.count(1)
        self.ops = []
        self.deletes, self.unknown, self.stale = deletes, unknown, stale
        self.started = 0
        self._play(clients, operations)
        self._look_at_the_end()

    @staticmethod
    def etag(value):
        return f'"{value:016x}"'

    def _play(self, clients, operations):
        """Each client: call, effect, return, at random distances; effects run in order of their moments."""
        rng = self.rng
        pending = []  # (moment, tie, action)
        tie = itertools.count()

        def schedule(moment, action):
            pending.append((moment, next(tie), action))

        for number in range(clients):
            schedule(rng.randrange(100), lambda now, client=f"c{number}": self._begin(client, now, schedule))
        self.left = operations
        while pending:
            pending.sort()
            moment, _, action = pending.pop(0)
            action(moment)
        self.ops.sort(key=lambda op: op.call)

    def _begin(self, client, now, schedule):
        if self.left == 0:
            return
        self.left -= 1
        rng = self.rng
        call = now + rng.randrange(1, 30)
        effect = call + rng.randrange(1, 60)
        ret = effect + rng.randrange(1, 60)
        op = Op(client, "get", "b", rng.choice(self.names), call, ret)
        kind = rng.random()
        if kind < 0.08:
            op.op, op.name = "list", ""
        elif kind < 0.08 + self.deletes:
            op.op = "delete"
        elif kind < 0.5:
            op.op = "put"
            op.value, op.length = next(self.values), rng.randrange(16, 10000)
            self.lengths[op.value] = op.length
            if rng.random() < 0.2:
                op.if_none_match = True
            elif rng.random() < 0.2:
                known = self.state.get(op.name)
                op.if_match = self.etag(known if known and rng.random() < 0.7 else next(self.values))
        elif kind < 0.6:
            op.op = "head"
        self.ops.append(op)
        if op.op in ("put", "delete") and rng.random() < self.unknown:
            # The answer is lost; the effect comes whenever it likes, also long after, or not at all.
            op.status = rng.choice((0, 500, 503))
            if rng.random() < 0.6:
                schedule(call + rng.randrange(1, 1500), lambda _: self._apply(dataclasses.replace(op)))
        else:
            schedule(effect, lambda _: self._apply(op))
        schedule(ret, lambda moment: self._begin(client, moment, schedule))

    def _apply(self, op):
        value = self.state.get(op.name)
        op.status = 200
        if op.op == "list":
            op.names = [[name, self.lengths[self.state[name]], self.etag(self.state[name])]
                        for name in sorted(self.state)]
        elif op.op == "put":
            if op.if_none_match and value is not None or op.if_match and op.if_match != self.etag(value or 0):
                op.status = 412
            elif self.rng.random() < 0.03:
                op.status = 400
            else:
                self._set(op.name, op.value)
                op.etag = self.etag(op.value)
        elif op.op == "delete":
            if value is None:
                op.status = 404
            else:
                self._set(op.name, None)
        else:
            if self.rng.random() < self.stale and self.old[op.name]:
                value = self.rng.choice(self.old[op.name])
                op.stale = True
            self._answer(op, value)

    def _set(self, name, value):
        self.old[name].append(self.state.get(name))
        if value is None:
            self.state.pop(name, None)
        else:
            self.state[name] = value

    def _answer(self, op, value):
        if value is None:
            op.status = 404
            return
        op.status, op.etag, op.total = 200, self.etag(value), self.lengths[value]
        if op.op == "get":
            op.value, op.length = value, self.lengths[value]

    def _look_at_the_end(self):
        now = max(op.ret for op in self.ops) + 2000  # after every late effect
        self.found = {}
        for name in self.names:
            pair = []
            for kind in ("get", "head"):
                op = Op("final", kind, "b", name, now, now + 5)
                self._answer(op, self.state.get(name))
                pair.append(op)
                now += 10
            self.found[name] = tuple(pair)
            self.ops += pair
        self.listed = Op("final", "list", "b", "", now, now + 5, 200)
        self.listed.names = [[name, self.lengths[value], self.etag(value)]
                             for name, value in sorted(self.state.items())]
        self.ops.append(self.listed)
        self.end = now + 10

    def judge(self):
        return checker.check(self.ops, final=("b", self.found, self.listed))


# --- mutations: each returns True when it has broken the history, False when it found no victim --------------


def of_kind(model, kind, status=200, name=None):
    return [op for op in model.ops if op.op == kind and op.status == status and not op.stale
            and (name is None or op.name == name)]


def writes(model, name):
    """Acknowledged PUTs of a name."""
    return of_kind(model, "put", 200, name)


def possible_deletes(model, name):
    return [op for op in model.ops if op.op == "delete" and op.name == name and op.status in (0, 200, 500, 503)]


def ends(op):
    return float("inf") if op.outcome == "unknown" else op.ret


def surely_there(model, name, op):
    """An acknowledged PUT before `op`, and no DELETE that can have come between them."""
    return any(put.ret < op.call and not any(ends(gone) >= put.call and gone.call <= op.ret
                                             for gone in possible_deletes(model, name))
               for put in writes(model, name))


def pick(rng, found):
    found = list(found)
    return rng.choice(found) if found else None


def show(model, op, value):
    op.value = op.etag = None
    op.length, op.etag, op.value, op.status = -1, "", None, 200
    model._answer(op, value)


def put_of(model, value):
    return next((op for op in model.ops if op.op == "put" and op.value == value), None)


def stale_read(model, rng):
    """A read sees a value that was overwritten, for certain, before it began."""
    victims = []
    for read in of_kind(model, "get"):
        for old in writes(model, read.name):
            for new in writes(model, read.name):
                if old.ret < new.call and new.ret < read.call:
                    victims.append((read, old.value))
    victim = pick(rng, victims)
    if victim:
        show(model, victim[0], victim[1])
    return bool(victim)


def swapped_reads(model, rng):
    """Of two reads one after the other, the later sees the older value and the earlier the newer."""
    victims = [
        (one, two) for one in of_kind(model, "get") for two in of_kind(model, "get", 200, one.name)
        if one.ret < two.call and one.value != two.value
        and put_of(model, one.value).ret < put_of(model, two.value).call
        and put_of(model, one.value).status == put_of(model, two.value).status == 200
    ]
    victim = pick(rng, victims)
    if victim:
        values = victim[0].value, victim[1].value
        show(model, victim[0], values[1])
        show(model, victim[1], values[0])
    return bool(victim)


def going_back(model, rng):
    """Both reads may overlap the writes; but once the newer value was seen, the older never comes back."""
    victims = [
        (one, two, old) for one in of_kind(model, "get") for two in of_kind(model, "get", 200, one.name)
        for old in writes(model, one.name)
        if one.ret < two.call and old.value != one.value and old.ret < put_of(model, one.value).call
    ]
    victim = pick(rng, victims)
    if victim:
        show(model, victim[1], victim[2].value)
    return bool(victim)


def dropped_write(model, rng):
    """Somebody read a value that, by the records, nobody wrote."""
    read = pick(rng, of_kind(model, "get"))
    if read:
        model.ops.remove(put_of(model, read.value))
    return bool(read)


def refused_write_is_read(model, rng):
    """A PUT that somebody saw the value of was answered with a 4xx: that promises no effect."""
    read = pick(rng, of_kind(model, "get"))
    if read:
        put_of(model, read.value).status = 400
    return bool(read)


def resurrected(model, rng):
    """A value that was deleted for certain is read again."""
    victims = [
        (read, put.value) for read in model.ops if read.op == "get" and not read.stale
        for gone in of_kind(model, "delete", 200, read.name) for put in writes(model, read.name)
        if put.ret < gone.call and gone.ret < read.call
    ]
    victim = pick(rng, victims)
    if victim:
        show(model, victim[0], victim[1])
    return bool(victim)


def resurrected_head(model, rng):
    """As `resurrected`, but only a HEAD shows it."""
    victims = [
        (read, put.value) for read in model.ops if read.op == "head" and not read.stale
        for gone in of_kind(model, "delete", 200, read.name) for put in writes(model, read.name)
        if put.ret < gone.call and gone.ret < read.call
    ]
    victim = pick(rng, victims)
    if victim:
        show(model, victim[0], victim[1])
    return bool(victim)


def lost_write(model, rng):
    """An acknowledged object is answered with 404."""
    victim = pick(rng, (op for op in of_kind(model, "get") + of_kind(model, "head")
                        if surely_there(model, op.name, op)))
    if victim:
        victim.status, victim.value, victim.etag, victim.total, victim.length = 404, None, "", -1, -1
    return bool(victim)


def read_before_write(model, rng):
    victims = [(read, put.value) for read in of_kind(model, "get") for put in writes(model, read.name)
               if read.ret < put.call]
    victim = pick(rng, victims)
    if victim:
        show(model, victim[0], victim[1])
    return bool(victim)


def twice(model, rng):
    """A write with an unknown outcome takes effect a second time, after its value was overwritten."""
    victims = [
        (again, put.value) for put in model.ops if put.op == "put" and put.outcome == "unknown"
        for seen in of_kind(model, "get", 200, put.name) if seen.value == put.value
        for new in writes(model, put.name) if seen.ret < new.call
        for again in of_kind(model, "get", 200, put.name) if new.ret < again.call
    ]
    victim = pick(rng, victims)
    if victim:
        show(model, victim[0], victim[1])
    return bool(victim)


def two_winners(model, rng):
    """If-None-Match: * succeeds although the object was there all the time."""
    victim = pick(rng, (op for op in of_kind(model, "put", 412) if op.if_none_match
                        and surely_there(model, op.name, op)))
    if victim:
        victim.status, victim.etag = 200, model.etag(victim.value)
    return bool(victim)


def refused_for_nothing(model, rng):
    """If-None-Match: * is refused although the name was never written before."""
    victims = [op for op in of_kind(model, "put") if op.if_none_match
               and not any(put.op == "put" and put.name == op.name and put.call <= op.ret and put is not op
                           for put in model.ops)
               and not any(read.value == op.value for read in model.ops if read.op == "get")
               and not any(read.etag == op.etag for read in model.ops if read is not op)]
    victim = pick(rng, victims)
    if victim:
        victim.status, victim.etag = 412, ""
    return bool(victim)


def won_against_the_wrong_version(model, rng):
    """If-Match succeeds with the ETag of a version that was overwritten before the call."""
    victims = [
        (op, old.value) for op in of_kind(model, "put") if not op.if_none_match
        for old in writes(model, op.name) for new in writes(model, op.name)
        if old.ret < new.call and new.ret < op.call
    ]
    victim = pick(rng, victims)
    if victim:
        victim[0].if_match = model.etag(victim[1])
    return bool(victim)


def mark_forgotten(model, rng):
    """A stale answer without its mark, where it is older than a value that was read before."""
    victims = []
    for read in model.ops:
        if read.op == "get" and read.stale and read.status == 200:
            old = put_of(model, read.value)
            if old.status == 200 and any(old.ret < new.call and new.ret < read.call
                                         for new in writes(model, read.name)):
                victims.append(read)
    victim = pick(rng, victims)
    if victim:
        victim.stale = False
    return bool(victim)


def mixed_body(model, rng):
    victim = pick(rng, of_kind(model, "get"))
    if victim:
        other = next(model.values)
        body = bytearray(value_bytes(victim.value, victim.length))
        place = rng.randrange(0, victim.length // 8) * 8
        piece = value_bytes(other, victim.length)[place : place + 8]
        if body[place : place + 8] == piece:  # the number of a block is the same in all values
            place, piece = 0, value_bytes(other, 8)
        body[place : place + 8] = piece
        history.describe_body(victim, bytes(body))
        if victim.value is not None and not victim.wrong:
            return False
    return bool(victim)


def short_body(model, rng):
    victim = pick(rng, (op for op in of_kind(model, "get") if op.length > 1))
    if victim:
        victim.length -= 1
    return bool(victim)


def header_of_another_version(model, rng):
    """Body of one version, ETag of another."""
    victims = [(read, put) for read in of_kind(model, "get") for put in writes(model, read.name)
               if put.value != read.value and put_of(model, read.value).status == 200]
    victim = pick(rng, victims)
    if victim:
        victim[0].etag = victim[1].etag
    return bool(victim)


def length_of_another_version(model, rng):
    victim = pick(rng, of_kind(model, "get") + of_kind(model, "head"))
    if victim:
        victim.total += 1
    return bool(victim) and (victim.op == "get" or put_of_etag(model, victim) is not None)


def put_of_etag(model, op):
    return next((put for put in writes(model, op.name) if put.etag == op.etag), None)


def of_another_name(model, rng):
    """The bytes of one object under the name of another."""
    victims = [(one, two) for one in of_kind(model, "get") for two in of_kind(model, "get") if one.name != two.name]
    victim = pick(rng, victims)
    if victim:
        show(model, victim[0], victim[1].value)
    return bool(victim)


def list_lacks(model, rng):
    """A list lacks an acknowledged name that nobody deleted."""
    victims = [(op, entry) for op in of_kind(model, "list") for entry in op.names
               if surely_there(model, entry[0], op)]
    victim = pick(rng, victims)
    if victim:
        victim[0].names.remove(victim[1])
    return bool(victim)


def list_shows_the_deleted(model, rng):
    """A list shows a name after its DELETE, with no PUT that could have brought it back."""
    victims = []
    for op in of_kind(model, "list"):
        for name in model.names:
            if name in [entry[0] for entry in op.names]:
                continue
            gone = [delete for delete in of_kind(model, "delete", 200, name) if delete.ret < op.call]
            puts = [put for put in model.ops if put.op == "put" and put.name == name
                    and put.status in (0, 200, 500, 503)]
            if gone and all(any(ends(put) < delete.call for delete in gone) or put.call > op.ret for put in puts):
                sizes = [put.length for put in puts if put.status == 200]
                if sizes:
                    victims.append((op, name, sizes[0]))
    victim = pick(rng, victims)
    if victim:
        op, name, size = victim
        op.names = sorted([*op.names, [name, size, None]])
    return bool(victim)


def list_shows_the_unborn(model, rng):
    victims = [(op, name) for op in of_kind(model, "list") for name in model.names
               if not any(put.op == "put" and put.name == name and put.call <= op.ret for put in model.ops)]
    victim = pick(rng, victims)
    if victim:
        victim[0].names = sorted([*victim[0].names, [victim[1], None, None]])
    return bool(victim)


def list_shows_the_invented(model, rng):
    victim = pick(rng, of_kind(model, "list"))
    if victim:
        victim.names = sorted([*victim.names, ["zz-nobody-wrote-this", 5, None]])
    return bool(victim)


def list_doubles(model, rng):
    victim = pick(rng, (op for op in of_kind(model, "list") if op.names))
    if victim:
        place = rng.randrange(len(victim.names))
        victim.names = victim.names[: place + 1] + victim.names[place:]
    return bool(victim)


def list_is_out_of_order(model, rng):
    victim = pick(rng, (op for op in of_kind(model, "list") if len(op.names) > 1))
    if victim:
        victim.names = victim.names[::-1]
    return bool(victim)


def list_has_the_wrong_size(model, rng):
    victim = pick(rng, (op for op in of_kind(model, "list") if op.names))
    if victim:
        victim.names = copy.deepcopy(victim.names)
        victim.names[0][1] = 77_777
    return bool(victim)


def final_list_differs(model, rng):
    entry = pick(rng, model.listed.names)
    if entry:
        model.listed.names.remove(entry)
    return bool(entry)


def final_head_differs(model, rng):
    name = pick(rng, (name for name, (get, _) in model.found.items() if get.status == 200))
    if name:
        head = model.found[name][1]
        head.status, head.etag, head.total = 404, "", -1
    return bool(name)


def final_get_fails(model, rng):
    """At the end there is no excuse for an object that cannot be read."""
    name = pick(rng, (name for name, (get, _) in model.found.items() if get.status == 200))
    if name:
        get = model.found[name][0]
        get.status, get.value, get.etag, get.length = 503, None, "", -1
    return bool(name)


MUTATIONS = [
    stale_read, swapped_reads, going_back, dropped_write, refused_write_is_read, resurrected, resurrected_head,
    lost_write, read_before_write, twice, two_winners, refused_for_nothing, won_against_the_wrong_version,
    mark_forgotten, mixed_body, short_body, header_of_another_version, length_of_another_version, of_another_name,
    list_lacks, list_shows_the_deleted, list_shows_the_unborn, list_shows_the_invented, list_doubles,
    list_is_out_of_order, list_has_the_wrong_size, final_list_differs, final_head_differs, final_get_fails,
]


def model_of(rng):
    return Model(rng, clients=rng.randrange(1, 8), names=rng.randrange(1, 5), operations=rng.randrange(20, 110),
                 deletes=rng.choice((0.0, 0.1, 0.25)), unknown=rng.choice((0.0, 0.08, 0.2)))


def test_every_history_of_a_correct_store_is_accepted(seed):
    operations = 0
    for number in range(VALID):
        model = model_of(random.Random(f"{seed}/valid/{number}"))
        report = model.judge()
        assert report.ok and report.given_up == 0, f"seed {seed} history {number}: {report}"
        operations += report.operations
    print(f"{VALID} valid histories, {operations} operations: all accepted")


def test_every_mutated_history_is_rejected(seed):
    rejected = collections.Counter()
    for number in range(MUTATED):
        mutate = MUTATIONS[number % len(MUTATIONS)]
        for attempt in range(300):  # until a history has a victim for it
            rng = random.Random(f"{seed}/mutated/{number}/{attempt}")
            model = model_of(rng)
            if mutate(model, rng):
                break
        else:
            pytest.fail(f"seed {seed}: no history for {mutate.__name__}")
        report = model.judge()
        assert not report.ok, f"seed {seed} history {number}/{attempt}: {mutate.__name__} went unnoticed"
        rejected[mutate.__name__] += 1
    assert sum(rejected.values()) == MUTATED >= 1000 and len(rejected) == len(MUTATIONS)
    print(f"injected {MUTATED} mutations of {len(MUTATIONS)} kinds, detected {sum(rejected.values())}")


def any_order_explains(register):
    """Tries every order: the definition, for histories of a handful of operations."""
    events = register.events

    def explains(left, state):
        if not any(not event.optional for event in left):
            return True
        limit = min(event.ret for event in left)
        for event in left:
            if event.call <= limit and checker.holds(event.needs, state):
                after = event.sets[0] if event.sets else state
                if explains([other for other in left if other is not event], after):
                    return True
        return False

    return explains(events, None)


def small_history(rng):
    """Few operations on one name with results that may or may not make sense."""
    ops, values = [], []
    for number in range(rng.randrange(2, 8)):
        call = rng.randrange(0, 40)
        op = Op(f"c{number}", rng.choice(("put", "put", "get", "get", "delete", "head")), "b", "n",
                call, call + rng.randrange(1, 20), 200)
        if op.op == "put":
            op.value, op.length = number + 1, 100
            op.status = rng.choice((200, 200, 200, 0, 412))
            op.if_none_match = op.status == 412 or rng.random() < 0.2
            if op.status == 200:
                op.etag = Model.etag(op.value)
            if op.status != 412:
                values.append(op.value)
        ops.append(op)
    for op in ops:
        if op.op == "put" and not op.if_none_match and values and rng.random() < 0.15:
            op.if_match = Model.etag(rng.choice(values))
        if op.op == "delete":
            op.status = rng.choice((200, 200, 404, 503))
        elif op.op in ("get", "head"):
            value = rng.choice([*values, None])
            if value is None:
                op.status = 404
            else:
                op.etag, op.total = Model.etag(value), 100
                if op.op == "get":
                    op.value, op.length = value, 100
    return sorted(ops, key=lambda op: op.call)


def test_the_search_agrees_with_trying_every_order(seed):
    """Exact in both directions; and the fast checker never rejects what some order explains."""
    verdicts = collections.Counter()
    for number in range(SMALL):
        ops = small_history(random.Random(f"{seed}/small/{number}"))
        register = checker.Register(("b", "n"), ops)
        if register.integrity_violations:
            continue
        truth = any_order_explains(register)
        search = checker.check_linearizable(register)
        shown = "\n".join(op.line() for op in ops)
        assert (search == "") == truth, f"seed {seed} history {number}: {truth} but {search!r}\n{shown}"
        fast = checker.check_register(register)
        assert not (fast and truth), f"seed {seed} history {number}: rejected {fast}\n{shown}"
        verdicts[truth, bool(fast)] += 1
    print(f"(explained, rejected by the fast checker): {dict(verdicts)}")
    assert verdicts[True, False] > SMALL // 20 and verdicts[False, True] > SMALL // 20


def test_many_writers_of_one_name_are_judged_without_search_getting_lost(seed):
    """64 writers at once, ten thousand operations: the search must stay short (L1)."""
    rng = random.Random(f"{seed}/many")
    model = Model(rng, clients=64, names=1, operations=10_000, deletes=0.1, unknown=0.01, stale=0)
    report = model.judge()
    assert report.ok and report.given_up == 0, report


def test_a_value_proves_its_writer_from_any_piece():
    rng = random.Random(5)
    for size in (16, 17, 24, 4095, 4096, 4097, 20_000):
        body = value_bytes(0x7A52000000000042, size)
        assert value_of(body) == 0x7A52000000000042
        for _ in range(50):
            start = rng.randrange(0, size - 15)
            length = rng.randrange(16, size - start + 1)
            piece = body[start : start + length]
            try:
                assert value_of(piece, start) == 0x7A52000000000042
            except ValueError:
                assert length < 24  # only where the number of a block is in the way
        for place in range(0, size, max(1, size // 37)):
            broken = bytearray(body)
            broken[place] ^= 1
            assert value_of(bytes(broken)) != 0x7A52000000000042, place


def test_a_recorded_history_reads_back_as_it_was(tmp_path, seed):
    model = Model(random.Random(f"{seed}/files"))
    recorder = history.Recorder(tmp_path)
    clients = {name: recorder.client(name) for name in {op.client for op in model.ops}}
    for op in model.ops:
        clients[op.client].append(op)
    recorder.close()
    assert sorted(map(repr, history.load(tmp_path))) == sorted(map(repr, model.ops)) == sorted(map(repr, recorder.ops()))


def test_small_values_of_one_name_are_never_alike():
    recorder = history.Recorder()
    seen = set()
    for _ in range(600):
        value, size = recorder.new_value(1, "b", "n")
        body = value_bytes(value, size)
        assert body not in seen and size >= 1
        seen.add(body)
