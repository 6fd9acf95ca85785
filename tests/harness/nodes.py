"""Calls between nodes, as a node makes them: signed with the cluster's secret, on the internal listener."""

import base64
import hashlib
import hmac
import json
import secrets
import time
import urllib.parse

from harness import client


def node_auth_key(cluster):
    """HKDF-SHA256 (RFC 5869) of the secret, one block, for the purpose "tarn node auth 1"."""
    (file,) = [path for path in (cluster.directory / "cluster.secret", cluster.directory / "p1" / "cluster.secret")
               if path.exists()]
    pseudo = hmac.new(bytes(32), bytes.fromhex(file.read_text().strip()), hashlib.sha256).digest()
    return hmac.new(pseudo, b"tarn node auth 1\x01", hashlib.sha256).digest()


def signed(cluster, method, target, caller):
    """The header that proves that the node with id `caller` sends this."""
    words = [caller, str(int(time.time() * 1000)), secrets.token_hex(8)]
    proof = hmac.new(node_auth_key(cluster), "".join(f"{word}\n" for word in [*words, method, target]).encode(), hashlib.sha256)
    return {"Tarn-Node-Auth": " ".join([*words, base64.urlsafe_b64encode(proof.digest()).rstrip(b"=").decode()])}


def call(cluster, node, method, target, body=None, caller="test"):
    """The answer of node (its name) to a call of the node with id `caller`."""
    data = json.dumps(body).encode() if isinstance(body, dict) else body
    return client.request(method, cluster.url_of(node, "internal") + target, data, signed(cluster, method, target, caller),
                          expect=False)


def ownership(cluster, owners, version, past=(), leaving=()):
    """The JSON of an ownership map: all targets are members, of which `owners` (names) own; `leaving` are put aside.
    `past`: (last version, names) of former owners."""
    ids = {name: cluster.nodes[name]["id"] for name in cluster.targets()}
    members = [{"id": ids[name]} | ({} if name in owners else {"flags": 4}) for name in ids]
    out = {"version": version, "members": sorted(members, key=lambda member: member["id"]), "past": []}
    for last, names in past:
        out["past"].append({"last": last, "without": [ids[name] for name in owners if name not in names],
                            "with": [{"id": ids[name]} for name in names if name not in owners]})
    return out


class Job:
    """A rebalance or resilver at one target: its lines of progress as they come."""

    def __init__(self, cluster, node, kind, order):
        target = f"/v1/internal/{kind}"
        parts = urllib.parse.urlsplit(cluster.url_of(node, "internal"))
        body = json.dumps(order).encode()
        self.connection = client.RawConnection((parts.hostname, parts.port), timeout=60)
        self.connection.send_head("POST", target, {"Content-Length": str(len(body))} | signed(cluster, "POST", target, "test"))
        self.connection.send(body)
        self.node = node

    def end(self):
        """The last line, or the error that refused the job."""
        answer = self.connection.read_response("POST")
        self.connection.close()
        if answer.status != 200:
            raise AssertionError(answer)
        lines = [json.loads(line) for line in answer.text.splitlines()]
        assert lines[-1]["done"], lines
        assert all(not line["done"] for line in lines[:-1]), lines
        return lines[-1]


def begin_rebalance(cluster, node, map_json, job=None):
    return Job(cluster, node, "rebalance", {"job": job or f"g{map_json['version']}", "ownership": map_json})


def rebalance(cluster, nodes, map_json):
    """All `nodes` give away what `map_json` does not place there; the last line of each."""
    jobs = {node: begin_rebalance(cluster, node, map_json) for node in nodes}
    return {node: job.end() for node, job in jobs.items()}
