"""Programs that the labs of the fault tests call."""

import os
import subprocess

from harness.cluster import PROGRAMS
from harness.waiting import scaled


def run(*command, timeout=60):
    """Runs a command and returns its output; raises with its words when it fails."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=scaled(timeout), check=False
    )
    if done.returncode != 0:
        raise OSError(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.returncode}")
    return done.stdout.strip()


def tool(name):
    """The path of a program of tests/fault/tools, None where it was not built."""
    path = PROGRAMS / name
    return str(path) if os.access(path, os.X_OK) else None


def copy_sparse(source, target):
    run("cp", "--sparse=always", "--reflink=auto", source, target)
