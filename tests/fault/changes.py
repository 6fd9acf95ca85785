"""An operator who changes the cluster while a nemesis breaks it. Targets go into maintenance, are drained, leave and join
again, and buckets get another number of copies. All of it by the admin REST API, from any proxy that answers.
"""

import collections
import json
import random
import threading
import time

from harness import client as http
from harness.cluster import process_is_alive
from harness.members import DECOMMISSION, DOWN, MAINTENANCE, act
from harness.nodes import is_complete, stored_map
from harness.waiting import scaled
from nemesis import Deck

JSON = {"Content-Type": "application/json"}
PATIENCE = 300  # seconds for what an operator asks to be answered, and done, also while much is broken


class Operator:
    """Several changes at once, one for each thread, which never leave fewer than `least` targets as they are. `copied` is the
    bucket whose number of copies changes."""

    KINDS = ("drain", "drain", "decommission", "decommission", "join", "join", "copies")

    def __init__(self, site, nemesis, seed, copied=None, least=4, at_once=2, log=print):
        self.site, self.nemesis, self.copied, self.least, self.at_once, self.log = site, nemesis, copied, least, at_once, log
        self.injected, self.detected = collections.Counter(), collections.Counter()
        self.answers = collections.Counter()  # of the calls, by status
        self.gone = set()  # targets that have left and may join again
        self._seed = seed
        self._decks = [Deck(self._rng(i), [kind for kind in self.KINDS if copied or kind != "copies"]) for i in range(at_once)]
        self._busy, self._guard, self._enough, self._failures, self._threads = set(), threading.Lock(), threading.Event(), [], []

    def _rng(self, number):
        return random.Random(f"{self._seed}/operator/{number}")

    def start(self):
        self._enough.clear()
        self._threads = [threading.Thread(target=self._run, args=(deck,), daemon=True) for deck in self._decks]
        for thread in self._threads:
            thread.start()
        return self

    def stop(self):
        """Returns when all that was begun is done; targets in maintenance take part again."""
        self._enough.set()
        for thread in self._threads:
            thread.join(scaled(2 * PATIENCE))
            assert not thread.is_alive(), "a change never ended"
        self._threads = []
        assert not self._failures, self._failures

    def settle(self):
        """After `stop`: takes back what a proxy that stood still has carried out later, as a watchful operator does."""
        for node, flags in (self._flags() or {}).items():
            if flags & (MAINTENANCE | DECOMMISSION):
                self._say(f"{node} leaves or is in maintenance without a request: flags {flags}")
                self._change("stop-maintenance", [node])

    def _run(self, deck):
        try:
            while not self._enough.is_set():
                kind = deck.draw()
                if getattr(self, "_" + kind)(deck.rng) is False:
                    deck.put_back(kind)
                self._enough.wait(deck.rng.uniform(0.2, 2))
        except Exception as error:  # noqa: BLE001  a thread must not die unseen
            self._failures.append(repr(error))

    def _say(self, text):
        self.log(f"{time.monotonic() - self.nemesis.begun:7.2f}     {text}")

    def _done(self, kind):
        with self._guard:
            self.detected[kind] += 1

    # --- what the cluster says ---

    def _flags(self):
        """{id: flags} of the targets in the map; None while etcd does not say."""
        try:
            return {node["id"]: node["flags"] % DOWN for node in stored_map(self.site.cluster)["nodes"] if node["role"] == "target"}
        except (OSError, ValueError, KeyError, AssertionError, http.ProtocolError):
            return None

    def _is_settled(self):
        try:
            return is_complete(self.site.cluster)
        except (OSError, ValueError, KeyError, AssertionError, http.ProtocolError):
            return False

    def _ask(self, call):
        """(the first answer of a proxy that is certain, whether an earlier call may have taken effect)"""
        deadline, before = time.monotonic() + scaled(PATIENCE), False
        proxies = self.site.proxies()
        while time.monotonic() < deadline:
            random.shuffle(proxies)
            for proxy in proxies:
                try:
                    answer = call(self.site.cluster.url_of(proxy))
                    status = answer.status
                except (OSError, http.ProtocolError):
                    status = 0
                with self._guard:
                    self.answers[status] += 1
                if status and status < 500:
                    return answer, before
                before = True
            time.sleep(0.2)
        raise AssertionError(f"no proxy has answered for {PATIENCE} s")

    def _change(self, action, ids, **value):
        """True if it is so now. False: it was refused."""
        answer, before = self._ask(lambda url: act(url, action, ids, **value))
        # Of a call without an answer it may be the effect.
        is_so = {"start-maintenance": (400, "already"), "stop-maintenance": (400, "is not in maintenance"),
                 "decommission-node": (400, "already")}[action]
        done = answer.status == 200 or (answer.status == is_so[0] and is_so[1] in answer.text)
        done = done or (before and answer.status == 404 and action == "decommission-node")
        if not done:
            self._say(f"{action} {' '.join(ids)} was refused: {answer.status} {answer.json()['message']}")
        return done

    # --- whom it is about ---

    def _choose(self, rng, most):
        """Some targets that take part, at most so many, kept for this thread."""
        with self._guard:
            free = [name for name in self.site.present() if name not in self._busy]
            most = min(most, len(free) - self.least)
            chosen = rng.sample(free, rng.randint(1, most)) if most > 0 else []
            self._busy |= set(chosen)
            return chosen

    def _free(self, names):
        with self._guard:
            self._busy -= set(names)

    def _wait(self, seconds, until=lambda: False):
        """Less when it is true, or when enough was changed."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not until() and not self._enough.wait(0.1):
            pass

    # --- the changes; False: not to be had now ---

    def _drain(self, rng):
        """Maintenance, which ends when all has moved, or before."""
        names = self._choose(rng, 2)
        if not names:
            return False
        ids, patient, seconds = [self.site.id_of(name) for name in names], rng.random() < 0.5, rng.uniform(0, 8)
        if self._change("start-maintenance", ids):
            self._count("drain", names)
            if (flags := self._flags()) and all(flags.get(node) == MAINTENANCE for node in ids):
                self._done("drain")
            self._wait(30 if patient else seconds, until=self._is_settled if patient else lambda: False)
            self._change("stop-maintenance", ids)
            self._say(f"drain {' '.join(names)} ended")
        self._free(names)
        return None

    def _count(self, kind, names):
        with self._guard:
            self.injected[kind] += 1
        self._say(f"{kind} {' '.join(names)}")

    def _decommission(self, rng):
        names = self._choose(rng, 1)
        if not names:
            return False
        (name,) = names
        node, erase, recall, seconds = self.site.id_of(name), rng.random() < 0.3, rng.random() < 0.2, rng.uniform(0, 2)
        self.site.away.add(name)
        self.site.cluster.running.discard(name)
        if self._change("decommission-node", [node], rm_user_data=erase):
            self._count("decommission", names)
            if recall:
                time.sleep(seconds)
                self._change("stop-maintenance", [node])  # refused when it has left
            self._until_it_left(name, node)
        else:
            self._takes_part(name)
        self._free(names)
        return None

    def _takes_part(self, name):
        self.site.away.discard(name)
        self.site.cluster.running.add(name)

    def _until_it_left(self, name, node):
        deadline = time.monotonic() + scaled(PATIENCE)
        while time.monotonic() < deadline:
            alive = process_is_alive(self.site.cluster.pid(name))  # looked at first: a target that lives now may have left in an instant
            flags = self._flags()
            if flags is not None and not alive and node not in flags and name not in self.site.killed:
                self.gone.add(name)
                self._done("decommission")
                self._say(f"{name} has left")
                return
            if flags is not None and alive and flags.get(node) == 0:  # called back, or killed as it left, and started again
                self._takes_part(name)
                self._say(f"{name} stays")
                return
            if flags is not None and not alive and name not in self.site.killed:
                self._start(name)
            time.sleep(0.2)
        raise AssertionError(f"{name} has not left within {PATIENCE} s: flags {flags}, alive {alive}")

    def _join(self, rng):
        """Rejoins as the target that it was, or with empty drives as one that the cluster does not know."""
        with self._guard:
            gone = sorted(self.gone - self._busy)
            if not gone:
                return False
            name = rng.choice(gone)
            self._busy.add(name)
        anew = rng.random() < 0.5
        self._count("join", [name, *(["with empty drives"] if anew else [])])
        deadline = time.monotonic() + scaled(PATIENCE)
        while time.monotonic() < deadline:
            alive, flags = process_is_alive(self.site.cluster.pid(name)), self._flags()
            if alive and flags is not None and flags.get(self.site.id_of(name)) == 0:
                self.gone.discard(name)
                self._takes_part(name)
                self._done("join")
                self._say(f"{name} has joined")
                break
            if not alive and name not in self.site.killed and self._start(name, anew):
                anew = False
            time.sleep(0.2)
        else:
            raise AssertionError(f"{name} has not joined within {PATIENCE} s")
        self._free([name])
        return None

    def _start(self, name, anew=False):
        """Starts a target; False if a fault has its machine. Its drives are emptied with `anew`, or if its log demands that."""
        machine = self.site.machine_of(name)
        if not self.nemesis.take(machine):
            return False
        try:
            if not process_is_alive(self.site.cluster.pid(name)):
                log = self.site.cluster.logs[name].path
                if anew or "Start it with empty drives" in log.read_text(errors="replace")[-2000:]:
                    self.site.empty(name)
                self.site.start_again(name)
            return True
        finally:
            self.nemesis.release(machine)

    def _copies(self, rng):
        count = rng.choice((2, 3))
        body = json.dumps({"action": "make-n-copies", "value": count}).encode()
        answer, _ = self._ask(lambda url: http.request("POST", f"{url}/v1/buckets/{self.copied}?provider=ais", body, JSON,
                                                       expect=False))
        self._count("copies", [str(count)])
        assert answer.status == 200, answer
        self._done("copies")
