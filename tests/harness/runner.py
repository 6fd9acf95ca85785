"""What tests/run and tests/sabotage share: building a preset, the Python environment, running pytest. Standard library
only, since it makes the environment that all else needs."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = REPOSITORY / "build"
REQUIREMENTS = REPOSITORY / "tests" / "requirements.txt"
SYMBOLIZER = "/usr/bin/llvm-symbolizer-19"
TSAN_SUPPRESSIONS = REPOSITORY / "tests" / "harness" / "tsan.supp"

# Variables for programs built with sanitizers, and by how much all deadlines grow for them.
SANITIZERS = {
    "asan": (3, {
        "ASAN_OPTIONS": "detect_leaks=1:halt_on_error=1:strict_string_checks=1:detect_stack_use_after_return=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "ASAN_SYMBOLIZER_PATH": SYMBOLIZER,
        "UBSAN_SYMBOLIZER_PATH": SYMBOLIZER,
    }),
    "tsan": (5, {
        # Debian's RocksDB is not instrumented: without this, what it does in four threads is reported, falsely.
        # It also calls the functions of std::string that our programs have compiled, which are; see the file.
        "TSAN_OPTIONS": "ignore_noninstrumented_modules=1:halt_on_error=1"
                        f":suppressions={TSAN_SUPPRESSIONS}:external_symbolizer_path={SYMBOLIZER}",
    }),
}


NO_TESTS = 5  # pytest's exit code when it ran none
TIMED_OUT = 124  # that of timeout(1)


class StepFailed(Exception):
    """A step cannot go on; the text is for the user."""


def run_logged(command, log, **options):
    """Runs a command into a log file; on failure the end of the log is shown."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as output:
        result = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, **options)
    if result.returncode != 0:
        tail = log.read_text(errors="replace").splitlines()[-60:]
        raise StepFailed("\n".join([*tail, f"{' '.join(map(str, command))}: exit {result.returncode}; all of it: {log}"]))


def install_packages():
    """What deploy/install-deps names, where something of it is missing."""
    run_logged([str(REPOSITORY / "deploy" / "install-deps")], BUILD / "install-deps.log")


def build(preset, targets=()):
    """Configures and builds a preset, or only some targets of it."""
    log = BUILD / f"{preset}.log"
    log.unlink(missing_ok=True)
    run_logged(["cmake", "--preset", preset], log, cwd=REPOSITORY)
    chosen = ["--target", *targets] if targets else []
    run_logged(["cmake", "--build", "--preset", preset, *chosen], log, cwd=REPOSITORY)


def programs(preset):
    """The programs of the tests, with fail points; what users run is in `bin` beside it."""
    return BUILD / preset / "test"


def python_environment():
    """build/venv with what tests/requirements.txt names, made anew when that file changes. Returns its bin directory."""
    venv = BUILD / "venv"
    stamp = venv / "requirements.txt"
    wanted = REQUIREMENTS.read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        log = BUILD / "venv.log"
        log.unlink(missing_ok=True)
        # Debian's Python, whatever else is first in PATH: it is the one that install-deps names.
        run_logged(["/usr/bin/python3", "-m", "venv", "--clear", str(venv)], log)
        run_logged([str(venv / "bin" / "pip"), "install", "--disable-pip-version-check", "-r", str(REQUIREMENTS)], log)
        stamp.write_text(wanted)
    return venv / "bin"


def go_programs():
    """Builds the programs of tests that are Go modules, where they are not there."""
    log = BUILD / "go-programs.log"
    log.unlink(missing_ok=True)
    run_logged(["nice", str(BUILD / "venv" / "bin" / "python"), str(REPOSITORY / "tests" / "harness" / "go_programs.py")], log)


def test_environment(preset):
    """The variables under which tests and the programs they start run."""
    factor, variables = SANITIZERS.get(preset, (1, {}))
    environment = os.environ | variables
    environment.setdefault("TARN_TEST_SLOWDOWN", str(factor))
    environment["TARN_BIN"] = str(programs(preset))
    environment["TARN_TEST_PRESET"] = preset
    environment["PATH"] = f"{BUILD / 'venv' / 'bin'}:{os.environ['PATH']}"
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    # Where these are set, pytest explains every difference in full: of two bodies of 200 kB that takes it more than an hour.
    for name in ("CI", "BUILD_NUMBER"):
        environment.pop(name, None)
    return environment


def run_pytest(words, environment, capture=False, timeout=None, copy=None):
    """Runs pytest; returns (exit code, its records, its output when captured). `copy`: a file that gets its output as well.
    After `timeout` seconds it is interrupted, as by Ctrl-C: the exit code is TIMED_OUT."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report"
        report.touch()
        command = [str(BUILD / "venv" / "bin" / "python"), "-m", "pytest", "--rootdir", str(REPOSITORY), *words]
        if timeout:
            command = ["timeout", "--signal=INT", "--kill-after=60", str(timeout), *command]
        tee = subprocess.Popen(["tee", str(copy)], stdin=subprocess.PIPE) if copy else None
        output = subprocess.PIPE if capture else tee.stdin if copy else None
        result = subprocess.run(
            command, cwd=REPOSITORY, env=environment | {"TARN_TEST_REPORT": str(report)}, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT if output else None, text=True)
        if tee:
            tee.communicate()
        records = [json.loads(line) for line in report.read_text().splitlines()]
    return result.returncode, records, result.stdout or ""


# How many tests run side by side: they wait most of their time, for the end of a lease, of a job
# or of a fault. Each process has a share of the ports.
PROCESSORS = min(len(os.sched_getaffinity(0)), 4)
SIDE_BY_SIDE = {"integration": 2 * PROCESSORS, "fault": 2 * PROCESSORS, "sabotage": 2 * PROCESSORS}


def all_passed(records):
    """True if a test passed, and none failed or was left out. What prepares a test and ends it has records, too."""
    outcomes = {record["outcome"] for record in records} - {"prepared"}
    return outcomes == {"passed"}


def run_suite(words, environment, jobs):
    """Runs pytest twice: tests marked `alone` one after another, the others `jobs` at a time; (exit code, records)."""
    if jobs == 1:
        return run_pytest(words, environment)[:2]
    # First, since some ask whether the machine is theirs, which the load of the last minute says.
    parts = [["-m", "not alone", "-n", str(jobs), "--dist", "worksteal"]]
    if environment.get("TARN_TEST_TIER") != "gate":  # which has none
        parts.insert(0, ["-m", "alone"])
    codes, records = [], []
    for part in parts:
        code, its, _ = run_pytest([*part, *words], environment)
        codes.append(code)
        records += its
        if code not in (0, NO_TESTS) and "-x" in words:
            break
    found = [code for code in codes if code != NO_TESTS]
    return max(found, default=NO_TESTS), records


def alone_tests(tests, preset):
    """The ones of `tests` that are marked `alone`, without their parameters."""
    words = ["--collect-only", "-q", "-m", "alone", *sorted(set(tests))]
    _, _, output = run_pytest(words, test_environment(preset), capture=True)
    return set(re.findall(r"^(tests/\S+?::\w+)", output, re.MULTILINE))


def note(text):
    """A line of our own between those of the runners."""
    print(f"== {text}", flush=True)


def fail(text):
    print(text, file=sys.stderr, flush=True)
