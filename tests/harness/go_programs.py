"""Programs that are Go modules, built once into build/go-programs with the compiler that tests/requirements.txt names."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = REPOSITORY / "build"


def go_program(package, version):
    """The path of the program that `package` is, at a version; built when it is not there. Several processes may ask."""
    name = package.rsplit("/", 1)[-1]
    folder = BUILD / "go-programs" / f"{name}-{version}"
    program = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            environment = os.environ | {
                "GOBIN": str(folder), "GOCACHE": str(BUILD / "go-cache"), "GOMODCACHE": str(BUILD / "go-modules"),
                "GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
            done = subprocess.run([Path(sys.executable).parent / "go", "install", "-trimpath", "-ldflags=-s -w",
                                   f"{package}@{version}"], env=environment, capture_output=True, text=True, timeout=1800)
            assert done.returncode == 0, f"go install {package}@{version}:\n{done.stderr}"
    return program
