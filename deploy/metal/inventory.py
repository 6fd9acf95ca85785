"""Reads the inventory of a cluster: a TOML file with machines, their roles, drives and addresses. Touches no machine."""

import dataclasses
import difflib
import ipaddress
import re
import tomllib

ROLES = ("etcd", "proxy", "target")  # each needs the ones before
PORTS = {"proxy": 8080, "relay": 8081, "proxy_internal": 8180, "target": 8090, "target_internal": 8190, "etcd": 2379,
         "etcd_peer": 2380}
# Ports that a role listens at.
PORTS_OF = {"etcd": ("etcd", "etcd_peer"), "proxy": ("proxy", "relay", "proxy_internal"), "target": ("target", "target_internal")}
# Names that settings had before.
FORMER_SETTINGS = {"rebuild.floor": "rebuild.bandwidth_min"}
DRIVES_BELOW = "/srv/tarn"  # where deploy/drives mounts

NAME = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9.-]{0,61}[a-zA-Z0-9])?")
# One word of a command line of systemd that it takes as it stands.
WORD = re.compile(r"[A-Za-z0-9_.,:/@+\[\]-]+")


class Wrong(Exception):
    """An inventory that cannot be used: one line for each problem."""

    def __init__(self, problems):
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclasses.dataclass(frozen=True)
class Host:
    name: str
    address: str  # an IP address, for nodes and clients
    roles: tuple  # in the order of ROLES
    drives: tuple = ()  # mount points
    public: str = ""  # what clients are told in place of the address
    networks: tuple = ()  # (network, name or address) for the clients of some networks
    zone: str = ""  # failure domain of a target
    settings: dict = dataclasses.field(default_factory=dict)
    ssh_host: str = ""
    ssh_user: str = ""
    ssh_port: int = 0
    ssh_key: str = ""


@dataclasses.dataclass(frozen=True)
class Inventory:
    name: str
    hosts: tuple
    ports: dict
    settings: dict
    etcd: tuple = ()  # URLs of an etcd that is not of this cluster's machines
    ssh_config: str = ""  # in place of the user's own

    def of_role(self, role):
        return [host for host in self.hosts if role in host.roles]

    def meta(self):
        """URLs of etcd; empty for a cluster with the store that is embedded in its one proxy."""
        return list(self.etcd) or [self.url(host, "etcd") for host in self.of_role("etcd")]

    def url(self, host, port):
        return f"http://{self.at(host, port)}"

    def at(self, host, port):
        return with_port(host.address, self.ports[port])


def with_port(address, port):
    """10.0.0.5:8080, [fd00::5]:8080"""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def read(path):
    try:
        with open(path, "rb") as file:
            return parse(tomllib.load(file))
    except tomllib.TOMLDecodeError as error:
        raise Wrong([f"no TOML: {error}"])
    except OSError as error:
        raise Wrong([f"it cannot be read: {error.strerror}"])
    except UnicodeDecodeError:
        raise Wrong(["no TOML: it is not UTF-8"])


def parse(table):
    """The inventory in a parsed TOML document. Raises Wrong with all problems that are found."""
    return _Reader().inventory(table)


class _Reader:
    def __init__(self):
        self.problems = []

    def inventory(self, table):
        self.known(table, "", ("cluster", "ssh", "ports", "settings", "hosts"))
        cluster = self.table(table, "cluster", "")
        self.known(cluster, "cluster.", ("name", "etcd"))
        name = cluster.get("name", "")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            self.wrong("cluster.name", "want a name of letters, digits, dots and dashes")
        ssh = self.ssh(self.table(table, "ssh", ""), "ssh.", ("user", "port", "key", "config"))
        hosts = table.get("hosts", [])
        if not isinstance(hosts, list) or not hosts or not all(isinstance(host, dict) for host in hosts):
            raise Wrong([*self.problems, "hosts: want a table [[hosts]] for each machine"])
        hosts = tuple(self.host(host, number, ssh) for number, host in enumerate(hosts, 1))
        inventory = Inventory(name, hosts, self.ports(self.table(table, "ports", "")),
                              self.settings(self.table(table, "settings", ""), "settings."), self.etcd(cluster.get("etcd", [])),
                              str(ssh.get("config", "")))
        self.whole(inventory)
        if self.problems:
            raise Wrong(self.problems)
        return inventory

    # --- parts ---

    def wrong(self, where, what):
        self.problems.append(f"{where}: {what}")

    def known(self, table, where, names):
        for key in table:
            if key not in names:
                near = difflib.get_close_matches(key, names, 1)
                self.wrong(where + key, f"there is no such key; did you mean {near[0]}?" if near else
                           f"there is no such key; there are {', '.join(names)}")

    def table(self, table, key, where):
        value = table.get(key, {})
        if not isinstance(value, dict):
            self.wrong(where + key, "want a table")
            return {}
        return value

    def ssh(self, table, where, keys=("host", "user", "port", "key")):
        self.known(table, where, keys)
        for key in ("host", "user", "key", "config"):
            value = table.get(key, "")
            # A dash in front would be an option of ssh.
            if not isinstance(value, str) or value.startswith("-") or re.search(r"\n" if key in ("key", "config") else r"[\s@]", value):
                self.wrong(where + key, f"{value!r} cannot be that")
        if not _is_port(table.get("port", 22), 1):
            self.wrong(where + "port", "want a number from 1 to 65535")
        return table

    def ports(self, table):
        self.known(table, "ports.", tuple(PORTS))
        ports = PORTS | {key: value for key, value in table.items() if key in PORTS}
        for key, value in ports.items():
            if not _is_port(value, 1024):
                self.wrong(f"ports.{key}", f"{value!r}: want a number from 1024 to 65535")
        for key, value in ports.items():
            twin = next((other for other in ports if other < key and ports[other] == value), None)
            if twin:
                self.wrong(f"ports.{key}", f"{value} is the port of {twin} as well")
        return ports

    def settings(self, table, where):
        settings = {}
        for key, value in _flat(table):
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if not isinstance(value, (str, int, float)) or not WORD.fullmatch(text):
                self.wrong(where + key, f"{value!r}: want a number, true, false, or a text without spaces")
            settings[FORMER_SETTINGS.get(key, key)] = text
        return settings

    def etcd(self, urls):
        urls = urls if isinstance(urls, list) else [urls]
        for url in urls:
            if not isinstance(url, str) or not re.fullmatch(r"http://[\w.\[\]:-]+:\d+", url):
                self.wrong("cluster.etcd", f"{url!r}: want URLs such as http://10.0.0.9:2379")
        return tuple(map(str, urls))

    def host(self, table, number, ssh):
        name = table.get("name", "")
        where = f"host {name}: " if isinstance(name, str) and name else f"host {number}: "
        self.known(table, where, ("name", "address", "roles", "drives", "public", "networks", "zone", "settings", "ssh"))
        if not isinstance(name, str) or not NAME.fullmatch(name):
            self.wrong(f"{where}name", "want a name of letters, digits, dots and dashes")
        roles = table.get("roles", [])
        if not isinstance(roles, list) or not roles or any(role not in ROLES for role in roles):
            self.wrong(f"{where}roles", f"want a list of {', '.join(ROLES)}, not {roles!r}")
            roles = [role for role in roles if role in ROLES] if isinstance(roles, list) else []
        own = ssh | self.ssh(self.table(table, "ssh", where), f"{where}ssh.")
        public = table.get("public", "")
        if public != "":
            self.is_place(public, f"{where}public")
        address = self.address(table.get("address"), where)
        return Host(name=str(name), address=address, roles=tuple(role for role in ROLES if role in roles),
                    drives=self.drives(table, roles, where), public=str(public),
                    networks=self.networks(table, roles, where), zone=self.zone(table, roles, where),
                    settings=self.settings(self.table(table, "settings", where), f"{where}settings."),
                    ssh_host=own.get("host", address), ssh_user=own.get("user", ""), ssh_port=own.get("port", 0), ssh_key=own.get("key", ""))

    def is_place(self, text, key):
        if not isinstance(text, str) or not re.fullmatch(r"[A-Za-z0-9.:-]+", text):
            self.wrong(key, f"{text!r}: want a name or an address, without a port")
            return False
        return True

    def networks(self, table, roles, where):
        found = []
        for network, place in self.table(table, "networks", where).items():
            key = f"{where}networks.{network}"
            try:
                network = str(ipaddress.ip_network(network))
            except ValueError as problem:
                self.wrong(key, f"{problem}: want a network such as 10.1.0.0/16")
                continue
            if self.is_place(place, key):
                found.append((network, place))
        if found and "target" not in roles:
            self.wrong(f"{where}networks", "only a target has addresses by network: add the role target, or remove them")
        return tuple(found)

    def zone(self, table, roles, where):
        zone = table.get("zone", "")
        if zone == "":
            return ""
        if not isinstance(zone, str) or not re.fullmatch(r"[A-Za-z0-9._-]{1,63}", zone):
            self.wrong(f"{where}zone", f"{zone!r}: want 1 to 63 letters, digits, dots, _ and -")
            return ""
        if "target" not in roles:
            self.wrong(f"{where}zone", "only a target has a zone: add the role target, or remove it")
        return zone

    def address(self, text, where):
        try:
            address = ipaddress.ip_address(text if isinstance(text, str) else "")
        except ValueError:
            self.wrong(f"{where}address", f"{text!r}: want the IP address at which the other machines reach it")
            return ""
        if address.is_unspecified or address.is_multicast or address.is_link_local:
            self.wrong(f"{where}address", f"{text}: other machines cannot reach that")
        return str(address)

    def drives(self, table, roles, where):
        drives = table.get("drives", [])
        if isinstance(drives, int) and not isinstance(drives, bool) and 1 <= drives <= 256:
            drives = [f"{DRIVES_BELOW}/{number}" for number in range(1, drives + 1)]
        if not isinstance(drives, list) or not all(isinstance(drive, str) for drive in drives):
            self.wrong(f"{where}drives", f"want how many there are below {DRIVES_BELOW}, or a list of mount points")
            return ()
        if "target" in roles and not drives:
            self.wrong(f"{where}drives", "a target needs at least one")
        if "target" not in roles and drives:
            self.wrong(f"{where}drives", "only a target has drives: add the role target, or remove them")
        for index, drive in enumerate(drives):
            if not re.fullmatch(r"(/[A-Za-z0-9_.+-]+)+", drive) or "/../" in f"{drive}/" or "/./" in f"{drive}/":
                self.wrong(f"{where}drives", f"{drive!r}: want an absolute path of letters, digits, _ . + and -")
            for other in drives[:index]:
                if f"{drive}/".startswith(f"{other}/") or f"{other}/".startswith(f"{drive}/"):
                    self.wrong(f"{where}drives", f"{drive} and {other} are the same drive, or one is inside of the other")
        return tuple(drives)

    # --- all together ---

    def whole(self, inventory):
        for what in ("name", "address"):
            seen = {}
            for host in inventory.hosts:
                value = getattr(host, what)
                if value and value in seen:
                    self.wrong(f"host {host.name}: {what}", f"{value} is that of host {seen[value]} as well")
                seen[value] = host.name
        for role in ("proxy", "target"):
            if not inventory.of_role(role):
                self.wrong("hosts", f"at least one needs the role {role}")
        targets = inventory.of_role("target")
        for host in targets if any(host.zone for host in targets) else ():
            if not host.zone:
                self.wrong(f"host {host.name}: zone", "other targets have one: give each target a zone, or none")
        members = len(inventory.of_role("etcd"))
        if members and inventory.etcd:
            self.wrong("cluster.etcd", "either URLs of an etcd of your own, or hosts with the role etcd")
        if members and members % 2 == 0:
            self.wrong("hosts", f"{members} have the role etcd: want 1, 3 or 5, since {members} survive no more losses than {members - 1}")
        if not members and not inventory.etcd and len(inventory.hosts) > 1:
            self.wrong("hosts", "a cluster of several machines needs the role etcd on 1, 3 or 5 of them, or cluster.etcd")


def _is_port(value, least):
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= 65535


def _flat(table, before=""):
    """Settings with their whole names: TOML makes tables of scrub.period when it is not quoted."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield before + key, value
