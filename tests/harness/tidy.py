"""clang-tidy over all C++ of the tree. Standard library only."""

import concurrent.futures
import json
import re
import subprocess
import time

from harness import runner

FOLDERS = ("cli", "common", "ec", "proxy", "target", "tests")
AT_ONCE = 2  # some 700 MB of memory each
FINDING = re.compile(r"^(/.*?:\d+:\d+: (?:error|warning): .*|error: .*|Error .*)$", re.MULTILINE)
INCLUDED = re.compile(r'^#include "(/[^"]+)"$', re.MULTILINE)


def units_of(preset, sources, flags):
    """(file, words after it) of each run. First come all units of the preset and its precompiled headers, then `sources` that none of
    them includes (fuzzers), with `flags`."""
    commands = json.loads((runner.BUILD / preset / "compile_commands.json").read_text())
    units = [command["file"] for command in commands]
    covered = set(units)
    for unit in units:
        if "/Unity/" in unit:
            covered.update(INCLUDED.findall(open(unit).read()))
    others = [name for name in sources if str(runner.REPOSITORY / name) not in covered]
    return [(unit, []) for unit in units] + [(name, ["--", *flags, "-I", str(runner.REPOSITORY)]) for name in others]


def findings_in(preset, unit):
    """Lines of what clang-tidy reports in a unit and in all files of the tree that it includes."""
    file, flags = unit
    of_tests = file.startswith(str(runner.BUILD / preset / "tests"))
    command = ["clang-tidy-19", "-p", str(runner.BUILD / preset), "-quiet",
               # clang-tidy looks for its settings above the file, where a unity file has only those of the repository.
               *(["--config-file=tests/.clang-tidy"] if of_tests else []),
               # A unity file includes .cc files, which are headers to clang-tidy.
               "-checks=-bugprone-suspicious-include",
               f"-header-filter=^{re.escape(str(runner.REPOSITORY))}/({'|'.join(FOLDERS)})/", file, *flags]
    result = subprocess.run(command, cwd=runner.REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    found = FINDING.findall(result.stdout)
    return found if found or not result.returncode else [f"{file}: clang-tidy-19 exits with {result.returncode}: {result.stdout}"]


def run_whole(totals, preset, sources, flags):
    begun, seen = time.monotonic(), set()
    units = units_of(preset, sources, flags)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for found in pool.map(lambda unit: findings_in(preset, unit), units):
            for line in found:
                if line not in seen:  # of a header, in several units
                    print(line, flush=True)
                    seen.add(line)
    print(f"clang-tidy-19: {len(units)} units with {len(sources)} sources, {len(seen)} findings, "
          f"{time.monotonic() - begun:.0f} s", flush=True)
    totals.check("tidy: all files", not seen)
