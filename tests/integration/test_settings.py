"""What `--set` may change, and that the documentation says the same."""

import re
import subprocess

import pytest
from harness.cluster import PROGRAMS, REPOSITORY
from harness.waiting import guarded


def run(program, *words):
    return subprocess.run([PROGRAMS / program, *map(str, words)], capture_output=True, text=True, timeout=guarded(30))


def documented(program):
    """The table below the program's heading in docs/configuration.md."""
    text = (REPOSITORY / "docs" / "configuration.md").read_text()
    section = re.search(rf"^## {program}\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL).group(1)
    return [line for line in section.splitlines() if line.startswith("|")]


@pytest.mark.parametrize("program", ["tarn-proxy", "tarn-target"])
def test_the_documented_settings_are_those_of_the_program(program):
    printed = run(program, "--help-settings")
    assert printed.returncode == 0
    assert documented(program) == printed.stdout.splitlines()


@pytest.mark.parametrize("program", ["tarn-proxy", "tarn-target"])
def test_every_bad_setting_is_named(program, tmp_path):
    result = run(program, "--dir", tmp_path / "n", "--set", "http.idle_timeout=soon", "--set", "nonsense=1",
                 "--set", "shutdown.grace")
    assert result.returncode == 2 and result.stdout == ""
    for text in ("http.idle_timeout: 'soon'", "nonsense: unknown setting", "shutdown.grace: no value"):
        assert text in result.stderr
    assert not (tmp_path / "n").exists(), "nothing is touched before the command line is understood"


@pytest.mark.parametrize("program", ["tarn-proxy", "tarn-target"])
def test_flags(program):
    assert re.search(r"\d+\.\d+\.\d+", run(program, "--version").stdout)
    help_text = run(program, "--help")
    assert help_text.returncode == 0 and "--listen" in help_text.stdout
    assert run(program, "--no-such-flag").returncode == 2
    assert run(program).returncode == 2, "a directory is required"
