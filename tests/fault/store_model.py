"""A store that exists only on paper: what its clients record is a valid history, by construction."""

import collections
import dataclasses
import itertools

import checker
from history import Op


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


def model_of(rng):
    return Model(rng, clients=rng.randrange(1, 8), names=rng.randrange(1, 5), operations=rng.randrange(20, 110),
                 deletes=rng.choice((0.0, 0.1, 0.25)), unknown=rng.choice((0.0, 0.08, 0.2)))
