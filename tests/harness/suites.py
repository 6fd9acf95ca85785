"""The suites that tests/run runs, and what it counts. Standard library only."""

import concurrent.futures
import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from harness import runner, tidy

OPTIONAL = runner.REPOSITORY / "tests" / "optional.txt"
TIDY_MOST = 8  # files in the gate; each takes some 20 s
SLOWEST = 15  # tests shown at the end
REASON_LENGTH = 400  # characters of why a test failed, beside its name at the end
SECONDS = runner.BUILD / "test-seconds.json"
UNIT_SHARES = 2 * runner.PROCESSORS  # runs of tarn-unit-tests side by side: half of the time a case waits


class Totals:
    """What has passed, failed and been left out so far, and how long tests and phases took."""

    def __init__(self):
        self.passed = 0
        self.seconds = {}  # test id -> seconds
        self.phases = {}  # phase -> seconds
        self.passed_tests = set()  # with all of their parameters, by the names without them
        self.failed = []
        self.reasons = {}  # test id -> where it failed, and of what
        self.left_out = {}  # test id -> reason

    def add(self, records):
        for record in records:
            self.seconds[record["test"]] = self.seconds.get(record["test"], 0) + record["seconds"]
        # A test has several records when its set-up or its end fails, too: it counts once, as failed.
        failed = {record["test"] for record in records if record["outcome"] == "failed"}
        self.failed += sorted(failed)
        passed = {record["test"] for record in records if record["outcome"] == "passed"} - failed
        self.passed += len(passed)
        self.passed_tests |= {without_parameters(test) for test in passed}
        self.passed_tests -= {without_parameters(test) for test in failed}
        for text in (text for record in records for text in record["says"]):
            print(text, flush=True)
        for record in records:
            if record["outcome"] == "failed":
                self.reasons.setdefault(record["test"], record["reason"])
            if record["outcome"] == "skipped":
                self.left_out[record["test"]] = record["reason"]

    def closing_line(self):
        return f"{self.passed} passed, {len(self.failed)} failed, {len(self.left_out)} skipped"

    def check(self, name, passed):
        if passed:
            self.passed += 1
        else:
            self.failed.append(name)


def without_parameters(test):
    return test.partition("[")[0]


# --- suites ------------------------------------------------------------------------------------------------------

def tracked(*patterns):
    # Also files that are new and not yet added, but nothing that git ignores.
    output = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
                            cwd=runner.REPOSITORY, capture_output=True, text=True, check=True).stdout
    return [name for name in output.splitlines() if (runner.REPOSITORY / name).is_file()]


def shell_scripts():
    for name in tracked("deploy", "tests", ".ci"):
        with open(runner.REPOSITORY / name, "rb") as script:
            if re.match(rb"#!.*\b(ba)?sh\b", script.readline()):
                yield name


def run_format(totals, _arguments):
    checks = [
        ("clang-format-19", ["--dry-run", "-Werror"], tracked("*.h", "*.cc", "*.c")),
        ("shellcheck", [], list(shell_scripts())),
    ]
    for program, words, files in checks:
        if not shutil.which(program):
            totals.left_out[f"format: {program}"] = "not installed (deploy/install-deps --test)"
            continue
        result = subprocess.run([program, *words, *files], cwd=runner.REPOSITORY, capture_output=True, text=True)
        if result.returncode == 0:
            print(f"{program}: {len(files)} files, all in order", flush=True)
        elif program == "shellcheck":
            print(result.stdout, flush=True)
        else:
            wrong = sorted(set(re.findall(r"^([^:\n]+):\d+:\d+: ", result.stderr, re.MULTILINE)))
            print(f"not as .clang-format says; mend with: clang-format-19 -i {' '.join(wrong)}", flush=True)
        totals.check(f"format: {program}", result.returncode == 0)


def git(*words):
    return subprocess.run(["git", *words], cwd=runner.REPOSITORY, capture_output=True, text=True)


def base_of_change():
    """The commit against which a change is looked at: where the branch left its upstream, else the last commit's parent."""
    upstream = git("merge-base", "HEAD", "@{upstream}")
    base = upstream.stdout.strip()
    return base if upstream.returncode == 0 and base != git("rev-parse", "HEAD").stdout.strip() else "HEAD~1"


def changed_lines(numstat):
    """(lines added, names) of each file to which lines were added, in what git diff --numstat -z prints. Names are the
    present one, or for a moved file the former one and the present one."""
    out, fields = [], iter(numstat.split("\0"))
    for field in fields:
        if not field:
            continue
        added, _, name = field.split("\t")
        names = (name,) if name else (next(fields), next(fields))
        if added.isdigit() and int(added):
            out.append((int(added), names))
    return out


def has_tidy(totals):
    if not shutil.which("clang-tidy-19"):
        totals.left_out["tidy: clang-tidy-19"] = "not installed (deploy/install-deps --test)"
    return "tidy: clang-tidy-19" not in totals.left_out


def run_tidy(totals, arguments):
    """clang-tidy over the lines that a change adds, in at most TIDY_MOST files: those that changed most."""
    if not has_tidy(totals):
        return
    base = base_of_change()
    if git("rev-parse", "--verify", "--quiet", base).returncode != 0:
        raise runner.StepFailed(f"tidy: there is no commit {base} to compare with: a clone with its history is wanted")
    changed = changed_lines(git("diff", "--numstat", "-z", "--diff-filter=d", base, "--", "*.cc", "*.h").stdout)
    files = [names for _, names in sorted(changed, reverse=True)]
    chosen = files[:TIDY_MOST]
    if not chosen:
        print(f"tidy: no line of C++ has changed since {base}", flush=True)
        totals.check("tidy", True)
    if len(files) > len(chosen):
        print(f"tidy: {len(chosen)} of {len(files)} changed files; all files: tests/run tidy", flush=True)
    if chosen:
        command = ["clang-tidy-diff-19.py", "-p1", "-path", str(runner.BUILD / arguments.preset), "-j", str(runner.PROCESSORS), "-quiet",
                   "-clang-tidy-binary", "clang-tidy-19", "-extra-arg=-Wno-pragma-once-outside-header"]  # a header is looked at alone
        result = subprocess.run(command, input=git("diff", "-U0", base, "--", *(name for names in chosen for name in names)).stdout, cwd=runner.REPOSITORY, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        findings = re.findall(r"^.*: (?:error|warning): .*$", result.stdout, re.MULTILINE)
        print("\n".join(findings) if findings else result.stdout if result.returncode else f"clang-tidy-19: {len(chosen)} changed files, "
              "all in order", flush=True)
        totals.check("tidy", result.returncode == 0 and not findings)


def run_tidy_whole(totals, arguments):
    if has_tidy(totals):
        tidy.run_whole(totals, arguments.preset, tracked("*.cc"), flags_for_headers(arguments.preset))


def flags_for_headers(preset):
    """How a source of the targets, which use all libraries, is compiled; without its precompiled header, which would hide what a
    header does not include."""
    commands = json.loads((runner.BUILD / preset / "compile_commands.json").read_text())
    command = next(each["command"] for each in commands if "/tarn_target_drive.dir/" in each["command"])
    words, flags = iter(shlex.split(command)), []
    for word in words:
        if word in ("-o", "-Xclang", "-include"):
            next(words)
        elif word.startswith(("-I", "-D", "-W", "-std", "-isystem", "-f")) and word != "-Winvalid-pch" and "pch" not in word:
            flags += [word, next(words)] if word == "-isystem" else [word]
    return flags


def run_headers(totals, arguments):
    """Each header alone: it includes what it uses."""
    headers = tracked(*(f"{folder}/*.h" for folder in ("cli", "common", "ec", "proxy", "target")))
    flags = flags_for_headers(arguments.preset)

    def problem(header):
        with tempfile.NamedTemporaryFile("w", suffix=".cc") as source:
            source.write(f'#include "{header}"\n')
            source.flush()
            done = subprocess.run(["clang++-19", *flags, "-I", str(runner.REPOSITORY), "-fsyntax-only", "-Werror", source.name],
                                  cwd=runner.REPOSITORY, capture_output=True, text=True)
        return done.stderr if done.returncode else ""

    with concurrent.futures.ThreadPoolExecutor(runner.PROCESSORS) as pool:
        for header, said in zip(headers, pool.map(problem, headers)):
            if said:
                print(said, flush=True)
            totals.check(f"header: {header}", not said)
    print(f"{len(headers)} headers, each compiled alone", flush=True)


def run_unit(totals, arguments):
    program = runner.programs(arguments.preset) / "tarn-unit-tests"
    environment = runner.test_environment(arguments.preset)
    # Catch2 runs no test whose tag begins with a dot unless asked to, and does not say so.
    hidden = subprocess.run([str(program), "--list-test-names-only", "[.]"], env=environment, capture_output=True, text=True)
    for name in hidden.stdout.splitlines():
        totals.left_out[f"unit: {name.strip()}"] = "hidden by its tag"
    listed = subprocess.run([str(program), "--list-test-names-only"], env=environment, capture_output=True, text=True)
    names = [name.strip() for name in listed.stdout.splitlines() if name.strip()]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor() as pool:
        # Some cases keep a processor busy, others wait.
        runs = []
        for number, share in enumerate(shares_of(names, UNIT_SHARES)):
            file = Path(folder) / f"{number}.txt"
            # Catch2 takes a comma for the end of a name.
            file.write_text("".join(f"{name}\n" for name in share).replace(",", "\\,"))
            command = [str(program), "--durations", "yes", "--input-file", str(file)]
            runs.append(pool.submit(subprocess.run, command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                    errors="replace", cwd=runner.REPOSITORY))
        beside = pool.submit(run_simulation, totals, arguments)
        counts = [take_unit_results(totals, each.result()) for each in runs]
        beside.result()
    passed, failed = (sum(each) for each in zip(*counts))
    if passed + failed != len(names):
        totals.failed.append(f"unit: {len(names)} cases are there, {passed + failed} were run")
    print(f"{passed} passed, {failed} failed", flush=True)
    totals.passed += passed
    totals.failed += [f"unit: {failed} of the cases above"] if failed else []


def shares_of(names, count):
    """Names in `count` lists that took about as long when they were run before, the slow ones first."""
    before = json.loads(SECONDS.read_text()) if SECONDS.exists() else {}
    shares, loads = [[] for _ in range(count)], [0.0] * count
    for name in sorted(names, key=lambda name: -before.get(f"unit: {name}", 0)):
        least = loads.index(min(loads))
        shares[least].append(name)
        loads[least] += before.get(f"unit: {name}", 0) + 0.01
    return [share for share in shares if share]


def take_unit_results(totals, result):
    """(passed, failed) of a run of tarn-unit-tests, which is printed."""
    output = re.sub(r"^(\d+\.\d+ s: |Filters: ).*\n", "", result.stdout, flags=re.MULTILINE)
    print("".join(output.splitlines(keepends=True)[:2000]), end="", flush=True)
    for seconds, name in re.findall(r"^(\d+\.\d+) s: (.*)$", result.stdout, re.MULTILINE):
        totals.seconds[f"unit: {name}"] = max(float(seconds), totals.seconds.get(f"unit: {name}", 0))
    passed, failed = counts_of_catch(result.stdout)
    if result.returncode != 0 and not failed:
        print(f"tarn-unit-tests ended with code {result.returncode}", flush=True)
        failed = 1
    return passed, failed


def run_simulation(totals, arguments):
    """A small dose of new schedules; their seeds are printed."""
    program = runner.programs(arguments.preset) / "tarn-simulate"
    schedules = 200 if arguments.preset in runner.SANITIZERS else 2000
    seed = os.environ.get("TARN_TEST_SEED") or str(int.from_bytes(os.urandom(5), "big"))
    for words in (["--seed", seed, "--schedules", str(schedules)], ["--scale", "--names", "100000"]):
        begun = time.monotonic()
        result = subprocess.run([str(program), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print(result.stdout, end="", flush=True)
        name = f"unit: tarn-simulate {' '.join(words)}"
        totals.seconds[name] = time.monotonic() - begun
        totals.check(name, result.returncode == 0)


def counts_of_catch(output):
    """(passed, failed) test cases from the closing lines of Catch2."""
    if match := re.search(r"^All tests passed \(.* in (\d+) test cases?\)", output, re.MULTILINE):
        return int(match.group(1)), 0
    if match := re.search(r"^test cases:.*", output, re.MULTILINE):
        numbers = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed)", match.group())}
        return numbers.get("passed", 0), numbers.get("failed", 0)
    return 0, 1


def run_pytest(totals, words, arguments, jobs=1, tier=""):
    """`tier`: gate for the tests that belong to it; otherwise all."""
    runner.python_environment()
    environment = runner.test_environment(arguments.preset) | {"TARN_TEST_TIER": tier}
    code, records = runner.run_suite([*words, *arguments.words], environment, jobs)
    totals.add(records)
    if code not in (0, 1):  # 1 is failed tests; anything else ran none, or not all
        totals.failed.append(f"pytest {' '.join(words)}: exit {code}")


def jobs_of(suite, arguments):
    if arguments.jobs is not None:
        return arguments.jobs
    return 1 if arguments.preset in runner.SANITIZERS else runner.SIDE_BY_SIDE[suite]


def run_integration(totals, arguments, tier=""):
    run_pytest(totals, ["tests/integration"], arguments, jobs_of("integration", arguments), tier)


def run_fault(totals, arguments, tier=""):
    run_pytest(totals, ["tests/fault"], arguments, jobs_of("fault", arguments), tier)


def run_quickstart(totals, arguments):
    """The user's first minutes, with the programs that are released."""
    begun = time.monotonic()
    result = subprocess.run([str(runner.REPOSITORY / "deploy" / "quickstart")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(result.stdout if result.returncode else "\n".join(result.stdout.splitlines()[-8:]), flush=True)
    totals.seconds["quickstart"] = time.monotonic() - begun
    totals.check("quickstart", result.returncode == 0)


def run_sabotage(totals, arguments):
    # What has passed in this call has shown what it does with every safety in place.
    with tempfile.NamedTemporaryFile("w", suffix=".passed") as passed:
        passed.write("".join(f"{test}\n" for test in sorted(totals.passed_tests)))
        passed.flush()
        command = [str(runner.REPOSITORY / "tests" / "sabotage"), "--no-build", "--preset", arguments.preset, "--passed", passed.name]
        totals.check("sabotage", subprocess.run(command).returncode == 0)
    simulate = [str(runner.programs(arguments.preset) / "tarn-simulate"), "--sabotage", "--schedules", "10000"]
    totals.check("sabotage: tarn-simulate", subprocess.run(simulate).returncode == 0)


def run_fuzz(totals, _arguments):
    """Each fuzzer for some seconds; it has a preset of its own."""
    totals.check("fuzz", subprocess.run([str(runner.REPOSITORY / "tests" / "fuzz" / "run")]).returncode == 0)


# --- what was left out -------------------------------------------------------------------------------------------

def optional_tests(preset):
    """{test id or pattern: reason} from optional.txt; `PRESET: ` before an id limits a line to that preset."""
    optional = {}
    for line in OPTIONAL.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        pattern, separator, reason = line.partition("  # ")
        if not separator:
            raise runner.StepFailed(f"{OPTIONAL}: a line wants `TEST  # REASON`: {line}")
        limit, colon, rest = pattern.partition(": ")
        if colon and limit in ("asan", "tsan", "release"):
            if limit != preset:
                continue
            pattern = rest
        optional[pattern.strip()] = reason
    return optional


def matches(test, pattern):
    return test == pattern or fnmatch.fnmatchcase(test, pattern)


def suite_of(test):
    for suite in ("integration", "fault"):
        if test.startswith(f"tests/{suite}"):
            return suite
    return test.partition(":")[0]


def compare_left_out(totals, suites, preset):
    optional = {test: reason for test, reason in optional_tests(preset).items() if suite_of(test) in suites}
    runner.note(f"left out: {len(totals.left_out)}")
    for test, reason in sorted(totals.left_out.items()):
        print(f"left out: {test}: {reason}")
    for test in sorted(totals.left_out):
        if not any(matches(test, pattern) for pattern in optional):
            print(f"left out, but tests/optional.txt does not allow it: {test}")
            totals.failed.append(f"left out: {test}")
    for pattern in optional:
        if not any(matches(test, pattern) for test in totals.left_out):
            print(f"tests/optional.txt says that this is left out, but it is not: {pattern}")
            totals.failed.append(f"optional.txt: {pattern}")


# --- the end -----------------------------------------------------------------------------------------------------

def print_slowest(totals):
    """The tests that took longest; all of them go to build/test-seconds.json."""
    slowest = sorted(totals.seconds.items(), key=lambda item: -item[1])
    if slowest:
        SECONDS.parent.mkdir(exist_ok=True)
        SECONDS.write_text(json.dumps({test: round(seconds, 2) for test, seconds in slowest}, indent=0) + "\n")
        runner.note("the slowest")
        for test, seconds in slowest[:SLOWEST]:
            print(f"{seconds:7.1f} s  {test}")


def print_end(totals):
    """What was slow, how long each phase took, what failed, and last the line of totals."""
    print_slowest(totals)
    runner.note("phases: " + ", ".join(f"{name} {seconds:.0f} s" for name, seconds in totals.phases.items()))
    for name in totals.failed:
        print(f"failed: {name}")
        if totals.reasons.get(name):
            print(f"  at {totals.reasons[name][:REASON_LENGTH]}")
    print(totals.closing_line(), flush=True)
