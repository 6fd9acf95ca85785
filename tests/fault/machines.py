"""A stage whose nodes stand on machines of their own (harness/netns.py): node pN, tN and etcdN on machine mN.

The clients of a test are the "host", which reaches every machine, also those that do not reach each other: so nobody can
be told two stories without that the history shows it.
"""

import os
import signal

from harness import client as http
from harness.cluster import process_is_alive
from harness.nodes import give_names_to, is_settled, stored_map
from harness.waiting import wait_until
from load import Client
from stage import Stage

TERM = 4  # seconds that a lease lasts


class Site(Stage):
    """`targets` targets on the first of the `network`'s machines, `proxies` proxies and `etcds` members of etcd likewise."""

    def __init__(self, lab, make_cluster, network, targets=5, proxies=3, etcds=3, drives=1, settings=None, **options):
        # Connections whose other end is gone without a word would hold up the end of every node.
        super().__init__(lab, make_cluster, targets=targets, drives=drives, meta="etcd", proxies=proxies, etcds=etcds,
                         network=network, settings={"shutdown.grace": "1s"} | (settings or {}), **options)
        self.network = network
        self.stopped = set()

    def nodes_of(self, machine):
        return [name for name in self.cluster.nodes if name.lstrip("etcdp") == machine.removeprefix("m")]

    def machines(self):
        """Those that nodes stand on."""
        return [machine for machine in self.network.machines if self.nodes_of(machine)]

    def proxies(self):
        return [name for name in self.cluster.nodes if name.startswith("p")]

    def clients(self, count, timeout=4.0, name="c"):
        """They use all proxies in turn, each from another one on."""
        urls = [self.cluster.url_of(name) for name in self.proxies()]
        return [Client(self.recorder, f"{name}{i}", urls[i % len(urls) :] + urls[: i % len(urls)], timeout) for i in range(count)]

    # --- nodes ---

    def add_target(self):
        """One more target, on the next machine. It may need longer to join than this waits."""
        self.cluster.add_target(check=False, timeout=3)
        name = self.cluster.targets()[-1]
        if process_is_alive(self.cluster.pid(name)):
            self.cluster.running.add(name)
        return name

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

    def start_dead(self):
        """Starts whatever does not run, and does not wait for it. Their names."""
        dead = [name for name in self.cluster.nodes if not process_is_alive(self.cluster.pid(name))]
        dead.sort(key=lambda name: "ept".index(name[0]))
        if dead:
            self.start(*dead, ready=False)
            self.cluster.running |= set(dead)
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

    def wait_quiet(self, seconds=60):
        """Heals everything, starts what is dead, gives all targets their names, and waits until each is at home."""
        self.thaw()
        self.network.heal()
        self.start_dead()
        owners, trouble = [], []

        def quiet():
            try:
                trouble[:] = self._trouble(owners)
            except (OSError, ValueError, AssertionError, KeyError, http.ProtocolError) as error:
                trouble[:] = [repr(error)]
            return not trouble

        try:
            wait_until(quiet, seconds, "all is up, settled and at home", every=0.1)
        except AssertionError:
            raise AssertionError(f"not within {seconds} s: all is up, settled and at home: {trouble[0]}") from None

    def _trouble(self, owners):
        """What is not as it should be. `owners` is filled when all targets have been given their names."""
        away = [name for name in (*self.proxies(), *self.targets()) if self.ask(name, "/readyz") != 200]
        if away:
            return [f"not ready: {away}"]
        if not owners:
            self.cluster.refresh()  # a target that has joined late has an id by now
            give_names_to(self.cluster, *self.targets())
            owners[:] = self.targets()
        now = stored_map(self.cluster)
        targets = [node for node in now["nodes"] if node["role"] == "target"]
        if len(targets) != len(owners) or any(node["flags"] for node in targets):
            return [f"the map has {[(node['id'], node['flags']) for node in targets]}"]
        if not is_settled(self.cluster):
            return [f"map {now['version']} with past sets {now.get('past')} is not settled"]
        listed = self.cluster.list_page("data")
        return [] if listed.status == 200 else [str(listed)]


def flags_of(cluster, node):
    """The flags of a target in the map, down and out among them; 0 also while no etcd answers."""
    try:
        ids = {each["id"]: each["flags"] for each in stored_map(cluster)["nodes"]}
    except OSError:
        return 0
    return ids[cluster.nodes[node]["id"]]
