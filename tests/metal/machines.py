"""Machines of a test: systemd-nspawn containers that boot Debian with systemd and sshd, in network namespaces of their
own, with loop devices as drives. Needs root. All state is below build/metal; nothing is registered with this machine."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
BUILD = REPOSITORY / "build/metal"
ROOT = BUILD / "root"
STATE = BUILD / "state"
PREFIX = "tmetal"  # of network namespaces and links
USER = "admin"
DRIVE_BYTES = 512 << 20  # XFS takes 300 MiB at least

BASE_PACKAGES = ("ca-certificates", "dbus", "iproute2", "openssh-server", "procps", "python3", "sudo", "systemd", "systemd-sysv")
NEEDED = {"debootstrap": "debootstrap", "systemd-nspawn": "systemd-container", "ssh": "openssh-client", "ip": "iproute2",
          "mkfs.xfs": "xfsprogs", "losetup": "mount", "nsenter": "util-linux"}

# udev does not run in containers. This makes the names by which units know file systems, as udev does: before anything
# is mounted, and soon after a file system is made.
UDEV = """#!/bin/sh
names() {
  mkdir -p /dev/disk/by-uuid
  for device in /dev/loop[0-9]*; do
    id=$(blkid -p -s UUID -o value "$device") && ln -sf "$device" "/dev/disk/by-uuid/$id"
  done
}
names
systemd-notify --ready
while sleep 1; do names; done
"""
UDEV_UNIT = """[Unit]
DefaultDependencies=no
Before=local-fs-pre.target
Wants=local-fs-pre.target
[Service]
Type=notify
NotifyAccess=all
ExecStart=/usr/local/sbin/names-of-drives
[Install]
WantedBy=sysinit.target
"""


class Failed(Exception):
    """The test does not pass, or cannot run: the text says why."""


def call(*words, check=True, seconds=300, **options):
    """Output of a command. Both of its streams, so that a failure explains itself."""
    result = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds,
                            check=False, **options)
    if check and result.returncode:
        raise Failed(f"{' '.join(map(str, words))}: exit code {result.returncode}\n{result.stdout}")
    return result.stdout


def wait_for(condition, seconds, what, every=0.3):
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise Failed(f"not within {seconds} s: {what}")
        time.sleep(every)
    return answer


def check_machine():
    if os.geteuid():
        raise Failed("needs root: containers, loop devices and network namespaces")
    missing = sorted({package for program, package in NEEDED.items() if shutil.which(program) is None})
    if missing:
        raise Failed(f"needs {' '.join(missing)}: deploy/install-deps --test --metal")
    for name in ("tarn", "tarn-proxy", "tarn-target"):
        if not (REPOSITORY / "build/release/bin" / name).exists():
            raise Failed(f"build/release/bin/{name} is not built: cmake --preset release && cmake --build --preset release")


def make_root(say):
    """Debian with sshd, once. Packages that `deploy/cluster` installs are downloaded, not installed: machines of the test
    have no way out."""
    if (ROOT / "ready").exists():
        return
    say(f"debootstrap into {ROOT}, once")
    shutil.rmtree(ROOT, ignore_errors=True)
    ROOT.mkdir(parents=True)
    call("debootstrap", "--variant=minbase", f"--include={','.join(BASE_PACKAGES)}", "bookworm", ROOT, "http://deb.debian.org/debian", seconds=1800)
    (ROOT / "etc/apt/sources.list").write_text(
        "deb http://deb.debian.org/debian bookworm main\ndeb http://deb.debian.org/debian bookworm-updates main\n"
        "deb http://deb.debian.org/debian-security bookworm-security main\n")
    shutil.copy("/etc/resolv.conf", ROOT / "etc/resolv.conf")
    inside = ["chroot", ROOT, "env", "-i", "HOME=/root", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive"]
    call(*inside, "apt-get", "-q", "update")
    packages = call(REPOSITORY / "deploy/install-deps", "--list", "--runtime", "--image", "--etcd").split()
    call(*inside, "apt-get", "-q", "-y", "install", "--no-install-recommends", "--download-only", *packages, "xfsprogs", "e2fsprogs", seconds=1800)
    (ROOT / "etc/resolv.conf").write_text("")
    call(*inside, "useradd", "--create-home", "--shell", "/bin/bash", USER)
    (ROOT / "etc/sudoers.d/admin").write_text(f"{USER} ALL=(ALL) NOPASSWD: ALL\n")
    (ROOT / "etc/machine-id").write_text("")
    (ROOT / "etc/systemd/system/names-of-drives.service").write_text(UDEV_UNIT)
    program = ROOT / "usr/local/sbin/names-of-drives"
    program.write_text(UDEV)
    program.chmod(0o755)
    call(*inside, "systemctl", "enable", "names-of-drives.service", "ssh.service")
    (ROOT / "ready").touch()


class Machine:
    def __init__(self, number):
        self.name = f"s{number}"
        self.address = f"10.251.0.{number}"
        self.space = f"{PREFIX}-{self.name}"
        self.folder = STATE / self.name
        self.root = self.folder / "root"
        self.loops = []
        self.process = None

    def make(self, drives):
        for name in ("root", "upper", "work"):
            (self.folder / name).mkdir(parents=True)
        call("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={ROOT},upperdir={self.folder}/upper,workdir={self.folder}/work", self.root)
        keys = self.root / f"home/{USER}/.ssh"
        keys.mkdir(mode=0o700)
        shutil.copy(STATE / "key.pub", keys / "authorized_keys")
        call("chroot", self.root, "chown", "-R", f"{USER}:{USER}", f"/home/{USER}/.ssh")
        (self.root / "etc/hostname").write_text(f"{self.name}\n")
        (self.root / "etc/hosts").write_text(f"127.0.0.1 localhost\n{self.address} {self.name}\n")
        call("ip", "netns", "add", self.space)
        call("ip", "link", "add", f"{PREFIX}{self.name}", "netns", PREFIX, "type", "veth", "peer", "name", "host0", "netns", self.space)
        for words in (("set", f"{PREFIX}{self.name}", "master", "bridge0"), ("set", f"{PREFIX}{self.name}", "up")):
            call("ip", "-n", PREFIX, "link", *words)
        call("ip", "-n", self.space, "address", "add", f"{self.address}/24", "dev", "host0")
        for link in ("host0", "lo"):
            call("ip", "-n", self.space, "link", "set", link, "up")
        for _ in range(drives):
            self.add_drive()

    def add_drive(self):
        """One more loop device; a machine that runs sees it after its next start."""
        file = self.folder / f"drive{len(self.loops) + 1}"
        with open(file, "wb") as image:
            image.truncate(DRIVE_BYTES)
        self.loops.append(call("losetup", "--find", "--show", file).strip())
        return self.loops[-1]

    def start(self):
        log = open(self.folder / "console.log", "ab")
        words = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", f"--network-namespace-path=/run/netns/{self.space}",
                 f"--machine={self.name}", "--console=pipe", "-D", self.root, *(f"--bind={loop}" for loop in self.loops), "-b"]
        self.process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                        env={**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "0"})

    def wait_up(self):
        def answers():
            if self.process.poll() is not None:
                raise Failed(f"{self.name} ended\n{(self.folder / 'console.log').read_text(errors='replace')[-3000:]}")
            return "up" in self.run("echo up", check=False)
        wait_for(answers, 120, f"{self.name} answers by ssh")

    def run(self, command, check=True, seconds=120):
        """A command of the shell, by ssh, as root."""
        return operator("ssh", "-F", STATE / "ssh_config", "-o", "ConnectTimeout=5", self.address, f"sudo sh -c '{command}'",
                        check=check, seconds=seconds)

    def reboot(self):
        """Reboots as the machine itself does; the container ends with 133 and must be started again."""
        self.run("systemctl reboot", check=False)
        code = self.process.wait(180)
        if code != 133:
            raise Failed(f"{self.name} ended with {code} in place of a reboot")
        self.start()
        self.wait_up()

    def cut_network(self):
        call("ip", "-n", PREFIX, "link", "set", f"{PREFIX}{self.name}", "down")

    def join_network(self):
        call("ip", "-n", PREFIX, "link", "set", f"{PREFIX}{self.name}", "up")

    def cut_power(self):
        """All processes at once. What was not synced stays in the page cache of this machine: no loss of writes is shown."""
        kill_inside(self.space)
        self.process.kill()
        self.process.wait()


def kill_inside(space):
    """All processes of a network namespace, and waits for their end. Those of a container outlive systemd-nspawn."""
    deadline = time.monotonic() + 60
    while found := call("ip", "netns", "pids", space, check=False).split():
        if time.monotonic() > deadline:
            raise Failed(f"processes of {space} do not end: {found}")
        for process in found:
            with contextlib.suppress(ProcessLookupError, ValueError):
                os.kill(int(process), signal.SIGKILL)
        time.sleep(0.1)


def operator(*words, **options):
    """A command on the operator's machine, which is in the network of the others."""
    return call("nsenter", f"--net=/run/netns/{PREFIX}", *words, **options)


def make_network():
    call("ip", "netns", "add", PREFIX)
    for words in (("add", "bridge0", "type", "bridge"), ("set", "bridge0", "up"), ("set", "lo", "up")):
        call("ip", "-n", PREFIX, "link", *words)
    call("ip", "-n", PREFIX, "address", "add", "10.251.0.254/24", "dev", "bridge0")


def make_keys(machines):
    call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", STATE / "key")
    key = (ROOT / "etc/ssh/ssh_host_ed25519_key.pub").read_text().strip()
    (STATE / "known_hosts").write_text("".join(f"{machine.address} {key}\n" for machine in machines))
    (STATE / "ssh_config").write_text(f"UserKnownHostsFile {STATE}/known_hosts\nGlobalKnownHostsFile /dev/null\nIdentityFile {STATE}/key\n"
                                      f"IdentitiesOnly yes\nUser {USER}\nStrictHostKeyChecking yes\nLogLevel ERROR\n")


def remove_all():
    """What a run has left, this one or one before."""
    spaces = [line.split()[0] for line in call("ip", "netns", "list").splitlines() if line.split()[0] == PREFIX or line.startswith(f"{PREFIX}-")]
    for space in spaces:
        kill_inside(space)
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        if line.split()[1].startswith(f"{STATE}/"):
            call("umount", "-l", line.split()[1], check=False)
    for line in call("losetup", "-l", "-n", "-O", "NAME,BACK-FILE").splitlines():
        if f"{STATE}/" in line:
            call("losetup", "-d", line.split()[0], check=False)
    for space in spaces:
        call("ip", "netns", "delete", space, check=False)
    shutil.rmtree(STATE, ignore_errors=True)


if __name__ == "__main__":
    sys.exit("this is a part of tests/metal/run")
