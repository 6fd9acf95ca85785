"""Machines over ssh: the OpenSSH client, its configuration and its known_hosts, as the user has them."""

import os
import shlex
import shutil
import subprocess
import tempfile

# Runs $0 with the arguments as root, by sudo where the user is another one.
AS_ROOT = 'if [ "$(id -u)" = 0 ]; then exec sh -c "$0" tarn "$@"; else exec sudo -n sh -c "$0" tarn "$@"; fi'

HINTS = (
    ("Host key verification failed", "its key is not in known_hosts, or is another one: log in once by hand and compare it"),
    ("Permission denied", "the user or the key is refused: see ssh.user and ssh.key of the inventory"),
    ("sudo: a password is required", "the user needs sudo without a password (NOPASSWD), or log in as root"),
    ("sudo: not found", "there is no sudo: install it, or log in as root"),
)


class Trouble(Exception):
    """Something that one machine does not do."""

    def __init__(self, host, text):
        super().__init__(f"{host.name}: {text}")
        self.host = host


class Machines:
    """Connections to hosts. One connection serves all calls to a host; close() ends them."""

    def __init__(self, config=None):
        self._config = config
        self._folder = tempfile.mkdtemp(prefix="tarn-ssh-")
        self._used = {}

    def close(self):
        for host in self._used.values():
            subprocess.run([*self._ssh(host), "-O", "exit", host.ssh_host], capture_output=True, check=False)
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, host, script, *words, data=b"", timeout=60, check=True):
        """Runs a script of sh as root with `data` as its input. Returns (exit code, output); raises Trouble when the host is
        out of reach, and when the script fails unless `check` is false."""
        self._used[host.name] = host
        command = shlex.join(["sh", "-c", AS_ROOT, script, *map(str, words)])
        try:
            result = subprocess.run([*self._ssh(host), host.ssh_host, command], input=data, capture_output=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            raise Trouble(host, f"no answer within {timeout:.0f} s")
        except OSError as error:
            raise Trouble(host, f"ssh cannot be started: {error}")
        errors = result.stderr.decode(errors="replace").strip()
        hint = next((hint for text, hint in HINTS if text in errors), None)
        if result.returncode == 255 or (hint and result.returncode):
            raise Trouble(host, f"{errors or 'ssh failed'}" + (f" ({hint})" if hint else ""))
        output = result.stdout.decode(errors="replace")
        if check and result.returncode:
            raise Trouble(host, errors or output.strip() or f"exit code {result.returncode}")
        return result.returncode, output if not result.returncode else f"{output}{errors}"

    def become(self, host, command):
        """Replaces this program by a command on the host that talks to the terminal. Does not return."""
        self.close()
        words = self._ssh(host, batch=False)
        root = shlex.join(["sh", "-c", AS_ROOT.replace("sudo -n", "sudo"), command])
        os.execvp("ssh", [*words, *(["-t"] if os.isatty(0) else []), host.ssh_host, root])

    def _ssh(self, host, batch=True):
        words = ["ssh", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"]
        if batch:
            words += ["-o", "BatchMode=yes", "-o", "ControlMaster=auto", "-o", f"ControlPath={self._folder}/%C", "-o", "ControlPersist=30"]
        words += ["-F", os.path.expanduser(self._config)] if self._config else []
        words += ["-l", host.ssh_user] if host.ssh_user else []
        words += ["-p", str(host.ssh_port)] if host.ssh_port else []
        words += ["-i", os.path.expanduser(host.ssh_key)] if host.ssh_key else []
        return words
