"""`tarn plan`, `tarn bench` and the completions."""

import json
import os
import shutil
import subprocess

import pytest
from harness.cli import Cli
from harness.cluster import PROGRAMS, REPOSITORY

NOWHERE = Cli("http://127.0.0.1:1")


# --- plan --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("gpus, nfs, object_store",
                         [(1, 15, 2), (4, 60, 6), (8, 120, 12), (16, 240, 24), (64, 960, 96), (256, 3840, 384)])
def test_plan_counts_the_drives(gpus, nfs, object_store):
    told = json.loads(NOWHERE.ok("plan", "--gpus", gpus, "--rate", "0.3", "--size", "10TB", "--json"))
    assert (told["nfs_drives"], told["drives"]) == (nfs, object_store)
    text = NOWHERE.ok("plan", "--gpus", gpus, "--size", "10TB").decode()
    rows = {line.split("  ")[0].strip(): line for line in text.splitlines()}
    assert rows["drives"].split()[1] == str(object_store) and rows["drives behind NFS"].split()[3] == str(nfs)


def test_plan_has_all_that_one_orders():
    told = json.loads(NOWHERE.ok("plan", "--gpus", 64, "--size", "500TB", "--nic", 10, "--drives-per-node", 12, "--json"))
    assert (told["nodes"], told["ports_per_node"], told["ports"], told["shards"]) == (8, 3, 24, 465662)
    by_size = json.loads(NOWHERE.ok("plan", "--gpus", 1, "--size", "1PB", "--copies", 2, "--json"))
    assert by_size["drives"] == by_size["drives_for_size"] == 112 and by_size["advice"]
    NOWHERE.refuses(2, "plan", "--gpus", "0", says="--gpus")
    NOWHERE.refuses(2, "plan", "--size", "much", says="much")


# --- bench -------------------------------------------------------------------------------------------------------

def test_bench_compares_drives_with_tarn(make_cluster):
    cluster = make_cluster(targets=2, drives=2)
    cli = Cli(cluster.endpoint)
    body = os.urandom(8 << 20)
    cluster.fill("data", dict.fromkeys((f"s-{i}" for i in range(24)), body))
    drives = list(map(str, cluster.all_drives()))
    told = json.loads(cli.ok("bench", "--json"))  # it finds the drives itself
    assert sorted(each["drive"] for each in told["drives"]) == sorted(drives) and told["drives_elsewhere"] == 0
    assert sum(each["bytes"] for each in told["drives"]) == told["tarn_bytes"] == 24 * len(body)
    assert told["ratio"] == pytest.approx(told["tarn_rate"] / told["drives_rate"])
    assert told["drives_rate"] == pytest.approx(sum(each["rate"] for each in told["drives"]))
    assert told["binds"] in ("drive", "processor", "none") and 0 <= told["processor_share"] <= 1
    text = cli.ok("bench").decode()
    assert "ratio" in text and "what binds" in text and "through Tarn" in text
    some = json.loads(cli.ok("bench", "data/s-1", "--json"))
    assert some["tarn_bytes"] == 11 * len(body)  # s-1 and s-10 to s-19
    one = json.loads(cli.ok("bench", "--drive", drives[0], "--json"))
    assert [each["drive"] for each in one["drives"]] == drives[:1] and 0 < one["tarn_bytes"] < 24 * len(body)

    # Without drives there is nothing to compare with, and it says so.
    far = cli.ok("bench", "data", "--no-drives").decode()
    assert "through Tarn only" in far and "ratio" not in far
    told = json.loads(cli.ok("bench", "data", "--no-drives", "--bytes", "16MiB", "--json"))
    assert told["drives"] == [] and told["ratio"] is None and told["tarn_bytes"] == 2 * len(body)


def test_bench_refuses_what_it_cannot_measure(make_cluster, tmp_path):
    cluster = make_cluster(targets=1, drives=1)
    cli = Cli(cluster.endpoint)
    cli.refuses(2, "bench", "--no-drives", says="BUCKET")
    cli.refuses(2, "bench", "--no-drives", "--drive", tmp_path, says="--drive")
    cli.refuses(3, "bench", says="nothing to read")
    cli.refuses(3, "bench", "--drive", tmp_path, says="no drive of Tarn")
    cli.refuses(3, "bench", "--drive", cluster.drives("t1")[0], says="nothing to read")
    cli.refuses(3, "bench", "data", "--no-drives", says="no objects")
    cluster.put("data", "x", b"x" * 1000)
    other = make_cluster(targets=1, drives=1)
    Cli(other.endpoint).refuses(6, "bench", "--drive", cluster.drives("t1")[0], says="that cluster")

    # As on a machine where the same directory belongs to another target.
    label = cluster.drives("t1")[0] / ".tarn" / "drive.json"
    label.write_text(label.read_text().replace(cluster.nodes["t1"]["id"], "t-of-elsewhere"))
    cli.refuses(2, "bench", says="no drive")
    told = json.loads(cli.ok("bench", "data", "--json"))
    assert told["drives"] == [] and told["drives_elsewhere"] == 1


# --- help and completions ----------------------------------------------------------------------------------------

def commands(words=()):
    """Every command that --help names, with those below it."""
    text = NOWHERE.ok(*words, "--help").decode()
    names = []
    for line in text.partition("Subcommands:\n")[2].splitlines():
        if not line.startswith("  ") or not line.strip():
            break
        if line[2] != " ":
            names.append(line.split()[0])
    for name in names:
        yield (*words, name)
        yield from commands((*words, name))


def test_every_command_has_help_with_an_example():
    found = list(commands())
    assert {("put",), ("shards",), ("plan",), ("bench",), ("completion",), ("bucket", "create")} <= set(found)
    for words in found:
        text = NOWHERE.ok(*words, "--help").decode()
        if "Subcommands:" not in text:
            assert f"tarn {' '.join(words)}" in text.partition("Example")[2] or "tarshards" in text, words


def complete(cli, line, program="tarn"):
    """The words that bash offers after `line`."""
    words = line.split(" ")
    script = f"""
source <(tarn completion bash)
COMP_WORDS=({' '.join(repr(word) for word in words)})
COMP_CWORD={len(words) - 1}
_tarn {program} "${{COMP_WORDS[COMP_CWORD]}}" ""
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    result = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True,
                            env=cli.environment | {"PATH": f"{PROGRAMS}:{os.environ['PATH']}"}, cwd=REPOSITORY)
    assert result.stderr == "" and result.returncode == 0
    return result.stdout.split()


def test_bash_completes_commands_options_files_and_objects(cluster, bucket):
    cli = Cli(cluster.endpoint)
    for name in ("dir/a", "dir/b", "top"):
        cluster.put(bucket, name, b"x")
    assert {"put", "get", "shards", "bucket"} <= set(complete(cli, "tarn "))
    assert complete(cli, "tarn sha") == ["shards"]
    assert set(complete(cli, "tarn bucket ")) >= {"create", "rm", "ls", "show"}
    assert "--if-absent" in complete(cli, "tarn put --") and "--json" in complete(cli, "tarn put --")
    assert "--size" in complete(cli, "tarshards --", program="tarshards")
    assert "README.md" in complete(cli, "tarn put REA")
    assert f"{bucket}/" in complete(cli, "tarn cat bucket-")
    assert sorted(complete(cli, f"tarn cat {bucket}/")) == [f"{bucket}/dir/", f"{bucket}/top"]
    assert complete(cli, f"tarn rm -f {bucket}/dir/") == [f"{bucket}/dir/a", f"{bucket}/dir/b"]
    assert bucket in complete(cli, "tarn bucket rm bucket-")
    assert complete(cli, "tarn completion b") == ["bash"]
    assert complete(NOWHERE, "tarn cat x") == []
    # No word of later work, and every command that help names.
    offered = set(complete(cli, "tarn "))
    assert {words[0] for words in commands() if len(words) == 1} <= offered and "rebalance" not in offered


def test_zsh_takes_its_script(tmp_path):
    script = NOWHERE.ok("completion", "zsh")
    assert script.startswith(b"#compdef tarn tarshards\n")
    zsh = shutil.which("zsh")
    if zsh is None:
        # What both shells share is run by bash above; without zsh only the shape can be looked at.
        assert b"compadd" in script and b"compdef _tarn tarn tarshards" in script
        return
    file = tmp_path / "_tarn"
    file.write_bytes(script)
    check = f"""
fpath=({tmp_path} $fpath)
autoload -Uz compinit && compinit -u -d {tmp_path}/dump
source {file}
[[ $_comps[tarn] == _tarn && $_comps[tarshards] == _tarn ]] || exit 1
words=(tarn sha) CURRENT=2
compadd() {{ print -l -- "${{@:#--}}" }}
_tarn
"""
    result = subprocess.run([zsh, "-f", "-c", check], capture_output=True, text=True)
    assert result.returncode == 0 and "shards" in result.stdout.split(), result


def test_install_puts_programs_and_completions(tmp_path):
    build = PROGRAMS.parent
    result = subprocess.run(["cmake", "--install", build / "cli", "--prefix", tmp_path], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "bin" / "tarshards").resolve() == (tmp_path / "bin" / "tarn").resolve()
    assert b"complete -F _tarn tarn tarshards" in (tmp_path / "share/bash-completion/completions/tarn").read_bytes()
    assert (tmp_path / "share/zsh/site-functions/_tarn").read_bytes().startswith(b"#compdef")


def test_plain_errors_go_to_stderr_alone():
    for shell in ("fish", ""):
        NOWHERE.refuses(2, "completion", *filter(None, [shell]))
