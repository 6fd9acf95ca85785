"""Every command in the documents runs as it stands there."""

import os
import re
import shutil
import subprocess

import pytest

from harness.cluster import PROGRAMS, REPOSITORY
from harness.waiting import scaled

FENCE = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(document):
    return "".join(FENCE.findall((REPOSITORY / document).read_text()))


def free_port():
    """The first of two neighbouring ports that nobody uses, with room for the nodes' own behind them."""
    import socket
    for port in range(24080, 30000, 200):
        try:
            for offset in (0, 1, 100, 120, 121):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port + offset))
            return port
        except OSError:
            continue
    raise AssertionError("no free ports")


@pytest.mark.parametrize("document, says", [("README.md", "512"), ("docs/cli.md", "drives behind NFS")])
def test_commands_of_a_document_run_as_they_stand(document, says, tmp_path):
    port = free_port()
    directory = tmp_path / "cluster"
    script = commands(document)
    assert "local-cluster up" in script
    # The reader's port and place may be taken on the machine that tests.
    script = script.replace("127.0.0.1:8080", f"127.0.0.1:{port}").replace("127.0.0.1:8081", f"127.0.0.1:{port + 1}")
    script = script.replace("/tmp/tarn", str(directory)).replace("local-cluster up", f"local-cluster up --port {port} --bin {PROGRAMS}")
    script = script.replace("$PWD/build/release/bin", str(PROGRAMS)).replace("build/release/bin", str(PROGRAMS)).replace("deploy/", f"{REPOSITORY}/deploy/")
    try:
        result = subprocess.run(["bash", "-euxo", "pipefail", "-c", script], cwd=tmp_path, capture_output=True, text=True,
                                timeout=scaled(120), env={**os.environ, "HOME": str(tmp_path)})
        assert result.returncode == 0, result.stdout + result.stderr
        assert says in result.stdout
        assert not directory.exists(), "the last command removes the cluster"
    finally:
        subprocess.run([REPOSITORY / "deploy/local-cluster", "wipe", "--dir", directory], capture_output=True, check=False)
        shutil.rmtree(directory, ignore_errors=True)
