"""Runs the tests. Without words: the gate, which decides whether a change is good, and which CI runs.

  tests/run                      the gate: packages, build, format, tidy, unit, integration, fault,
                                 quickstart
  tests/run deep                 all of fault and integration with their bounds on time, sabotage, fuzz, each header alone,
                                 clang-tidy on all files
  tests/run deep NAME...         parts of it: fault, integration, sabotage, fuzz, headers, tidy, or modules of tests (lease, test_lease)
  tests/run deep --since COMMIT  the modules that touch what has changed since
  tests/run all                  gate and deep
  tests/run format|tidy|unit|integration|fault|quickstart|sabotage|fuzz|headers  one suite, whole
  tests/run tests/integration/test_epoch.py::test_x [-k EXPRESSION]     as pytest names them
  tests/run --preset asan        unit and integration tests on a build with sanitizers (asan, tsan)

The gate installs what is missing, builds (preset release: released programs and those of the tests are linked from the
same objects), makes a Python environment below build/, prints what each phase took, the 15 slowest tests, what was left
out and why, and one last line of totals; it writes build/last-run.json. It fails when a test fails, and when what was
left out differs from tests/optional.txt: a test that is never run protects nothing. docs/testing.md has the rule by which
a test belongs to the gate or to deep.
"""

import argparse
import concurrent.futures
import json
import os
import re
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import runner, suites  # noqa: E402

LAST_RUN = runner.BUILD / "last-run.json"
FUNCTIONS = {"format": suites.run_format, "unit": suites.run_unit, "integration": suites.run_integration,
             "fault": suites.run_fault, "quickstart": suites.run_quickstart, "sabotage": suites.run_sabotage,
             "fuzz": suites.run_fuzz, "tidy": suites.run_tidy_whole, "headers": suites.run_headers}
GATE = [("format", ""), ("tidy", ""), ("unit", ""), ("integration", "gate"), ("fault", "gate"), ("quickstart", "")]
GATE_SEED = "1"
# Fault before integration: some of its tests are stricter where no other program has used the machine for a minute.
# All of both, also what the gate has: there a deadline only guards against hanging, here it is the promise.
DEEP = [("fault", ""), ("integration", ""), ("sabotage", ""), ("fuzz", ""), ("headers", ""), ("tidy", "")]
ALL = [("format", ""), ("unit", ""), ("quickstart", ""), *DEEP]
SANITIZED = [("unit", ""), ("integration", "")]
WITHOUT_BUILD = {"format", "fuzz", "quickstart"}


# --- what is asked for -------------------------------------------------------------------------------------------

def modules_named(word):
    """The files of tests whose name is `word`, with or without test_."""
    return [str(path.relative_to(runner.REPOSITORY)) for suite in ("integration", "fault")
            for path in sorted((runner.REPOSITORY / "tests" / suite).glob("test_*.py"))
            if path.stem in (word, f"test_{word}")]


def words_of(path):
    return {word for word in re.split(r"[^a-z]+", Path(path).stem) if len(word) > 3}


def modules_since(commit):
    """The deep tests that concern what has changed since `commit`: changed modules, and those whose name shares a word
    with a changed source (target/coded/coded_write.cc: test_coded_writes, test_coded_steps)."""
    changed = suites.git("diff", "--name-only", commit)
    if changed.returncode != 0:
        raise runner.StepFailed(changed.stderr.strip())
    files = changed.stdout.split()
    words = set().union(*(words_of(path) for path in files if path.endswith((".cc", ".h"))), set())
    return [module for path in runner.REPOSITORY.glob("tests/*/test_*.py")
            if (module := str(path.relative_to(runner.REPOSITORY))) in files
            or any(word.startswith(other) or other.startswith(word) for word in words_of(path) for other in words)]


def parse_command_line():
    parser = argparse.ArgumentParser(
        prog="tests/run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="nothing for the gate; deep, all, a suite, or tests as pytest names them")
    parser.add_argument("--preset", default="release", help="CMake preset (release)")
    parser.add_argument("--no-build", action="store_true", help="take packages and programs as they are")
    parser.add_argument("--since", metavar="COMMIT", help="with deep: what concerns the changes since then")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="run the tests N times; exit 0 only if each run passed")
    parser.add_argument("-k", metavar="EXPRESSION", help="only tests whose names match, as in pytest")
    parser.add_argument("-x", action="store_true", help="stop at the first failure, as in pytest")
    parser.add_argument("-j", "--jobs", type=int, metavar="N", help="tests of a suite that run side by side "
                        f"({', '.join(f'{suite}: {jobs}' for suite, jobs in runner.SIDE_BY_SIDE.items())}; with sanitizers 1)")
    arguments = parser.parse_args()
    if arguments.jobs is not None and not 1 <= arguments.jobs <= 8:
        parser.error("--jobs wants a number from 1 to 8")
    if not 1 <= arguments.repeat <= 100:
        parser.error("--repeat wants a number from 1 to 100")
    arguments.words = (["-k", arguments.k] if arguments.k else []) + (["-x"] if arguments.x else [])
    plan(parser, arguments)
    return arguments


def plan(parser, arguments):
    """Sets what is run: `phases` (suite, tier), `tests` (words for pytest), and `is_gate`."""
    words, arguments.tests = list(arguments.what), []
    deep = "deep" in words
    words = [word for word in words if word != "deep"]
    if arguments.since and not deep:
        parser.error("--since goes with deep")
    arguments.is_gate = not words and not deep and arguments.preset not in runner.SANITIZERS
    arguments.phases = []
    if arguments.is_gate:
        arguments.phases = GATE
    elif arguments.since:
        arguments.tests = modules_since(arguments.since)
        if not arguments.tests:
            print(f"no deep test concerns what has changed since {arguments.since}", flush=True)
    elif not words or words == ["all"]:
        arguments.phases = SANITIZED if arguments.preset in runner.SANITIZERS else DEEP if deep else ALL
    for word in words:
        if word in FUNCTIONS:
            arguments.phases = [*arguments.phases, (word, "")]
        elif (runner.REPOSITORY / word.partition("::")[0]).is_file() or (runner.REPOSITORY / word).is_dir():
            arguments.tests.append(word)
        elif deep and modules_named(word):
            arguments.tests += modules_named(word)
        elif word != "all":
            parser.error(f"{word} is neither a suite ({', '.join(FUNCTIONS)}, deep, all) nor a test")


# --- all of it ---------------------------------------------------------------------------------------------------

def phase(totals, name, function, *words):
    runner.note(name)
    begun = time.monotonic()
    try:
        function(*words)
    finally:
        totals.phases[name] = totals.phases.get(name, 0) + time.monotonic() - begun
        runner.note(f"{name}: {time.monotonic() - begun:.0f} s")


def prepare(totals, arguments):
    if arguments.no_build:
        return
    if arguments.is_gate:
        totals.phases["packages"] = float(os.environ.get("TARN_PACKAGES_SECONDS", 0))  # those of tests/run itself
        phase(totals, "packages", runner.install_packages)
    if arguments.tests or not {suite for suite, _ in arguments.phases} <= WITHOUT_BUILD:
        # What these two load from the network comes while the compiler works, and their work fills its pauses.
        with concurrent.futures.ThreadPoolExecutor(1) as beside:
            environment = beside.submit(make_environment)
            phase(totals, "build", runner.build, arguments.preset)
            phase(totals, "python and go programs", environment.result)


def make_environment():
    runner.python_environment()
    runner.go_programs()


def run_tests(totals, arguments):
    for suite, tier in arguments.phases:
        function = suites.run_tidy if suite == "tidy" and arguments.is_gate else FUNCTIONS[suite]
        words = (totals, arguments, tier) if suite in ("integration", "fault") else (totals, arguments)
        phase(totals, suite, function, *words)
    # Modules of the two folders may have the same name, which one run of pytest does not bear.
    for folder in sorted({str(Path(test).parts[:2]) for test in arguments.tests}):
        tests = [test for test in arguments.tests if str(Path(test).parts[:2]) == folder]
        jobs = arguments.jobs or (runner.PROCESSORS if len(tests) > 1 else 1)
        phase(totals, "chosen tests", suites.run_pytest, totals, tests, arguments, jobs)
    # A user who asks for a part of a suite leaves out the rest on purpose.
    if arguments.phases and not arguments.words:
        suites.compare_left_out(totals, {suite for suite, _ in arguments.phases}, arguments.preset)


def write_last_run(totals, seconds):
    commit = suites.git("rev-parse", "HEAD").stdout.strip() + ("+changes" if suites.git("status", "--porcelain").stdout else "")
    LAST_RUN.parent.mkdir(exist_ok=True)
    LAST_RUN.write_text(json.dumps({
        "commit": commit, "passed": totals.passed, "failed": len(totals.failed), "skipped": len(totals.left_out),
        "seconds": round(seconds, 1), "phases": {name: round(its, 1) for name, its in totals.phases.items()},
        "failures": totals.failed}, indent=1) + "\n")


def run_once(arguments, number):
    """Exit code, and the line of totals."""
    totals, begun = suites.Totals(), time.monotonic()
    try:
        if number == 1:
            prepare(totals, arguments)
        run_tests(totals, arguments)
    except runner.StepFailed as error:
        runner.fail(str(error))
        totals.failed.append("a step could not run, see above")
    seconds = time.monotonic() - begun
    if arguments.is_gate:
        write_last_run(totals, seconds)
    suites.print_end(totals)
    return 1 if totals.failed or not totals.passed else 0, f"{totals.closing_line()} ({seconds:.0f} s)"


def main():
    # A run in the background may have had SIGINT ignored, and programs would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    arguments = parse_command_line()
    if arguments.is_gate:  # the same answer every time; deep tests choose their seeds
        os.environ.setdefault("TARN_TEST_SEED", GATE_SEED)
    runs = []
    for number in range(1, arguments.repeat + 1):
        runs.append(run_once(arguments, number))
        if arguments.repeat > 1:
            for index, (_, line) in enumerate(runs, 1):
                print(f"== run {index} of {arguments.repeat}: {line}", flush=True)
    return max(code for code, _ in runs)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except runner.StepFailed as error:
        runner.fail(str(error))
        sys.exit(1)
