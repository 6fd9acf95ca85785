"""tests/soak itself: it repeats, it ends, and it does not say that all is well when it is not."""

import importlib.machinery
import importlib.util
import os
import re
import shutil
import subprocess

from harness.cluster import REPOSITORY
from harness.waiting import scaled


def soak(*words, **variables):
    command = [str(REPOSITORY / "tests" / "soak"), *words, "--no-build", "--preset", os.environ.get("TARN_TEST_PRESET", "release")]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("TARN_SABOTAGE", "TARN_TEST_SEED"))}
    return subprocess.run(command, env=environment | variables, capture_output=True, text=True, timeout=scaled(280))


FAULTS = REPOSITORY / "tests" / "fault"
# Of the tools of the fault tests, with no fault of their own.
TOOLS = {"test_soak.py", "test_checker.py", "test_fault_tools.py", "test_corpus.py", "test_slices.py"}


def test_doses_and_documents_name_tests_that_exist():
    loader = importlib.machinery.SourceFileLoader("soak", str(REPOSITORY / "tests" / "soak"))
    table = importlib.util.module_from_spec(importlib.util.spec_from_loader("soak", loader))
    loader.exec_module(table)
    files = table.files_of("all")
    assert len(files) == len(set(files)), "each belongs to one profile"
    paths = [REPOSITORY / file for file in files]
    faults = {path.name for path in paths if path.parent == FAULTS}
    assert faults == {path.name for path in FAULTS.glob("test_*.py")} - TOOLS, "each belongs to a profile"
    tests = {name for path in paths for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)}
    assert set(table.FULL_DOSE) <= tests, "a dose of no test"
    text = (REPOSITORY / "docs" / "reliability.md").read_text()  # test_documents.py looks whether what it names is there
    rows = set(re.findall(r"\b[A-DFGLN]\d+\b", text))
    assert rows >= {f"{group}{number}" for group, last in (("N", 9), ("F", 7)) for number in range(1, last + 1)}
    coded = text[text.index("## Coded objects"):text.index("## etcd")]
    assert set(re.findall(r"\b[A-G]\d+\b", coded)) >= {"A3", "A7", "B6", "C1", "C2", "C3", "C5", "C8", "C10", "C11", "C12", "D1", "D2", "D3", "D4",
                                                     "D6", "D7", "D8", "D9", "G4", "G5", "G6", "G7", "G8"}
    assert rows >= {"A2", "A3", "A4", "D1", "D5", "D9", "G1", "G2", "G3", "G6", "L1", "L4", "L6"}


def test_a_soak_runs_and_says_how_to_repeat_it():
    done = soak("crash", "--seed", "7", "--minutes", "0.02", "-k", "unfinished_files")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "repeat: tests/soak crash --seed 7 --minutes 0.02 -k 'unfinished_files'" in done.stdout
    assert re.search(r"^    injected: \d+ unfinished files", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^[1-9]\d* rounds, 0 violations; ", done.stdout, re.MULTILINE), done.stdout


def test_a_soak_keeps_the_evidence_of_a_violation():
    done = soak("crash", "--seed", "8", "--minutes", "0.001", "-k", "older_file_never", TARN_SABOTAGE_POINT="safety.generation")
    assert done.returncode == 1, done.stdout + done.stderr
    (place,) = re.findall(r"FAILED, evidence in (\S+)", done.stdout)
    assert re.search(r"repeat: TARN_TEST_DOSE=full TARN_TEST_SECONDS=\d+ TARN_TEST_SEED=\d+ tests/run 'tests/fault/test_crash.py::test_older_file", done.stdout)
    found = {path.relative_to(place).parts[0] for path in (REPOSITORY / place).rglob("*") if path.is_file()}
    assert {"output", "history1", "log-cluster"} <= found, found
    shutil.rmtree(place)
    nothing = soak("crash", "--minutes", "0.01", "-k", "there_is_no_such_test")
    assert nothing.returncode == 1 and "no test matches" in nothing.stdout
