"""FUSE file systems whose operations can be made to fail, and the control sockets of their daemons."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess

from commands import run, tool
from harness.waiting import wait_until


class Daemon:
    """A running faultdisk or faultfs and its control socket."""

    def __init__(self, mountpoint, control, command):
        self.mountpoint = pathlib.Path(mountpoint)
        self.mountpoint.mkdir(exist_ok=True)
        self._control = control
        self.process = subprocess.Popen(
            [str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

        def ready():
            if self.process.poll() is not None:
                raise OSError(f"{command[0]}: {self.process.stderr.read().strip()}")
            return os.path.ismount(self.mountpoint)

        try:
            wait_until(ready, 10, f"{command[0]} has mounted {self.mountpoint}", every=0.005)
        except BaseException:
            self.close()
            raise

    def command(self, line, timeout=5.0):
        """Sends one command and returns its answer without the leading `ok`."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
            control.settimeout(timeout)
            control.connect(str(self._control))
            control.sendall(line.encode() + b"\n")
            answer = b""
            while not answer.endswith(b"\n"):
                chunk = control.recv(65536)
                if not chunk:
                    raise OSError(f"the daemon hung up on {line!r}")
                answer += chunk
        text = answer.decode().strip()
        if not text.startswith("ok"):
            raise ValueError(f"{line!r}: {text}")
        return text[3:]

    def rule(self, text):
        self.command("rule " + text)

    def clear(self):
        self.command("clear")

    def stats(self):
        return json.loads(self.command("stats"))

    def stop(self):
        """SIGSTOP: the drive hangs."""
        self.process.send_signal(signal.SIGSTOP)

    def cont(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        """SIGKILL: the drive is yanked; everything on it fails from now on."""
        self.process.kill()
        self.process.wait(10)

    def close(self):
        if self.process.poll() is None:
            self.cont()
            with contextlib.suppress(OSError, ValueError):
                self.clear()
            subprocess.run(["umount", str(self.mountpoint)], capture_output=True, check=False)
            self.process.terminate()
            try:
                self.process.wait(3)
            except subprocess.TimeoutExpired:
                self.kill()
        if os.path.ismount(self.mountpoint) or _is_dead_mount(self.mountpoint):
            run("umount", "-l", self.mountpoint)
        self.process.stderr.close()
        with contextlib.suppress(OSError):
            os.unlink(self._control)


def _is_dead_mount(path):
    """A FUSE mount whose daemon is gone answers ENOTCONN to everything."""
    try:
        os.stat(path)
        return False
    except OSError:
        return True


class FaultFs(Daemon):
    """A directory behind `faultfs`. `directory` is what lies below, `mountpoint` where faults happen."""

    def __init__(self, lab, name, directory, mountpoint):
        self.name = name
        self.directory = directory
        control = lab.root / f"{name}.ctl"
        super().__init__(mountpoint, control, [tool("faultfs"), mountpoint, directory, control])
