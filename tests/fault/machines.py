"""A stage whose nodes stand on machines of their own (harness/netns.py): node pN, tN and etcdN on machine mN.

The clients of a test are the "host", which reaches every machine, also those that do not reach each other: so nobody can
be told two stories without that the history shows it.
"""

import contextlib
import json
import os
import shutil
import signal

from harness import client as http
from harness.cluster import LEASE_SECONDS, process_is_alive
from harness.nodes import is_complete, stored_map
from harness.waiting import wait_until
from load import Client
from stage import Stage

TERM = LEASE_SECONDS


class Site(Stage):
    """`targets` targets on the first of the `network`'s machines, `proxies` proxies and `etcds` members of etcd likewise."""

    def __init__(self, lab, make_cluster, network, targets=5, proxies=3, etcds=3, drives=1, settings=None, **options):
        # Connections whose other end is gone without a word would hold up the end of every node.
        super().__init__(lab, make_cluster, targets=targets, drives=drives, meta="etcd", proxies=proxies, etcds=etcds,
                         network=network, settings={"shutdown.grace": "1s"} | (settings or {}), **options)
        self.network = network
        self.stopped = set()
        self.away = set()  # targets that are leaving, have left, or have not joined yet: whoever sees to that starts them
        self.killed = set()  # nodes that shall be dead for now

    @staticmethod
    def machine_of(node):
        return "m" + node.lstrip("etcdp")

    def nodes_of(self, machine):
        return [name for name in self.cluster.nodes if self.machine_of(name) == machine]

    def machines(self):
        """Those that nodes stand on."""
        return [machine for machine in self.network.machines if self.nodes_of(machine)]

    def proxies(self):
        return [name for name in self.cluster.nodes if name.startswith("p")]

    def present(self):
        """Targets that take part, or are to be made to."""
        return [name for name in self.targets() if name not in self.away]

    def id_of(self, target):
        """As the target has said, now or when it last had an address; None: nobody knows it yet."""
        with contextlib.suppress(OSError, ValueError):
            self.cluster.nodes[target]["id"] = json.loads((self.directory / target / "node.json").read_text())["id"]
        return self.cluster.nodes[target]["id"]

    def empty(self, target):
        """Makes of a target that does not run one that nobody knows: with empty drives, and so with another identity."""
        drives = self.cluster.drives(target)
        shutil.rmtree(self.directory / target)
        for drive in drives:
            drive.mkdir(parents=True)
        self.cluster.nodes[target]["id"] = None

    def clients(self, count, timeout=4.0, name="c"):
        """They use all proxies in turn, each from another one on."""
        urls = [self.cluster.url_of(name) for name in self.proxies()]
        return [Client(self.recorder, f"{name}{i}", urls[i % len(urls) :] + urls[: i % len(urls)], timeout) for i in range(count)]

    # --- nodes ---

    def freeze(self, *names):
        for name in names:
            if process_is_alive(self.cluster.pid(name)):
                self.kill_with(name, signal.SIGSTOP)
                self.stopped.add(name)

    def thaw(self, *names):
        for name in names or list(self.stopped):
            if name in self.stopped:
                self.kill_with(name, signal.SIGCONT)
                self.stopped.discard(name)

    def kill_with(self, name, number):
        """Sends a signal that a node survives."""
        os.kill(self.cluster.pid(name), number)

    def kill(self, *names, **options):
        self.killed |= set(names)
        super().kill(*names, **options)

    def start(self, *names, **options):
        self.killed -= set(names)
        return super().start(*names, **options)

    def start_again(self, *names):
        """Starts nodes, each behind those that it needs, and does not wait until they are of use."""
        if names:
            self.start(*sorted(names, key=lambda name: "ept".index(name[0])), ready=False)
            self.cluster.running |= set(names) - self.away

    def supervise(self):
        """Starts what has ended by itself with an error, as whoever supervises nodes does. Their names.

        A node that was started when no etcd answered may have ended so. None ends by a signal that it did not get."""
        dead = [name for name in self.cluster.nodes
                if name not in self.killed | self.away and not process_is_alive(self.cluster.pid(name))]
        for name in dead:
            code = self.exit_code(name) if name in self._processes else None
            assert code is not None and code > 0, f"{name} died by itself, exit code {code}"
        self.start_again(*dead)
        return dead

    # --- what they say ---

    def log_count(self, pattern, names=None):
        return sum(len(self.cluster.logs[name].matching(pattern)) for name in names or self.cluster.logs)

    def map_version(self):
        return stored_map(self.cluster)["version"]

    def ask(self, node, path, **options):
        """The status of one GET at a node, 0 without an answer."""
        try:
            return http.request("GET", self.cluster.url_of(node) + path, timeout=2, **options).status
        except (OSError, http.ProtocolError):
            return 0

    def wait_quiet(self, seconds=120, meanwhile=None):
        """Heals everything, starts what is dead, and waits until all present targets take part, act by the newest map, and have
        what is theirs: the cluster sees to that by itself. `meanwhile` is called between looks."""
        self.thaw()
        self.network.heal()
        self.start_again(*(name for name in self.killed - self.away))
        trouble = []

        def quiet():
            self.supervise()
            if meanwhile:
                meanwhile()
            try:
                trouble[:] = self._trouble()
            except (OSError, ValueError, KeyError, http.ProtocolError) as error:
                trouble[:] = [repr(error)]
            return not trouble

        try:
            wait_until(quiet, seconds, "all is up, settled and in place", every=0.1)
        except AssertionError:
            raise AssertionError(f"not within {seconds} s: all is up, settled and in place: {trouble}") from None

    def _trouble(self):
        """What is not as it should be."""
        away = [name for name in (*self.proxies(), *self.present()) if self.ask(name, "/readyz") != 200]
        if away:
            return [f"not ready: {away}"]
        now, ids = stored_map(self.cluster), {name: self.id_of(name) for name in self.present()}
        flags = {node["id"]: node["flags"] for node in now["nodes"] if node["role"] == "target"}
        if flags != dict.fromkeys(ids.values(), 0):
            return [f"the map has {flags}, there are {ids}"]
        if not is_complete(self.cluster):
            return [f"map {now['version']} with past epochs {now.get('past')} is not settled"]
        listed = self.cluster.list_page("data")
        return [] if listed.status == 200 else [str(listed)]


def flags_of(cluster, node):
    """The flags of a target in the map, down and out among them; 0 also while no etcd answers."""
    try:
        ids = {each["id"]: each["flags"] for each in stored_map(cluster)["nodes"]}
    except OSError:
        return 0
    return ids[cluster.nodes[node]["id"]]
