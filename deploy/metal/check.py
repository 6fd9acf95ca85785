"""What a machine is like, and what stands against a cluster there. The script below reads and changes nothing."""

import dataclasses
import hashlib

from . import files
from .inventory import PORTS_OF

CLOCK_NOTE, CLOCK_MOST = 1, 60  # seconds; nodes refuse calls whose clock is five minutes away
ROOM_NEEDED = 512 << 20  # bytes for programs, packages and notes
FILE_SYSTEMS = ("xfs", "ext4")
DEBIAN = "12"
USER_NUMBER = "10001"  # of tarn.sysusers

# A line for each fact: its kind, then fields, with tabs between. Words: roles, drives, packages, files; each one word; then
# the URL of etcd here.
SCRIPT = r"""
exec 2>/dev/null
tab=$(printf '\t')
(. /etc/os-release; printf 'os\t%s\t%s\t%s\n' "$ID" "$VERSION_ID" "$PRETTY_NAME")
printf 'machine\t%s\n' "$(uname -m)"
printf 'init\t%s\n' "$(cat /proc/1/comm)"
printf 'time\t%s\n' "$(date +%s.%N)"
printf 'user\t%s\t%s\n' "$(id -u tarn)" "$(getent passwd 10001 | cut -d: -f1)"
printf 'room\t%s\n' "$(df -B1 --output=avail /usr/local /var/lib | grep -v Avail | sort -n | head -n 1)"
printf 'cluster\t%s\n' "$(head -n 1 /etc/tarn/cluster)"
printf 'secret\t%s\n' "$([ -s /etc/tarn/cluster.secret ] && sha256sum </etc/tarn/cluster.secret | cut -c1-64)"
printf 'etcd\t%s\n' "$([ -e /var/lib/private/tarn-etcd/data/member ] && sed -n 's/^ETCD_INITIAL_CLUSTER=//p' /etc/tarn/etcd.conf)"
[ -n "$5" ] && printf 'members\t%s\n' "$(curl -s --max-time 5 -X POST -d '{}' "$5/v3/cluster/member/list")"
sed -n 's/^TARN_OPTIONS="\(.*\)"$/options\t\1/p' /etc/tarn/target.conf
for address in $(hostname -I) 127.0.0.1 ::1; do printf 'address\t%s\n' "$address"; done
awk '$4 == "0A" { sub(/.*:/, "", $2); print "listen\t" $2 }' /proc/net/tcp /proc/net/tcp6 | sort -u
dpkg-query -W -f '${db:Status-Abbrev}\t${Package}\n' $3 | sed -n "s/^ii *${tab}/package${tab}/p"
for role in $1; do
  unit=tarn-$role.service
  pid=$(systemctl show "$unit" -p MainPID --value)
  printf 'service\t%s\t%s\t%s\t%s\n' "$role" "$(systemctl show "$unit" -p ActiveState --value)" "$(systemctl is-enabled "$unit")" \
    "$([ "${pid:-0}" != 0 ] && tr '\0' '\n' <"/proc/$pid/environ" | sed -n 's/^TARN_DEPLOYED=//p')"
done
for file in $4; do
  [ -f "$file" ] && printf 'file\t%s\t%s\t%s\n' "$(sha256sum <"$file" | cut -c1-64)" "$(stat -c %a "$file")" "$file"
done
for drive in $2; do
  if mountpoint -q "$drive"; then
    unit=$(systemd-escape --path --suffix=mount "$drive")
    kept=no
    { findmnt -s -n -M "$drive" >/dev/null || [ -e "/etc/systemd/system/$unit" ]; } && kept=yes
    printf 'drive\t%s\t%s\t%s\t%s\t%s\t%s\n' "$drive" "$(findmnt -n -o FSTYPE -M "$drive" | tail -n 1)" "$(mountpoint -d "$drive")" \
      "$(stat -c %U:%u "$drive")" "$kept" "$(findmnt -n -o OPTIONS -M "$drive" | tail -n 1)"
    ls -A "$drive" | grep -vx 'lost+found' | head -n 3 | while read -r entry; do printf 'entry\t%s\t%s\n' "$drive" "$entry"; done
  else
    printf 'nodrive\t%s\t%s\n' "$drive" "$([ -e "$drive" ] && echo exists)"
  fi
done
echo end
"""


def words(inventory, host, wanted, packages):
    paths = [*wanted.files, *(f"{files.BIN}/{name}" for name in files.PROGRAMS)]
    return [" ".join(host.roles), " ".join(host.drives), " ".join(packages), " ".join(paths),
            inventory.url(host, "etcd") if "etcd" in host.roles else ""]


def unknown_settings(inventory, keys):
    """Lines for settings that no program of the hosts has."""
    problems = [f"settings.{key}: there is no such setting; docs/configuration.md has them" for key in inventory.settings
                if not any(key in names for names in keys.values())]
    for host in inventory.hosts:
        for key in host.settings:
            if not any(key in keys.get(role, ()) for role in host.roles):
                problems.append(f"host {host.name}: settings.{key}: no {' or '.join(host.roles)} has that setting")
    return problems


@dataclasses.dataclass(frozen=True)
class Drive:
    path: str
    kind: str = ""  # of its file system; empty when nothing is mounted
    device: str = ""
    owner: str = ""
    kept: bool = False  # mounted again at the next boot
    options: str = ""
    entries: tuple = ()
    exists: bool = False


class State:
    """A machine beside what it shall be."""

    def __init__(self, host, wanted, packages, programs, text, now):
        self.host = host
        self.wanted = wanted
        self.programs = programs
        self._facts = {}
        for line in text.splitlines():
            kind, *fields = line.split("\t")
            self._facts.setdefault(kind, []).append(fields)
        self.complete = "end" in self._facts
        installed = {fields[0] for fields in self._facts.get("package", [])}
        self.missing_packages = [name for name in packages if name not in installed]
        self.secret = self.one("secret")
        self.etcd_members = self.one("etcd")  # with which it began; empty when it has no data
        self.etcd_answer = self.one("members")
        self.services = {fields[0]: fields[1:] for fields in self._facts.get("service", [])}
        self.clock = _number(self.one("time")) - now
        there = {path: (digest, int(mode, 8)) for digest, mode, path in self._facts.get("file", [])}
        self.files_to_write = [path for path, (mode, text) in wanted.files.items()
                               if there.get(path) != (hashlib.sha256(text.encode()).hexdigest(), mode)]
        self.programs_to_write = [name for name in files.PROGRAMS if there.get(f"{files.BIN}/{name}", ("",))[0] != programs.digests[name]]
        self.drives = self._drives()

    def one(self, kind, field=0):
        rows = self._facts.get(kind) or [[]]
        return rows[0][field] if field < len(rows[0]) else ""

    def _drives(self):
        drives = {fields[0]: Drive(fields[0], exists=bool(fields[1:] and fields[1])) for fields in self._facts.get("nodrive", [])}
        for path, kind, device, owner, kept, options in self._facts.get("drive", []):
            entries = tuple(entry for place, entry in self._facts.get("entry", []) if place == path)
            drives[path] = Drive(path, kind, device, owner, kept == "yes", options, entries, True)
        return drives

    @property
    def new_drives(self):
        """Empty file systems, which get their owner."""
        return [drive.path for drive in self.drives.values() if drive.kind and not drive.entries and not self._is_ours(drive)]

    def _is_ours(self, drive):
        """True if it belongs to the user of targets, which may not be there yet."""
        return drive.owner.rpartition(":")[2] == (self.one("user") or USER_NUMBER)

    @property
    def secret_to_write(self):
        return not self.secret

    @property
    def writes(self):
        return bool(self.files_to_write or self.programs_to_write or self.secret_to_write or self.new_drives)

    def runs(self, role):
        return self.services.get(role, [""])[0] in ("active", "activating", "reloading")

    def outdated(self):
        """Roles whose process was started with something else than what is wanted."""
        return [service.role for service in self.wanted.services
                if self.runs(service.role) and self.services[service.role][2] and self.services[service.role][2] != service.digest]

    # --- for people ---

    def steps(self):
        steps = []
        if self.missing_packages:
            steps.append(f"install packages: {' '.join(self.missing_packages)}")
        if self.programs_to_write:
            steps.append(f"write programs to {files.BIN}: {' '.join(self.programs_to_write)}")
        if self.files_to_write:
            steps.append(f"write settings and units: {' '.join(self.files_to_write)}")
        if self.secret_to_write:
            steps.append(f"write {files.SECRET_FILE}")
        if self.new_drives:
            steps.append(f"give to the user tarn: {' '.join(self.new_drives)}")
        for service in self.wanted.services:
            if not self.runs(service.role):
                steps.append(f"start {service.unit}, now and at each boot")
            elif self.services[service.role][1] != "enabled":
                steps.append(f"start {service.unit} at each boot")
        return steps

    def warnings(self):
        warnings = []
        for drive in self.drives.values():
            if not drive.kind:
                warnings.append(f"{drive.path} is not mounted: the target goes on without it")
            if drive.kind and not drive.kept:
                warnings.append(f"{drive.path} was mounted by hand: after a boot it is missing")
            if drive.kind and "noatime" not in drive.options.split(","):
                warnings.append(f"{drive.path} is mounted without noatime: reads cause writes")
        if abs(self.clock) > CLOCK_NOTE:
            warnings.append(f"its clock is {self.clock:+.1f} s beside the one here: does it run chrony or systemd-timesyncd?")
        return warnings

    def problems(self, inventory):
        """What must be so before anything is done here."""
        if not self.complete:
            return ["the check ended early: does it have coreutils, util-linux and awk?"]
        if (self.one("os"), self.one("os", 1)) != ("debian", DEBIAN):
            return [f"this is {self.one('os', 2) or 'an unknown system'}: want Debian {DEBIAN}"]
        return [*self._machine(inventory), *self._ports(inventory), *self._mounts()]

    def _machine(self, inventory):
        if self.one("init") != "systemd":
            yield f"its first process is {self.one('init')}: want systemd"
        if self.one("machine") != self.programs.machine:
            yield f"it is {self.one('machine')}, the programs are for {self.programs.machine}"
        if self.host.address not in {fields[0] for fields in self._facts["address"]}:
            yield (f"{self.host.address} is not an address of it; it has "
                   + ", ".join(fields[0] for fields in self._facts["address"] if fields[0] not in ("127.0.0.1", "::1")))
        if self.one("cluster") not in ("", inventory.name):
            yield f"it belongs to the cluster {self.one('cluster')} (/etc/tarn/cluster)"
        if not self.one("user") and self.one("user", 1):
            yield f"user id 10001, which drives belong to, is that of {self.one('user', 1)}: make a user tarn first, useradd --system tarn"
        if _number(self.one("room")) < ROOM_NEEDED and (self.programs_to_write or self.missing_packages):
            yield f"/usr/local or /var/lib has {_number(self.one('room')) / 2**20:.0f} MiB free: want {ROOM_NEEDED >> 20}"

    def _ports(self, inventory):
        busy = {int(fields[0], 16) for fields in self._facts.get("listen", [])}
        for role in self.host.roles:
            for name in PORTS_OF[role]:
                if inventory.ports[name] in busy and not self.runs(role):
                    yield f"port {inventory.ports[name]} ({name}) is taken: stop what listens there (ss -ltnp), or change ports.{name}"

    def _mounts(self):
        before = self.one("options").split()
        seen = {}
        for drive in self.drives.values():
            if not drive.kind:
                # A target that was started with it knows that it is away, and serves the others.
                if drive.path not in before:
                    yield (f"{drive.path} is not mounted" + ("" if drive.exists else " and does not exist")
                           + f": mount it, or make a drive for it (deploy/cluster drives --inventory FILE {self.host.name} list)")
                continue
            if drive.kind not in FILE_SYSTEMS:
                yield f"{drive.path} is {drive.kind}: want {' or '.join(FILE_SYSTEMS)}"
            if "ro" in drive.options.split(","):
                yield f"{drive.path} is mounted read-only"
            if drive.device in seen:
                yield f"{drive.path} and {seen[drive.device]} are the same file system"
            seen[drive.device] = drive.path
            if drive.entries and not self._is_ours(drive):
                if ".tarn" in drive.entries:
                    yield f"{drive.path} belongs to {drive.owner.replace(':', ', id ')}: chown -R {self.one('user') or USER_NUMBER} {drive.path}"
                else:
                    yield f"{drive.path} holds something else ({', '.join(drive.entries)}): a drive is empty at first"


def problems_of_all(inventory, states):
    """What must be so of all machines together."""
    problems = []
    by_secret = {}
    for state in states:
        if state.secret:
            by_secret.setdefault(state.secret, []).append(state.host.name)
    if len(by_secret) > 1:
        problems.append(f"{files.SECRET_FILE} is not the same on all machines: " + " but ".join(", ".join(names) for names in by_secret.values()))
    members = [state for state in states if "etcd" in state.host.roles]
    begun = [state.host.name for state in members if state.etcd_members]
    if begun and not by_secret:
        problems.append(f"etcd on {', '.join(begun)} has a cluster, but no machine has {files.SECRET_FILE}: put it back")
    clocks = [state.clock for state in states]
    if clocks and max(clocks) - min(clocks) > CLOCK_MOST:
        problems.append(f"clocks are {max(clocks) - min(clocks):.0f} s apart: want chrony or systemd-timesyncd on all machines")
    return problems


def _number(text):
    try:
        return float(text)
    except ValueError:
        return 0.0
