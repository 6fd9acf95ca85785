"""Control groups (version 1) for nodes that shall run short of memory or threads."""

import contextlib
import os
import pathlib
import re
import threading

ROOT = pathlib.Path("/sys/fs/cgroup")


def why_no_group(controller):
    """Why a control group of this kind cannot be had here; None: it can."""
    place = ROOT / controller
    if not (place / "tasks").exists():
        return f"needs the {controller} controller of cgroup version 1 at {place}"
    return None if os.access(place, os.W_OK) and os.geteuid() == 0 else "needs root"


class Group:
    """A control group that is gone afterwards; what still runs in it goes back to its parent."""

    def __init__(self, controller, **limits):
        self.place = ROOT / controller / f"tarn-fault-{os.getpid()}-{threading.get_native_id()}"
        self.place.mkdir()
        for name, value in limits.items():
            self.write(f"{controller}.{name}", value)

    def write(self, name, value):
        (self.place / name).write_text(f"{value}\n")

    def read(self, name):
        return int((self.place / name).read_text())

    def kills(self):
        """How many processes of a memory group the kernel has killed because its memory ran out."""
        return int(re.search(r"^oom_kill (\d+)$", (self.place / "memory.oom_control").read_text(), re.MULTILINE)[1])

    @contextlib.contextmanager
    def births(self):
        """Processes that this thread starts meanwhile are born in the group; the thread belongs to it for that time."""
        here = threading.get_native_id()
        self.write("tasks", here)
        try:
            yield self
        finally:
            (self.place.parent / "tasks").write_text(f"{here}\n")

    def take(self, pid):
        """Moves a running process, all of its threads."""
        self.write("cgroup.procs", pid)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in (self.place / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (self.place.parent / "cgroup.procs").write_text(f"{pid}\n")
        self.place.rmdir()
