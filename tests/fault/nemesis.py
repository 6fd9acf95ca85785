"""Nemesis: a seeded schedule of faults on a `Site`, a few at a time, each of which ends by itself.

A fault is a generator: it begins, yields for how long it shall last (in seconds), and ends. What it did is counted in
`Nemesis.injected`, what shows that it really happened in `Nemesis.detected`.
"""

import collections
import contextlib
import threading
import time

from harness import etcd
from harness.cluster import process_is_alive
from machines import TERM


class Deck:
    """Kinds in random order, each as often as it stands there before any comes again: so all of them come soon. What cannot be
    had is tried again later, in a new deck when it is all that is left."""

    def __init__(self, rng, kinds):
        self.rng, self.kinds, self._left = rng, kinds, []
        self._refused = 0  # in a row
        self._is_out = False  # the last one was drawn, and not put back

    def draw(self):
        if self._is_out:
            self._refused = 0
        if self._refused >= len(self._left):
            self._left, self._refused = self.rng.sample(self.kinds, len(self.kinds)), 0
        self._is_out = True
        return self._left.pop()

    def put_back(self, kind):
        """Returns a fault that was not possible now."""
        self._left.insert(0, kind)
        self._refused += 1
        self._is_out = False


class Nemesis:
    """`kinds`: names of faults to choose from; one that stands there twice is chosen twice as often. `run` belongs to one
    thread. A thread that starts nodes elsewhere takes their machines meanwhile."""

    KINDS = ("kill_target", "kill_target", "kill_machine", "kill_proxy", "kill_etcd", "stop_target", "stop_target",
             "stop_machine", "isolate", "isolate", "split", "cut_pair", "one_way", "swizzle", "lose", "reset", "delay",
             "limit")

    def __init__(self, site, rng, kinds=KINDS, at_once=2, calm=(0.2, 2.0), log=print):
        self.site, self.rng, self.at_once, self.calm, self.log = site, rng, at_once, calm, log
        self.kinds, self._deck = kinds, Deck(rng, kinds)
        self.injected, self.detected = collections.Counter(), collections.Counter()
        self.begun = time.monotonic()
        self._running = []  # (when it ends, number, name, machines, generator)
        self._number = 0
        self._guard, self._taken = threading.Lock(), set()

    def run(self, seconds):
        """Faults for so long; then all of them end."""
        end, next_one = time.monotonic() + seconds, time.monotonic()
        next_look = next_one
        while time.monotonic() < end:
            if time.monotonic() >= next_one and len(self._running) < self.at_once:
                self._begin(self._deck.draw())
                next_one = time.monotonic() + self.rng.uniform(*self.calm)
            self._end_those_due(time.monotonic())
            if time.monotonic() >= next_look:
                self.site.supervise()
                next_look = time.monotonic() + 0.5
            time.sleep(0.02)
        self._end_those_due(float("inf"))

    def take(self, machine):
        """Keeps faults from a machine until it is released; False: there is one."""
        with self._guard:
            if machine in self._taken or any(machine in each[3] for each in self._running):
                return False
            self._taken.add(machine)
            return True

    def release(self, machine):
        with self._guard:
            self._taken.discard(machine)

    def _say(self, text):
        self.log(f"{time.monotonic() - self.begun:7.2f} {text}")

    def _begin(self, kind):
        with self._guard:
            busy = self._taken.union(*(each[3] for each in self._running))
            free = [machine for machine in self.site.machines() if machine not in busy]
            self.rng.shuffle(free)
            taken = []
            fault = getattr(self, "_" + kind)(free, taken) if len(free) >= 2 else iter(())
            seconds = next(fault, None)
            if seconds is None:
                self._deck.put_back(kind)
                return
            self._number += 1
            self.injected[kind] += 1
            self._say(f"{kind} {' '.join(taken)} for {seconds:.1f} s")
            self._running.append((time.monotonic() + seconds, self._number, kind, taken, fault))

    def _end_those_due(self, now):
        for each in sorted(self._running[:]):
            if each[0] <= now:
                next(each[4], None)
                with self._guard:  # its machines are free now
                    self._running.remove(each)
                self._say(f"{each[2]} {' '.join(each[3])} ended")

    def _target(self, machine):
        return next((name for name in self.site.nodes_of(machine) if name.startswith("t")), None)

    def _hold(self):
        """Half of all faults end before a lease does."""
        return self.rng.uniform(0.3, TERM) if self.rng.random() < 0.5 else self.rng.uniform(TERM, 2.2 * TERM)

    # --- processes ---

    def _kill(self, kind, names):
        names = [name for name in names if process_is_alive(self.site.cluster.pid(name))]
        if not names:
            return
        self.site.kill(*names)
        self.detected[kind] += not any(process_is_alive(self.site.cluster.pid(name)) for name in names)
        yield self._hold()
        self.site.start_again(*names)

    def _kill_target(self, free, taken):
        taken.append(free[0])
        yield from self._kill("kill_target", [self._target(free[0])])

    def _kill_machine(self, free, taken):
        taken.append(free[0])
        yield from self._kill("kill_machine", self.site.nodes_of(free[0]))

    def _kill_proxy(self, free, taken):
        machine = next((each for each in free if any(name.startswith("p") for name in self.site.nodes_of(each))), None)
        if machine:
            taken.append(machine)
            yield from self._kill("kill_proxy", [name for name in self.site.nodes_of(machine) if name.startswith("p")])

    def _kill_etcd(self, free, taken):
        """The leader, when it is to be had."""
        members = [(each, name) for each in free for name in self.site.nodes_of(each) if name.startswith("etcd")]
        for machine, name in members:
            with contextlib.suppress(OSError):
                if etcd.is_leader(self.site.cluster.url_of(name, "client")):
                    members = [(machine, name)]
                    break
        if members:
            taken.append(members[0][0])
            yield from self._kill("kill_etcd", [members[0][1]])

    def _freeze(self, kind, names):
        names = [name for name in names if process_is_alive(self.site.cluster.pid(name))]
        if not names:
            return
        self.site.freeze(*names)
        yield self._hold()
        with contextlib.suppress(OSError, IndexError):
            states = [open(f"/proc/{self.site.cluster.pid(name)}/stat").read().rpartition(")")[2].split()[0] for name in names]
            self.detected[kind] += set(states) <= {"T"}
        self.site.thaw(*names)

    def _stop_target(self, free, taken):
        taken.append(free[0])
        yield from self._freeze("stop_target", [self._target(free[0])])

    def _stop_machine(self, free, taken):
        taken.append(free[0])
        yield from self._freeze("stop_machine", self.site.nodes_of(free[0]))

    # --- the network; each has machines of its own, so that healing them heals nothing else ---

    def _network(self, kind, machines, break_it, seconds=None):
        """`break_it` puts rules on these machines only."""
        before = self.site.network.touched()
        break_it()
        yield seconds or self._hold()
        after = self.site.network.touched()
        self.detected[kind] += sum(after[each] - before[each] for each in machines) > 0
        self.site.network.heal(*machines)

    def _isolate(self, free, taken):
        """Cuts one machine off from all others (N2), and in some cases from the host."""
        one = free[0]
        taken.append(one)
        others = [each for each in self.site.machines() if each != one] + (["host"] if self.rng.random() < 0.3 else [])
        yield from self._network("isolate", [one], lambda: self.site.network.shut(one, others))

    def _split(self, free, taken):
        """Two against the rest."""
        if len(free) < 3:
            return
        few = free[:2]
        taken.extend(few)
        rest = [each for each in self.site.machines() if each not in few]
        yield from self._network("split", few, lambda: [self.site.network.shut(each, rest) for each in few])

    def _cut_pair(self, free, taken):
        taken.append(free[0])
        yield from self._network("cut_pair", [free[0]], lambda: self.site.network.shut(free[0], [free[1]]))

    def _one_way(self, free, taken):
        """Drops what other machines send to one machine, or what it sends to them."""
        taken.append(free[0])
        some = [each for each in self.site.machines() if each != free[0]]
        some = self.rng.sample(some, self.rng.randint(1, len(some)))
        sides = self.rng.choice([("in",), ("out",)])
        yield from self._network("one_way", [free[0]], lambda: self.site.network.shut(free[0], some, sides))

    def _swizzle(self, free, taken):
        """Links to a machine are cut one by one, and all of them heal (N9)."""
        taken.append(free[0])
        before = self.site.network.touched()[free[0]]
        others = [each for each in self.site.machines() if each != free[0]]
        self.rng.shuffle(others)
        for each in others:
            self.site.network.shut(free[0], [each])
            time.sleep(self.rng.uniform(0, 0.3))
        yield self._hold()
        self.rng.shuffle(others)
        for done in range(1, len(others) + 1):
            self.detected["swizzle"] += done == 1 and self.site.network.touched()[free[0]] > before
            self.site.network.heal(free[0])
            for each in others[done:]:
                self.site.network.shut(free[0], [each])
            time.sleep(self.rng.uniform(0, 0.3))

    def _lose(self, free, taken):
        taken.append(free[0])
        percent = self.rng.choice([1, 10, 30])
        yield from self._network("lose", [free[0]], lambda: self.site.network.lose(free[0], percent))

    def _reset(self, free, taken):
        taken.append(free[0])
        yield from self._network("reset", [free[0]], lambda: self.site.network.reset(free[0], self.rng.choice([5, 50])))

    def _limit(self, free, taken):
        taken.append(free[0])
        yield from self._network("limit", [free[0]], lambda: self.site.network.limit(free[0], self.rng.choice([1, 8])))

    def _delay(self, free, taken):
        taken.append(free[0])
        seconds = self.rng.choice([0.1, 0.4, 1.0, 2.5])
        yield from self._network("delay", [free[0]], lambda: self.site.network.delay(free[0], seconds, seconds / 2))
