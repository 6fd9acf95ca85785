"""Machines of a test: network namespaces with an address each, and what can go wrong between them.

    with Network(["m1", "m2", "m3"]) as net:
        subprocess.run([*net.runner("m1"), "some-program"])
        net.shut("m1", ["m2"])
        net.touched()

A machine is a namespace that a sleeping process holds. Its interface `eth0` leads to a bridge in a namespace of its own.
From there one pair of interfaces leads to the namespace of the test, whose side is the "host". The kernel removes all of
it with the processes in it: nothing is left behind, not even by a test that was killed.

Faults are rules of nftables and queueing disciplines on the machines' own side. Each counts what it did.

Needs root, iproute2, nftables and util-linux; `why_no_network` says what is missing.
"""

import contextlib
import functools
import ipaddress
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from harness.waiting import scaled, wait_until

# Of RFC 2544, for tests of networks: no machine that works uses it.
NETWORKS = ipaddress.ip_network("198.18.0.0/15")
HOST = "host"
TABLE = "inet nemesis"
_HOLD = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"]


@functools.lru_cache(maxsize=None)
def why_no_network():
    """Why machines cannot be made here; None: they can."""
    if os.geteuid() != 0:
        return "needs root"
    for program in ("ip", "nft", "ss", "tc", "nsenter", "setpriv"):
        if not shutil.which(program):
            return f"needs {program}"
    try:
        with Network(["probe"]) as net:
            net.shut("probe", [HOST])
    except (OSError, AssertionError) as error:
        return f"cannot make a network of namespaces: {error}"
    return None


def machine_of_each(targets=4, proxies=1, meta="embedded", etcds=1, spare=2, **_):
    """A Network with a machine for each node of a `Cluster` of these options, by its name, and for `spare` more targets."""
    members = etcds if meta == "etcd" else 0
    return Network([f"{kind}{i + 1}" for kind, count in (("p", proxies), ("etcd", members), ("t", targets + spare))
                    for i in range(count)])


def _run(words, text=""):
    done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=scaled(20))
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr.strip()}\n{text}"
    return done.stdout


class _Namespace:
    """A network namespace that lives as long as its holder, or a program in it."""

    def __init__(self):
        self._holder = subprocess.Popen(_HOLD, stdin=subprocess.DEVNULL)
        self.pid = self._holder.pid
        self.file = f"/proc/{self.pid}/ns/net"
        ours = os.readlink("/proc/self/ns/net")
        wait_until(lambda: os.readlink(self.file) != ours, 10, "a network namespace", every=0.001)
        self.enter = ["nsenter", f"--net={self.file}", "--"]

    def links(self, *lines):
        _run([*self.enter, "ip", "-batch", "-"], "".join(f"{line}\n" for line in lines))

    def rules(self, *lines):
        _run([*self.enter, "nft", "-f", "-"], "".join(f"{line}\n" for line in lines))

    def close(self):
        self._holder.kill()
        self._holder.wait()


class Network:
    """Machines that see each other and the host, until something is cut. Not thread-safe."""

    def __init__(self, machines):
        self.machines = list(machines)
        self._spaces, self._relays, self._dropped = {}, {}, {}
        try:
            self._build()
        except BaseException:
            self.close()
            raise

    def _build(self):
        self._spaces = {name: _Namespace() for name in [*self.machines, "switch"]}
        switch = self._spaces["switch"]
        switch.links("link set lo up", "link add bridge type bridge", "link set bridge up")
        self._net, self._link = self._lead_to_host(switch)
        for number, name in enumerate(self.machines):
            space = self._spaces[name]
            switch.links(f"link add v{number} type veth peer name eth0 netns {space.pid}",
                         f"link set v{number} master bridge up")
            space.links("link set lo up", f"addr add {self.address(name)}/24 dev eth0", "link set eth0 up",
                        f"route add default via {self.address(HOST)}")
            space.rules(f"table {TABLE} {{", "chain in {", "type filter hook input priority 0", "}",
                        "chain out {", "type filter hook output priority 0", "}", "}")

    def _lead_to_host(self, switch):
        """A pair of interfaces with a free network on the host's side: (network, name of the interface)."""
        for _ in range(50):
            net = random.SystemRandom().choice(list(NETWORKS.subnets(new_prefix=24)))
            if _run(["ip", "-4", "route", "show", str(net)]):
                continue
            link = f"tarn{int(net.network_address) & 0xFFFFFF:x}"
            made = subprocess.run(["ip", "link", "add", link, "type", "veth", "peer", "name", "host", "netns", str(switch.pid)],
                                  capture_output=True, text=True)
            if made.returncode != 0:
                assert "File exists" in made.stderr, made.stderr
                continue
            _run(["ip", "-batch", "-"], f"addr add {net[254]}/24 dev {link}\nlink set {link} up\n")
            switch.links("link set host master bridge up")
            return net, link
        raise AssertionError(f"no free network in {NETWORKS}")

    def close(self):
        """Ends the relays and the namespaces; programs that a test started must be gone, or the namespaces stay with them."""
        for relay in self._relays.values():
            relay.kill()
            relay.wait()
        if hasattr(self, "_link"):
            subprocess.run(["ip", "link", "del", self._link], capture_output=True)
        for space in self._spaces.values():
            space.close()
        self._spaces, self._relays = {}, {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # --- machines ---

    def address(self, machine):
        return str(self._net[254 if machine == HOST else 1 + self.machines.index(machine)])

    def runner(self, machine):
        """Words that start a program on the machine, to be put before it. They become it."""
        return self._spaces[machine].enter

    def place(self, machine):
        """The entry of a machine for `deploy/local-cluster --places`."""
        return {"host": self.address(machine), "runner": self.runner(machine)}

    # --- faults; each lasts until heal() ---

    def _drop(self, machine, side, what):
        self._spaces[machine].rules(f"add rule {TABLE} {side} {what}")

    def shut(self, machine, others, sides=("in", "out")):
        """Cuts a machine off from others with rules on its own side only, so that healing it heals this."""
        ends = {"in": "saddr", "out": "daddr"}
        self._spaces[machine].rules(*(f"add rule {TABLE} {side} ip {ends[side]} {self.address(other)} counter drop"
                                      for other in others for side in sides))

    def split(self, *groups):
        """No machine of a group reaches one of another group. The host reaches all."""
        for number, group in enumerate(groups):
            for machine in group:
                self.shut(machine, [each for other in groups[number + 1 :] for each in other])

    def lose(self, machine, percent):
        """Drops so many percent of the packets that come to a machine, at random."""
        self._drop(machine, "in", f"iifname eth0 numgen random mod 100 < {percent} counter drop")

    def reset(self, machine, permille):
        """TCP connections of a machine are reset at random: so many of a thousand packets do it."""
        self._drop(machine, "in", f"iifname eth0 meta l4proto tcp numgen random mod 1000 < {permille} "
                                  "counter reject with tcp reset")

    def reset_all(self):
        """Resets every TCP connection that sends a packet now."""
        for machine in self.machines:
            self._drop(machine, "in", "iifname eth0 meta l4proto tcp counter reject with tcp reset")

    def limit(self, machine, megabits):
        """A machine sends no faster than that."""
        _run([*self.runner(machine), "tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", f"{megabits}mbit",
              "burst", "128kb", "latency", "500ms"])

    def delay(self, machine, seconds, jitter, back=None):
        """Delays new TCP connections from and to a machine, through a relay, since there is no netem here. Bytes take `seconds` more
        each way, give or take `jitter`; with `back`, bytes to the side that connected take that long. Resets present connections."""
        relay = subprocess.Popen(
            [*self.runner(machine), sys.executable, str(Path(__file__).with_name("delay_relay.py")), str(seconds), str(jitter),
             str(seconds if back is None else back)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self._relays[machine] = relay
        port, mark = relay.stdout.readline().split()
        begins = "tcp flags & (fin | syn | rst | ack) == syn"
        self._spaces[machine].rules(
            "table ip nemesisnat {", "chain in {", "type nat hook prerouting priority -100",
            f"iifname eth0 {begins} counter redirect to :{port}", "}",
            "chain out {", "type nat hook output priority -100",
            f"oifname eth0 meta mark != {mark} {begins} counter redirect to :{port}", "}", "}")
        # Those that were there before.
        _run([*self.runner(machine), "ss", "-K", "-tn", "not", "dst", self.address(machine)])

    def _counted(self, machine):
        tables = json.loads(_run([*self.runner(machine), "nft", "-j", "list", "ruleset"]))["nftables"]
        rules = [entry["rule"]["expr"] for entry in tables if "rule" in entry]
        return sum(part["counter"]["packets"] for rule in rules for part in rule if "counter" in part)

    def _throttled(self, machine):
        queues = json.loads(_run([*self.runner(machine), "tc", "-s", "-j", "qdisc", "show", "dev", "eth0"]))
        return sum(each.get("overlimits", 0) for each in queues if each["kind"] == "tbf")

    def touched(self):
        """How many packets the faults of each machine have hit so far, healed ones included."""
        return {machine: self._touched(machine) for machine in self.machines}

    def _touched(self, machine):
        return self._dropped.get(machine, 0) + self._counted(machine) + self._throttled(machine)

    def heal(self, *machines):
        """Ends all faults on these machines, or on all."""
        for machine in machines or self.machines:
            self._dropped[machine] = self._touched(machine)
            self._spaces[machine].rules(f"flush table {TABLE}")
            if machine in self._relays:
                relay = self._relays.pop(machine)
                relay.send_signal(signal.SIGKILL)
                relay.wait()
                time.sleep(0.05)  # without the rules, the last packets of its connections would go nowhere
                self._spaces[machine].rules("delete table ip nemesisnat")
            with contextlib.suppress(AssertionError):  # there is none
                _run([*self.runner(machine), "tc", "qdisc", "del", "dev", "eth0", "root"])
