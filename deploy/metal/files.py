"""What belongs on a machine: the files of its services, from the inventory. Pure; nothing is read but units."""

import dataclasses
import hashlib
import re
from pathlib import Path

from .inventory import with_port

DEPLOY = Path(__file__).resolve().parent.parent
UNITS = "/etc/systemd/system"
OWN = "/etc/tarn"
CLUSTER_FILE = f"{OWN}/cluster"
SECRET_FILE = f"{OWN}/cluster.secret"
BIN = "/usr/local/bin"
PROGRAMS = ("tarn", "tarn-proxy", "tarn-target")
PROGRAM_OF = {"proxy": "tarn-proxy", "target": "tarn-target"}
JOIN_FILE = f"{OWN}/etcd-join.conf"  # of a member that joins others
DRIVES_TOOL = "/usr/local/sbin/tarn-drives"
STOP_EXTRA = 60  # seconds for the last writes after shutdown.grace


@dataclasses.dataclass(frozen=True)
class Service:
    role: str
    digest: str  # of all that its process is started with; it has it in its environment

    @property
    def unit(self):
        return f"tarn-{self.role}.service"


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What a host shall have. Files without the programs and the secret."""
    files: dict  # path: (mode, text)
    services: tuple


def wanted(inventory, host, programs, keys):
    """`programs` are {name: digest}; `keys` are {role: names of settings that its program has}."""
    files = {CLUSTER_FILE: (0o644, f"{inventory.name}\n"),
             DRIVES_TOOL: (0o755, (DEPLOY / "drives").read_text()),
             "/etc/sysusers.d/tarn.conf": (0o644, (DEPLOY / "systemd/tarn.sysusers").read_text()),
             "/etc/sysctl.d/60-tarn.conf": (0o644, (DEPLOY / "systemd/tarn.sysctl").read_text())}
    services = []
    for role in host.roles:
        settings = {key: value for key, value in (inventory.settings | host.settings).items() if key in keys.get(role, ())}
        unit = f"{UNITS}/tarn-{role}.service"
        own = {unit: (0o644, (DEPLOY / f"systemd/tarn-{role}.service").read_text())}
        addition = _unit_addition(host, role, settings)
        own[f"{unit}.d/host.conf"] = (0o644, addition)
        text = _etcd(inventory, host) if role == "etcd" else _options(inventory, host, role, settings)
        program = programs[PROGRAM_OF[role]] if role in PROGRAM_OF else ""
        # A member reads with whom it begins when it begins, and not again.
        read = re.sub("(?m)^ETCD_INITIAL_CLUSTER=.*\n", "", text)
        digest = hashlib.sha256("\0".join([read, program, *(each for _, each in own.values())]).encode()).hexdigest()[:16]
        head = f"# Of the cluster {inventory.name}. Written by deploy/cluster: change the inventory instead.\n"
        own[f"{OWN}/{role}.conf"] = (0o644, f"{head}TARN_DEPLOYED={digest}\n{text}")
        files |= own
        services.append(Service(role, digest))
    return Wanted(files, tuple(services))


def _options(inventory, host, role, settings):
    """The line of options of a proxy or target."""
    meta = inventory.meta()
    words = []
    if role == "proxy":
        listeners = {"--listen": "proxy", "--relay": "relay", "--internal": "proxy_internal"}
    else:
        listeners = {"--listen": "target", "--internal": "target_internal"}
    for option, port in listeners.items():
        # Clients that come by another address than the machines' own need a listener there.
        everywhere = (host.public or host.networks) and option != "--internal"
        address = ("::" if ":" in host.address else "0.0.0.0") if everywhere else host.address
        words += [option, with_port(address, inventory.ports[port])]
    if host.public:
        words += ["--advertise", f"http://{with_port(host.public, inventory.ports[role])}"]
    elif host.networks:
        words += ["--advertise", f"http://{with_port(host.address, inventory.ports[role])}"]
    for network, place in host.networks if role == "target" else ():
        words += ["--advertise", f"{network}=http://{with_port(place, inventory.ports[role])}"]
    if host.zone and role == "target":
        words += ["--zone", host.zone]
    if meta:
        words += ["--meta", ",".join(meta)]
    elif role == "target":
        words += ["--join", inventory.url(inventory.of_role("proxy")[0], "proxy_internal")]
    for drive in host.drives if role == "target" else ():
        words += ["--drive", drive]
    for key, value in sorted(settings.items()):
        words += ["--set", f"{key}={value}"]
    return f'TARN_OPTIONS="{" ".join(words)}"\n'


def _etcd(inventory, host):
    members = ",".join(f"{each.name}={inventory.url(each, 'etcd_peer')}" for each in inventory.of_role("etcd"))
    lines = {"NAME": host.name, "INITIAL_CLUSTER": members, "INITIAL_CLUSTER_TOKEN": f"tarn-{inventory.name}",
             "LISTEN_CLIENT_URLS": inventory.url(host, "etcd"), "ADVERTISE_CLIENT_URLS": inventory.url(host, "etcd"),
             "LISTEN_PEER_URLS": inventory.url(host, "etcd_peer"), "INITIAL_ADVERTISE_PEER_URLS": inventory.url(host, "etcd_peer"),
             "AUTO_COMPACTION_MODE": "periodic", "AUTO_COMPACTION_RETENTION": "1h", "LOGGER": "zap", "LOG_LEVEL": "warn"}
    return "".join(f"ETCD_{key}={value}\n" for key, value in lines.items())


def _unit_addition(host, role, settings):
    """What the unit of this host has beside what all have."""
    unit, service = [], []
    for drive in host.drives if role == "target" else ():
        # The service starts after its drives are mounted, and without those that cannot be. A restart mounts nothing.
        unit.append(f"After={mount_unit(drive)}")
        if not drive.startswith("/srv/tarn/"):
            service.append(f"ReadWritePaths=-{drive}")
    seconds = sum(map(_seconds, (settings.get("shutdown.grace", "30s"), settings.get("shutdown.notice", "0s"))))
    if seconds > 30 and role != "etcd":
        service.append(f"TimeoutStopSec={seconds + STOP_EXTRA:.0f}")
    sections = [("Unit", unit), ("Service", service)]
    lines = ["# Written by deploy/cluster: change the inventory instead."]
    for name, words in sections:
        lines += ["", f"[{name}]", *words] if words else []
    return "\n".join(lines) + "\n"


def mount_unit(path):
    """srv-tarn-1.mount, as systemd-escape --path has it."""
    def escape(character):
        return character if re.match(r"[A-Za-z0-9:_.]", character) else "".join(f"\\x{byte:02x}" for byte in character.encode())

    return "-".join("".join(map(escape, part)) for part in path.strip("/").split("/")) + ".mount"


def _seconds(text):
    """Of a duration as settings have it, 1m30s; 0 for what the program will refuse."""
    units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([\d.]+)(ms|[smh])", text))
