"""The checker is itself checked: it accepts every history that a store may produce, and none that it may not.

Valid histories are played by a model store (store_model.py) in which every operation takes effect at one moment between
its call and its return. Each mutation (mutations.py) then breaks a history in a way that no order can explain. Small
histories are also judged by trying every order.
"""

import collections
import random

import checker
import history
import pytest
from harness.cli import Liar, answer
from history import Op, value_bytes, value_of
from load import Client
from mutations import MUTATIONS
from store_model import Model, model_of
from workload import LATE_NS, Verdict, carried

pytestmark = pytest.mark.gate("the judge of all histories")

VALID = 1200
MUTATED = 1600
SMALL = 4000


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
    """64 writers at once, ten thousand operations: the search must stay short (L1), few steps a write."""
    rng = random.Random(f"{seed}/many")
    model = Model(rng, clients=64, names=1, operations=10_000, deletes=0.1, unknown=0.01, stale=0)
    report = checker.check(model.ops, budget=50_000, final=("b", model.found, model.listed))
    assert report.ok and report.given_up == 0, report


def test_a_value_proves_its_writer_from_any_part():
    rng = random.Random(5)
    for size in (16, 17, 24, 4095, 4096, 4097, 20_000):
        body = value_bytes(0x7A52000000000042, size)
        assert value_of(body) == 0x7A52000000000042
        for _ in range(50):
            start = rng.randrange(0, size - 15)
            length = rng.randrange(16, size - start + 1)
            chunk = body[start : start + length]
            try:
                assert value_of(chunk, start) == 0x7A52000000000042
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


def call(op, begun, value=None, status=200, **more):
    """One call that takes ten nanoseconds; values are of 100 bytes."""
    seen = {"etag": f"e{value}" if value and status == 200 else "", "length": 100 if value else -1}
    return Op("c", op, "b", "n", begun, begun + 10, status, value=value, **seen | more)


def test_an_epoch_is_judged_by_what_the_one_before_left():
    now = history.now_ns()
    ops = [call("put", now - LATE_NS - 10**9, 2, 0), call("put", now - 400, 1), call("put", now - 300, 3, 503),
           call("get", now - 200, 1)]
    verdict = Verdict(checker.check(ops), {"n": (ops[-1], call("head", now - 100, etag="e1", total=100))}, 1)
    kept = carried(ops, [verdict])
    assert verdict.report.ok and [(op.op, op.value, op.outcome) for op in kept] == [("put", 1, "done"), ("put", 3, "unknown")]

    def explained(*later):
        return checker.check([*kept, *later]).ok

    first, second = now + 100, now + 200
    assert explained(call("get", first, 1)) and explained(call("get", first, 1), call("get", second, 3))
    assert not explained(call("get", first, 3), call("get", second, 1)), "what was there comes back"
    assert not explained(call("get", first, status=404)), "lost"
    assert not explained(call("get", first, 2)), "what was written a minute before the end comes now"
    assert explained(call("delete", first), call("get", second, status=404))


def test_a_destroyed_bucket_is_one_whose_objects_were_deleted():
    before, recorder = history.now_ns(), history.Recorder()
    with Liar(answer(200)) as liar, Client(recorder, "c", [f"http://127.0.0.1:{liar.server.server_port}"]) as client:
        assert client.destroy_bucket("b", ["n", "m"]).outcome == "done"
    destroyed = recorder.ops()
    assert [(op.op, op.name, op.outcome) for op in destroyed] == [("delete", "n", "done"), ("delete", "m", "done")]
    stored, later = call("put", before - 100, 1), history.now_ns() + 100
    assert checker.check([stored, *destroyed, call("get", later, status=404)]).ok
    assert not checker.check([stored, *destroyed, call("get", later, 1)]).ok, "an object of it shows in the next one"
    listed = call("list", later)
    listed.name, listed.names = "", [["n", 100, None]]
    assert not checker.check([stored, *destroyed, listed]).ok
    behind = call("put", later, 3)
    assert not checker.check([*destroyed, behind, call("get", later + 100, status=404)]).ok, "what was stored in the next one is lost"


def test_a_range_is_of_the_version_that_was_asked_for():
    stored = [call("put", 100, 1), call("put", 200, 3)]
    right = call("get", 300, 3, 206, etag="e3", if_match="e3", length=50, offset=20, total=100)
    wrong = call("get", 300, 3, 206, etag="e3", if_match="e1", length=50, offset=20, total=100)
    mixed = call("get", 300, 1, 206, etag="e3", if_match="e3", length=50, offset=20, total=100)
    assert checker.check([*stored, right]).ok
    assert not checker.check([*stored, wrong]).ok and not checker.check([*stored, mixed]).ok


def test_a_short_range_from_anywhere_is_of_who_wrote_it():
    stored = [call("put", 100, 1), call("put", 200, 3)]
    for offset in range(24):
        for length in range(1, 40):
            seen = call("get", 300, None, 206, etag="e3", if_match="e3", offset=offset, total=100)
            assert checker.check([*stored, history.describe_body(seen, value_bytes(3, length, offset))]).ok, (offset, length)
            other = value_bytes(1, length, offset)
            if other != value_bytes(3, length, offset):
                assert not checker.check([*stored, history.describe_body(seen, other)]).ok, (offset, length)
