"""Calls between nodes, as a node makes them: signed with the cluster's secret, on the internal listener."""

import base64
import hashlib
import hmac
import json
import secrets
import socket
import time
import urllib.parse

from harness import client, etcd
from harness.waiting import wait_until


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


def kv(cluster, verb, body):
    """One call of the meta store: etcd's gateway, or that of the store in the one proxy."""
    path = f"/v3/kv/{verb}"
    members = [name for name in cluster.nodes if name.startswith("etcd")]
    # The last one may be just the one that is cut off: a caller that polls asks the others again soon.
    seconds = 10 if len(members) == 1 else 2
    for member in members:
        try:
            return etcd.call_etcd(cluster.url_of(member, "client"), path, body, seconds)
        except OSError:  # it is away, or has no leader
            if member == members[-1]:
                raise
    answer = call(cluster, "p1", "POST", path, body)
    assert answer.status == 200, answer
    return answer.json()


def stored(cluster, key):
    """What the meta store holds of a key, and the revision at which it was written."""
    (item,) = kv(cluster, "range", {"key": etcd.base64_of(key)})["kvs"]
    return base64.b64decode(item["value"]).decode(), item["mod_revision"]


def stored_map(cluster):
    return json.loads(stored(cluster, "/tarn/map")[0])


def is_complete(cluster):
    """All live targets act by the newest map, and nothing lies where it does not belong."""
    now = stored_map(cluster)
    return not now.get("past") and int(stored(cluster, "/tarn/settled")[0]) == now["version"]


def wait_until_in_place(cluster, seconds=30):
    wait_until(lambda: is_complete(cluster), seconds, "all names are in place")


def give_names_to(cluster, *owners):
    """Publishes a map in which these targets (names) own all names and the others are in maintenance. Its version, which is
    higher than all before."""
    wanted = {cluster.nodes[name]["id"] for name in owners}

    def publish():
        text, revision = stored(cluster, "/tarn/map")
        made = json.loads(text)
        targets = [node for node in made["nodes"] if node["role"] == "target"]
        before = {node["id"] for node in targets if node["flags"] == 0}
        past = [(made["version"], before, made.get("copies_since", 0))]
        for entry in made.get("past", []):
            past.append((entry["last"], before - set(entry.get("without") or []) | {each["id"] for each in entry.get("with") or []},
                         entry.get("copies_since", 0)))
        for node in targets:
            node["flags"] = node["flags"] & ~4 | (0 if node["id"] in wanted else 4)
        now = {node["id"] for node in targets if node["flags"] == 0}
        seen, made["past"] = [(now, made.get("copies_since", 0))], []
        for last, ids, since in past:
            if ids and (ids, since) not in seen:
                seen.append((ids, since))
                made["past"].append({"last": last, "without": sorted(now - ids), "copies_since": since,
                                     "with": [{"id": each} for each in sorted(ids - now)]})
        made["version"] += 1
        key, counter = etcd.base64_of("/tarn/map"), etcd.base64_of("/tarn/version/map")
        puts = [{"request_put": {"key": key, "value": etcd.base64_of(json.dumps(made))}},
                {"request_put": {"key": counter, "value": etcd.base64_of(str(made["version"]))}}]
        same = {"key": key, "target": "MOD", "result": "EQUAL", "mod_revision": revision}
        return kv(cluster, "txn", {"compare": [same], "success": puts}).get("succeeded") and made["version"]

    return wait_until(publish, 10, "the map is published")


class Job:
    """A rebalance or resilver at one target: its lines of progress as they come."""

    def __init__(self, cluster, node, kind, job):
        target = f"/v1/internal/{kind}"
        parts = urllib.parse.urlsplit(cluster.url_of(node, "internal"))
        body = json.dumps({"job": job}).encode()
        self.connection = client.RawConnection((parts.hostname, parts.port), timeout=60)
        self.connection.send_head("POST", target, {"Content-Length": str(len(body))} | signed(cluster, "POST", target, "test"))
        self.connection.send(body)
        self.connection.socket.recv(1, socket.MSG_PEEK)  # the job is known there, or refused
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
