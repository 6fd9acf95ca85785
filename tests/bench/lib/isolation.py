"""A corner of the machine of our own: private network, mounts and processes, so that nothing outlives a run, whatever
ends it, and the loopback's congestion control is known. Needs root; without it a run goes on in the open and says so."""

import ctypes
import fcntl
import os
import signal
import socket
import struct
import sys
import time
from pathlib import Path

CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x20000000, 0x40000000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
PR_SET_PDEATHSIG = 1
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
PATIENCE_SECONDS = 20

libc = ctypes.CDLL(None, use_errno=True)


def run_isolated(function):
    """Calls `function(note)` in a process of its own, whose death ends all that it started, and returns its exit code.
    `note` is empty when the corner is private, else it says what is not."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if os.geteuid() != 0:
        return function("not root: the network is shared with the machine, with its congestion control")
    if libc.unshare(CLONE_NEWPID | CLONE_NEWNET) != 0:
        reason = os.strerror(ctypes.get_errno())
        return function(f"no namespaces here ({reason}): the network is shared with the machine")
    child = os.fork()
    if child == 0:
        os._exit(_as_first_process(function))
    return _wait_for(child)


def _as_first_process(function):
    code = 1
    try:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setpgrp()  # Ctrl-C is the parent's, which passes it on once: a second one would break the cleaning up
        if libc.unshare(CLONE_NEWNS) != 0:
            raise OSError(ctypes.get_errno(), "no mount namespace")
        libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None)
        libc.mount(b"proc", b"/proc", b"proc", 0, None)
        _bring_loopback_up()
        code = function(_use_reno())
    except KeyboardInterrupt:
        code = 130
    except BaseException as error:  # the last line of defence of a process that os._exit ends
        print(f"bench: {error!r}", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _bring_loopback_up():
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))


def _use_reno():
    try:
        Path("/proc/sys/net/ipv4/tcp_congestion_control").write_text("reno")
        return ""
    except OSError as error:
        return f"reno is not to be had ({error.strerror})"


def _wait_for(child):
    """Passes the first signal on, so that the child may clean up, and kills it when it does not end."""
    asked = []

    def pass_on(_number, _frame):
        asked.append(time.monotonic())
        os.kill(child, signal.SIGKILL if len(asked) > 1 else signal.SIGTERM)

    signal.signal(signal.SIGINT, pass_on)
    signal.signal(signal.SIGTERM, pass_on)
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        if asked and time.monotonic() - asked[0] > PATIENCE_SECONDS:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.05)


class MemoryGroup:
    """A memory cgroup (version 1 or 2). `enter` is for preexec_fn. None could be made: `why` says so."""

    ROOTS = [(Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"), (Path("/sys/fs/cgroup"), "memory.max")]

    def __init__(self, name, limit):
        self.path, self.why = None, "no memory controller below /sys/fs/cgroup"
        for root, key in self.ROOTS:
            path = root / name
            try:
                path.mkdir()
                (path / key).write_text(str(limit))
                self.path = path
                return
            except OSError as error:
                self.why = f"{path}: {error.strerror}"
                self._remove(path)

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def usage(self):
        """Bytes charged to it at most, so far."""
        for key in ("memory.max_usage_in_bytes", "memory.peak"):
            if (self.path / key).exists():
                return int((self.path / key).read_text())
        return 0

    def close(self):
        if self.path:
            self._remove(self.path)

    @staticmethod
    def _remove(path):
        # Its processes may be a moment in going.
        for _ in range(100):
            try:
                path.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.05)


def remove_memory_groups(name):
    """What a run that was killed left of `name`; called when all its processes are gone."""
    for root, _ in MemoryGroup.ROOTS:
        if (root / name).is_dir():
            MemoryGroup._remove(root / name)
