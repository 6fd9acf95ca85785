"""Every command in the documents runs as it stands there; one that would take too long exists, with these options."""

import json
import os
import random
import re
import shlex
import shutil
import socket
import subprocess

import pytest

from harness import attribute, client
from harness.cluster import PROGRAMS, REPOSITORY
from harness.upstreams import ACCESS_KEY, SECRET_KEY, S3Server
from harness.waiting import guarded, scaled, wait_until

FAIL_POINT = re.compile(r'\bFAIL_POINT(_OF)?\("([a-z0-9_.]+)"|\bCO_FAIL_POINT\("([a-z0-9_.]+)"|\bSAFETY\("([a-z0-9_.]+)"')
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
DOCUMENTS = ["README.md", "HACKING.md", *sorted(f"docs/{path.name}" for path in (REPOSITORY / "docs").glob("*.md"))]
OURS = ("tarn", "tarshards", "tarn-proxy", "tarn-target", "tarn-unit-tests")
ASSIGNMENT = re.compile(r"([A-Z][A-Z_]+)=")


def fences(document, *languages):
    return [body for language, body in FENCE.findall((REPOSITORY / document).read_text()) if language in languages]


def free_port():
    """The first of two neighbouring ports that no program uses, with room for the nodes' own after them. They are a block
    of those that local-cluster chooses from."""
    share, shares = map(int, os.environ.get("TARN_PORT_SHARE", "0/1").split("/"))
    ports = list(range(10000, 30000, 200))[share::shares]
    random.SystemRandom().shuffle(ports)  # others may look for one at the same time
    for port in ports:
        try:
            for offset in (0, 1, 100, 110, 120, 121):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port + offset))
            return port
        except OSError:
            continue
    raise AssertionError("no free ports")


def run_script(script, directory, **environment):
    path = f"{PROGRAMS}:{os.environ['PATH']}"
    return subprocess.run(["bash", "-euxo", "pipefail", "-c", script], cwd=directory, capture_output=True, text=True,
                          timeout=scaled(300), env={**os.environ, "HOME": str(directory), "PATH": path, **environment})


@pytest.mark.parametrize("document, says", [("README.md", "512"), ("docs/cli.md", "drives behind NFS"),
                                            ("docs/coded-buckets.md", "survives the loss of any 2 drives, of any 2 targets"),
                                            ("docs/upstream.md", "fetched"), ("docs/download.md", "were there already"),
                                            pytest.param("docs/operations.md", "maintenance", marks=pytest.mark.deep("half a minute"))])
def test_commands_of_a_document_run_as_they_stand(document, says, tmp_path):
    assert says in output_of_frames(document, "sh", tmp_path)


def output_of_frames(document, language, tmp_path, replaced=None):
    """What the commands of a document's frames print, of which the last one removes their cluster. `replaced`: words of
    the document that are others here."""
    port = free_port()
    directory = tmp_path / "cluster"
    # What a document leaves running in the background ends with it.
    script = "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n" + "".join(fences(document, language))
    assert "local-cluster up" in script
    # The reader's port and place may be taken on the machine that tests.
    script = script.replace("127.0.0.1:8080", f"127.0.0.1:{port}").replace("127.0.0.1:8081", f"127.0.0.1:{port + 1}")
    script = script.replace("127.0.0.1:8190", f"127.0.0.1:{port + 110}").replace("8090", str(port + 190))
    script = script.replace("/tmp/tarn", str(directory)).replace("local-cluster up", f"local-cluster up --port {port} --bin {PROGRAMS}")
    script = script.replace("$PWD/build/release/bin", str(PROGRAMS)).replace("build/release/bin", str(PROGRAMS)).replace("deploy/", f"{REPOSITORY}/deploy/")
    for word, here in (replaced or {}).items():
        assert word in script, word
        script = script.replace(word, here)
    try:
        result = run_script(script, tmp_path)
        assert result.returncode == 0, result.stdout + result.stderr
        assert not directory.exists(), "the last command removes the cluster"
        return result.stdout
    finally:
        subprocess.run([REPOSITORY / "deploy/local-cluster", "wipe", "--dir", directory], capture_output=True, check=False)
        shutil.rmtree(directory, ignore_errors=True)


def test_commands_about_s3_run_as_they_stand(tmp_path, rng):
    with S3Server(tmp_path / "s3") as server:
        server.client.create_bucket(Bucket="train")
        for i in range(8):
            server.client.put_object(Bucket="train", Key=f"shard-{i:06}.tar", Body=rng.randbytes(100_000))
        said = output_of_frames("docs/upstream.md", "bash", tmp_path, {
            "http://127.0.0.1:7070": server.url, "tarn-access": ACCESS_KEY, "tarn-secret": SECRET_KEY})
        assert (tmp_path / "all" / "shard-000007.tar").stat().st_size == 100_000
        assert "extra.aws.profile" in said and "cold_range" in said and "survives" in said
        assert [each["Key"] for each in server.client.list_objects_v2(Bucket="train")["Contents"]][-1] == "shard-000007.tar"


# --- commands that are too long to run, or need what is not here ---------------------------------------------------

def simple_commands(text):
    """The words of each command of a line or a span: no comment, no redirection, no pipe."""
    try:
        lexer = shlex.shlex(text.splitlines()[0], posix=True, punctuation_chars=True)
        lexer.wordchars += ":=%+{},\\*?@~"
        words = list(lexer)
    except ValueError:
        return
    command = []
    for word in [*words, ";"]:
        if set(word) <= set("|&;()"):
            yield command
            command = []
        elif word == ">" or command[-1:] == [">"]:
            command = command[:-1] if command[-1:] == [">"] else [*command, word]
        else:
            command.append(word)


def commands_in(text):
    """Every command of ours, and of cmake, in a line: (names of variables before it, program, words)."""
    for words in filter(None, simple_commands(text)):
        variables = []
        while words and ASSIGNMENT.match(words[0]):
            variables.append(ASSIGNMENT.match(words.pop(0))[1])
        program = words[0] if words else ""
        is_path = program.startswith(("tests/", "deploy/", "build/release/")) and not program.endswith((".md", "*"))
        if is_path or program in OURS or program == "cmake":
            yield variables, program, words[1:]


def commands_of(document):
    """Those of a document, in fences and in the text."""
    text = (REPOSITORY / document).read_text()
    lines = [line for body in fences(document, "", "sh", "bash") for line in body.splitlines()]
    for line in [*lines, *SPAN.findall(FENCE.sub("", text))]:
        yield from commands_in(line)


def path_of(program):
    if program.startswith("build/release"):
        return PROGRAMS.parents[1] / program.removeprefix("build/")
    return PROGRAMS / program if program in OURS else REPOSITORY / program


HELP = {}


def help_of(program, words):
    """--help of the program, with that of the commands which the first words name."""
    commands = tuple(word for word in words[:3] if re.fullmatch(r"[a-z][a-z-]+", word))
    key = (program, commands)
    if key not in HELP:
        text = ""
        for count in range(len(commands) + 1):
            if count and not re.search(rf"^\s+.*\b{commands[count - 1]}\b", text, re.MULTILINE):
                break  # a word, but no command
            result = subprocess.run([path_of(program), *commands[:count], "--help"], capture_output=True, text=True, cwd=REPOSITORY,
                                    timeout=guarded(20))
            if count and result.returncode != 0:
                break
            assert result.returncode == 0, (program, commands, result)
            text += result.stdout
        HELP[key] = text
    return HELP[key]


def check_cmake(words):
    presets = json.loads((REPOSITORY / "CMakePresets.json").read_text())
    kind = "buildPresets" if "--build" in words else "configurePresets"
    if "--preset" in words:
        assert words[words.index("--preset") + 1] in [each["name"] for each in presets[kind]], words


def check(variables, program, words):
    """Checks that there is such a program, and that it knows these options."""
    if program == "cmake":
        check_cmake(words)
        return
    path = path_of(program)
    assert path.exists(), program
    for variable in variables:
        read = subprocess.run(["grep", "-rqw", variable, *(REPOSITORY / folder for folder in ("tests", "cli", "common"))], check=False)
        assert read.returncode == 0, f"no program reads {variable}"
    if path.is_dir() or not os.access(path, os.X_OK) or program.endswith("tarn-unit-tests"):
        return  # a place in the tree; or the unit tests, which run below
    known = help_of(program, words)
    for word in words:
        if re.match(r"--?[a-zA-Z]", word):
            option = word.split("=")[0]
            assert re.search(rf"(?<![\w-]){option}(?![\w-])", known), f"{program} has no {option}"
        elif program in ("tests/run", "tests/soak") and re.fullmatch("[a-z]+", word):
            assert re.search(rf"\b{word}\b", known), f"{program} has no {word}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_of_a_document_exist_with_their_options(document):
    for command in commands_of(document):
        check(*command)


def test_the_check_finds_commands_and_wrong_ones():
    found = [(program, words) for _, program, words in commands_of("HACKING.md")]
    assert ("tests/soak", ["all", "--minutes", "60"]) in found and ("cmake", ["--build", "--preset", "release"]) in found
    assert len(found) >= 16
    assert len({program for document in DOCUMENTS for _, program, _ in commands_of(document)}) >= 12
    nobodys = "TARN_" + "NO_SUCH_THING=1 "  # in two parts: this file is searched, too
    for wrong in ("tests/run --fast", "tests/no-such", "tests/soak nothing", "tarn put --nope", "cmake --preset none", nobodys + "tests/run"):
        (command,) = commands_in(wrong)
        with pytest.raises(AssertionError):
            check(*command)


# --- commands that are cheap to run ------------------------------------------------------------------------------

@pytest.mark.parametrize("command", ["tests/sabotage --list", "tests/soak --list", "tests/bench/run --list"])
def test_programs_of_hacking_can_say_what_they_have(command):
    program, word = command.split()
    result = subprocess.run([REPOSITORY / program, word], capture_output=True, text=True, cwd=REPOSITORY, timeout=scaled(60))
    assert result.returncode == 0 and len(result.stdout.splitlines()) > 3, result


def test_the_rows_that_performance_names_exist():
    rows = subprocess.run([REPOSITORY / "tests/bench/run", "--list"], capture_output=True, text=True, cwd=REPOSITORY, check=True).stdout
    named = [word for _, program, words in commands_of("docs/performance.md") if program == "tests/bench/run" for word in words
             if re.fullmatch(r"[a-z]+_[\w*]+", word)]
    assert named
    for name in named:
        assert re.search(rf"^\s*{name.replace('*', '.*')}", rows, re.MULTILINE), name


def test_the_unit_test_that_hacking_names_runs():
    words = next(words for _, program, words in commands_of("HACKING.md") if program.endswith("tarn-unit-tests"))
    result = subprocess.run([PROGRAMS / "tarn-unit-tests", *words], capture_output=True, text=True, timeout=scaled(60))
    assert result.returncode == 0 and "1 test case" in result.stdout, result


def test_drives_can_be_read_as_their_layout_says(cluster, bucket, tmp_path):
    name = "an-object-to-be-found"
    assert cluster.put(bucket, name, b"its bytes").status == 200
    drives = cluster.all_drives()
    # Files of buckets that were destroyed before go a moment later.
    there = {each["name"] for each in client.request("GET", f"{cluster.endpoint}/v1/buckets").json()}
    wait_until(lambda: {said["bucket"] for said in attribute.decoded(drives).values()} <= there, 30, "others are gone")
    script = "".join(body for body in fences("docs/on-disk-layout.md", "") if body.startswith(("tarn ", "getfattr ")))
    file = next(path for path in attribute.paths(drives) if path.read_bytes() == b"its bytes")
    script = script.replace("/srv/d1 /srv/d2", " ".join(map(str, drives))).replace("/tmp/out", str(tmp_path / "out"))
    script, replaced = re.subn(r"/srv/d1/data/\w+/\w+", str(file), script)
    assert replaced == 1
    result = run_script(script, tmp_path)
    assert result.returncode == 0, result
    assert name in result.stdout and (tmp_path / "out" / bucket / name).read_bytes() == b"its bytes"


def test_the_log_level_is_set_as_configuration_says(cluster, tmp_path):
    spans = SPAN.findall((REPOSITORY / "docs/configuration.md").read_text())
    command = next(span for span in spans if span.startswith("curl ") and "log.level" in span)
    node = cluster.url_of("t1").removeprefix("http://")
    command = command.replace("NODE", node).replace("curl", "curl -sS -f")
    try:
        assert run_script(command, tmp_path).returncode == 0
    finally:
        forget = client.request("PUT", cluster.url_of("t1") + "/v1/daemon", b'{"action":"reset-config"}', expect=False)
        assert forget.status == 200, forget


def rows_of(document, heading):
    """The names in the first cells of the table below a heading cell."""
    lines = (REPOSITORY / document).read_text().split(f"| {heading} |", 1)[1].splitlines()[2:]
    cells = []
    for line in lines:
        if not line.startswith("|"):
            break
        cells += SPAN.findall(line.split("|")[1])
    return cells


def test_fail_points_and_safeties_are_those_of_the_code():
    points, prefixes, safeties = set(), set(), set()
    for folder in ("common", "ec", "target", "proxy", "cli"):
        for path in (REPOSITORY / folder).rglob("*"):
            if path.suffix not in (".h", ".cc") or path.name == "fail_point.h":
                continue
            for prefix, point, other, safety in FAIL_POINT.findall(path.read_text()):
                (prefixes if prefix else safeties if safety else points).add(point or other or safety)
    told = [name for name in rows_of("docs/testing.md", "point | when") if not name.startswith(tuple(prefixes))]
    assert len(points) > 50 and prefixes and len(safeties) > 30
    assert sorted(told) == sorted(points)
    assert all(any(name.startswith(prefix) for name in rows_of("docs/testing.md", "point | when")) for prefix in prefixes)
    assert sorted(rows_of("docs/testing.md", "safety (`off`) | what is then left out")) == sorted(safeties)
