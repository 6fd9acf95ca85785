"""Buckets with `ec.enabled` and what lies on drives of their objects."""

import json
import os

from . import attribute, client
from .waiting import wait_until

KIB, MIB = 1 << 10, 1 << 20
STRIPE = 2 * (64 * KIB - 32)  # bytes of an object in a stripe of two data slices
LIMIT = 1000
FULL_COPY = 255  # the number of the slice that is the full copy


def props(layout, k=2, m=1, **others):
    return {"ec": {"enabled": True, "layout": layout, "data_slices": k, "parity_slices": m, "objsize_limit": LIMIT}} | others


def slices_of(cluster, name):
    """{slice: [target]} of what lies anywhere of an object."""
    found = {}
    for target in cluster.targets():
        for _, said in attribute.slices(cluster.drives(target)):
            if said["name"] == name:
                found.setdefault(said["slice"]["index"], []).append(target)
    return found


def slices(cluster, but=()):
    """{name: {(set, slice): [target]}} of all that lies anywhere, but on some targets."""
    found = {}
    for target in cluster.targets():
        for _, said in attribute.slices(cluster.drives(target)) if target not in but else ():
            its = said["slice"]
            found.setdefault(said["name"], {}).setdefault((its["set"], its["index"]), []).append(target)
    return found


def records_of(cluster, name, bucket="cut"):
    return [found[name] for found in (attribute.objects(cluster.drives(target), bucket) for target in cluster.targets()) if name in found]


def at_two_replicas(cluster, name, bucket="cut"):
    """Also: the other replica has heard that both have it."""
    said = records_of(cluster, name, bucket)
    return len(said) == 2 and said[0] == said[1]


def names_all_slices(cluster, name, bucket="cut"):
    """True if both replicas of the record name a holder for each slice, so that either is enough to read the object."""
    return at_two_replicas(cluster, name, bucket) and all(
        all(said.get("coding", {}).get("holders", [""])) for said in records_of(cluster, name, bucket))


def record_of(cluster, name):
    """The record of an object; waits for the moment in which all its replicas have heard that it is complete."""

    def agreed():
        said = records_of(cluster, name)
        return said and len({str(each) for each in said}) == 1 and said

    said = wait_until(agreed, 5, "all replicas of the record say the same")
    return said[0], len(said)


def get(cluster, name, **fields):
    return client.request("GET", cluster.url("cut", name), headers=fields or None, expect=False)


def put_aside(cluster, target):
    action = {"action": "start-maintenance", "name": "", "value": {"sid": cluster.nodes[target]["id"]}}
    asked = client.request("PUT", cluster.url_of("p1") + "/v1/cluster", json.dumps(action).encode(), expect=False)
    assert asked.status == 200, asked


def flip(path, at):
    """Another bit in a file, past what is in memory once its target is started anew."""
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))
        file.flush()
        os.fsync(file.fileno())
