"""tarn support bundle: one file with what a person who looks into a fault elsewhere needs, and nothing secret."""

import json
import stat
import tarfile

from harness.cli import Cli


def members(path):
    """{name below the one folder of the bundle: bytes}"""
    with tarfile.open(path) as bundle:
        found = {member.name: bundle.extractfile(member).read() for member in bundle}
    folders = {name.split("/", 1)[0] for name in found}
    assert len(folders) == 1, folders
    return {name.split("/", 1)[1]: content for name, content in found.items()}


def test_a_bundle_has_all_nodes_and_no_secrets(cluster, tmp_path):
    assert cluster.put("data", "shard-0.tar", b"bytes of a user").status == 200
    cli = Cli(cluster.endpoint)
    cli.ok("cluster", "wait", "--timeout", "60s")  # names of a new cluster may still move
    path = tmp_path / "fault.tar.gz"
    assert cli.ok("support", "bundle", "--output", str(path)) == f"{path}\n".encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = members(path)
    assert "missing.txt" not in found
    assert f"nodes {len(cluster.nodes)}\nhealth good\n" in found["about.txt"].decode()
    for name, content in found.items():
        if name.endswith(".json"):
            json.loads(content)
    assert "data" in json.loads(found["cluster/buckets.json"])["providers"]["ais"]["@#"]
    assert len(json.loads(found["cluster/mountpaths.json"])) == len(cluster.targets())
    for name, node in cluster.nodes.items():
        folder = f"nodes/{'proxy' if name.startswith('p') else 'target'}-{node['id']}/"
        assert node["id"].encode() in found[folder + "log.txt"] and b"ready" in found[folder + "log.txt"]
        assert b"# TYPE tarn_" in found[folder + "metrics.txt"]
        assert {folder + "config.json", folder + "status.json"} <= set(found)
    secret = (cluster.directory / "p1" / "cluster.secret").read_bytes().strip()
    assert secret and not [name for name, content in found.items() if secret in content or b"bytes of a user" in content]

    before = path.read_bytes()
    again = cli("support", "bundle", "--output", str(path))
    assert again.returncode == 6 and "is there already" in again.stderr and path.read_bytes() == before


def test_a_bundle_says_what_is_missing(make_cluster, tmp_path):
    cluster = make_cluster(targets=2, drives=1)
    dead = cluster.nodes["t2"]["id"]
    cluster.kill("t2")
    path = tmp_path / "fault.tar.gz"
    done = Cli(cluster.endpoint)("support", "bundle", "--output", str(path), "--json")
    assert done.returncode == 7 and f"nodes/target-{dead}/: it is down" in done.stderr, done
    said = json.loads(done.stdout)
    found = members(path)
    assert said == {"file": str(path), "files": len(found), "complete": False}
    assert f"nodes/target-{dead}/: it is down" in found["missing.txt"].decode()
    assert f"nodes/target-{cluster.nodes['t1']['id']}/log.txt" in found
