"""Clients that go on while a test changes the cluster, and say what they saw go wrong."""

import threading
import time

from harness import client
from harness.waiting import guarded, wait_until


def everywhere(cluster):
    """The base URLs of all ways in, through proxies that this test believes alive."""
    return [cluster.url_of(proxy, kind) for proxy in cluster.proxies if proxy in cluster.running for kind in ("public", "relay")]


class Watcher(threading.Thread):
    """Does `look(turn)` again and again until it is told to end; what it says, unless that is nothing, was wrong."""

    def __init__(self, look):
        super().__init__(daemon=True)
        self.look, self.wrong, self.turns, self.enough = look, [], 0, threading.Event()

    def run(self):
        while not self.enough.is_set():
            try:
                problem = self.look(self.turns)
            except Exception as error:  # whatever it is, the reader saw it
                problem = repr(error)
            self.wrong += [problem] if problem else []
            self.turns += 1

    def end(self):
        """What it saw go wrong. It looks three times at least, however slow the machine is meanwhile."""
        deadline = time.monotonic() + guarded(10)
        while self.turns < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
        self.enough.set()
        self.join()
        return self.wrong


class Everybody:
    """Two readers, a lister and a writer of `bodies` in bucket "data" (those that the writer has are its own), as a context.
    At its end no client has seen anything wrong. A write may be told to wait (503), and is then made again."""

    def __init__(self, cluster, bodies):
        self.cluster, self.bodies, self.ways = cluster, bodies, everywhere(cluster)
        self.names = sorted(bodies)
        self.written = {}
        self.watchers = [Watcher(self._read), Watcher(self._read), Watcher(self._list), Watcher(self._write)]

    def _read(self, turn):
        name = self.names[turn * 7 % len(self.names)]
        answer = client.request("GET", self.cluster.url("data", name, self.ways[turn % len(self.ways)]))
        return None if (answer.status, answer.body) == (200, self.bodies[name]) else f"{name}: {answer}"

    def _list(self, turn):
        found = {name for name in self.cluster.names("data", pagesize=(0, 50)[turn % 2]) if name in self.bodies}
        return None if len(found) == len(self.names) else f"a list lacks {sorted(set(self.names) - found)}"

    def _write(self, turn):
        name, body = f"written-{turn % 40}", f"turn {turn}".encode()
        way = self.ways[turn % len(self.ways)]
        for _ in range(40):
            answer = client.request("PUT", self.cluster.url("data", name, way), body)
            if answer.status != 503:
                break
            self.watchers[3].enough.wait(0.1)
        if answer.status != 200:
            return f"{name} was not written: {answer}"
        self.written[name] = body
        found = client.request("GET", self.cluster.url("data", name, way))
        return None if (found.status, found.body) == (200, body) else f"{name} just after its write: {found}"

    def __enter__(self):
        for watcher in self.watchers:
            watcher.start()
        wait_until(lambda: all(watcher.turns for watcher in self.watchers), 60, "every client has begun")
        return self

    def __exit__(self, kind, *_):
        wrong = [watcher.end() for watcher in self.watchers]
        print(f"{[watcher.turns for watcher in self.watchers]} reads, reads, lists and writes meanwhile")
        if kind is None:
            assert wrong == [[], [], [], []]
            assert all(watcher.turns >= 3 for watcher in self.watchers)
            for name, body in self.written.items():
                assert self.cluster.get("data", name).body == body, name
