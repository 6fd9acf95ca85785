"""Buckets with `ec.layout` "whole": the owner of an object keeps it as it is, the slices lie at others."""

import os

import pytest
from harness import attribute, client
from harness.admin import does
from harness.coded import FULL_COPY, KIB, MIB, STRIPE, flip, get, names_all_slices, props, put_aside, record_of, slices_of
from harness.nodes import wait_until_in_place
from harness.waiting import wait_until

BODIES = {"one": 1001, "stripe": STRIPE, "stripe and one": STRIPE + 1, "long": 5 * MIB + 77}


@pytest.fixture
def four(make_cluster):
    cluster = make_cluster(targets=4, drives=1)
    cluster.create_bucket("cut", props("whole"))
    wait_until_in_place(cluster)
    return cluster


def restart_with(cluster, *points):
    """Restarts all targets with these fail points, and as eager to drop unneeded slices as full drives make them."""
    cluster.kill(*cluster.targets())
    cluster.start(*cluster.targets(), fail_points=";".join(("safety.drop_later=off", *points)))
    wait_until_in_place(cluster)


def files_of(cluster, name, index):
    """[(target, path)] of what lies anywhere of a slice."""
    return [(target, path) for target in cluster.targets() for path, said in attribute.slices(cluster.drives(target))
            if said["name"] == name and said["slice"]["index"] == index]


def in_full(cluster, name):
    """Where the full copy lies, once the object has all of its slices, one of each; the slices are elsewhere."""

    def all_there():
        lies = slices_of(cluster, name)
        if sorted(lies) != [0, 1, 2, FULL_COPY] or any(len(holders) > 1 for holders in lies.values()):
            return None
        (holder,) = lies[FULL_COPY]
        return holder not in [lies[i][0] for i in range(3)] and holder

    return wait_until(all_there, 60, f"{name} has all slices, the slices not where the full copy is")


def read(cluster, name, bucket="cut"):
    """None when it cannot be read now."""
    try:
        answer = cluster.get(bucket, name, expect=False)
    except (OSError, client.ProtocolError):  # sent to one that was killed just now
        return None
    return answer.body if answer.status == 200 else None


def restart(cluster, node):
    """Until the proxy hears that the target is back, it sends readers to others, who have slices."""
    cluster.logs["p1"].mark()
    cluster.kill(node)
    cluster.start(node)
    cluster.logs["p1"].wait_for(f"target answers node={cluster.nodes[node]['id']}")
    wait_until_in_place(cluster)


def test_the_owner_has_the_object_as_it_is(four):
    """The full copy is there by default, as with AIStore."""
    four.create_bucket("default", {"ec": {"enabled": True, "data_slices": 2, "parity_slices": 1, "objsize_limit": 1000}})
    for name, size in BODIES.items():
        body = os.urandom(size)
        answer = four.put("cut", name, body)
        assert answer.status == 200 and "Tarn-Durability" not in answer.headers, answer
        got = get(four, name)
        assert got.status == 200 and got.body == body and got.headers["ETag"] == answer.headers["ETag"]
        assert in_full(four, name) == four.owner("cut", name)
        ((_, path),) = files_of(four, name, FULL_COPY)
        assert path.read_bytes() == body, "the file is the object"
        record, _ = record_of(four, name)
        assert record["coding"]["whole"] == four.nodes[four.owner("cut", name)]["id"]
        for first, last in ((0, 0), (size // 2, size - 1), (size - 1, size - 1)):
            part = get(four, name, Range=f"bytes={first}-{last}")
            assert part.status == 206 and part.body == body[first:last + 1]
    body = os.urandom(300 * KIB)
    assert client.request("PUT", four.url("cut", "chunked"), iter([body[:100], body[100:]])).status == 200
    assert in_full(four, "chunked") == four.owner("cut", "chunked") and get(four, "chunked").body == body
    assert four.put("default", "x", body).status == 200 and sorted(slices_of(four, "x")) == [0, 1, 2, FULL_COPY]
    patched = client.request("PATCH", four.url("cut", "chunked"), b'{"value": {"color": "red"}}', {"Content-Type": "application/json"})
    assert patched.status == 200 and get(four, "chunked").body == body
    assert in_full(four, "chunked") == four.owner("cut", "chunked")


def test_readers_need_no_slices_while_the_owner_is_there(four):
    body = os.urandom(2 * MIB)
    (name,) = four.names_owned_by("t1", "cut", 1)
    assert four.put("cut", name, body).status == 200
    record_of(four, name)
    four.kill("t2", "t3", "t4")
    wait_until(lambda: read(four, name) == body, 20, "the owner serves it alone")
    four.start("t2", "t3", "t4")
    wait_until_in_place(four)
    four.kill("t1")
    wait_until(lambda: read(four, name) == body, 20, "it is read without its owner")


@pytest.mark.deep("more than 10 s")
def test_an_overwrite_and_a_delete_take_the_full_copy_away(four):
    restart_with(four)
    assert four.put("cut", "a", os.urandom(200 * KIB)).status == 200
    second = os.urandom(150 * KIB)
    assert four.put("cut", "a", second).status == 200
    in_full(four, "a")  # once those of before are gone
    assert get(four, "a").body == second
    assert four.delete("cut", "a").status == 200
    wait_until(lambda: slices_of(four, "a") == {}, 60, "all slices are gone")


def test_a_damaged_full_copy_is_never_served_and_made_again(four):
    """From the damaged byte on the slices give the rest, in the same answer."""
    body = os.urandom(6 * MIB)
    assert four.put("cut", "a", body).status == 200
    holder = in_full(four, "a")
    four.expect_errors("does not match|whole given up|corrupt|not what was stored|checksum")
    ((_, path),) = files_of(four, "a", FULL_COPY)
    flip(path, 4 * MIB + 5)
    restart(four, holder)

    def damage_is_met():
        """Readers are sent elsewhere while the drive has much to do, for instance just after a start."""
        assert read(four, "a") in (None, body)
        return four.logs[holder].matching("full copy given up by a reader object=a")

    wait_until(damage_is_met, 30, "a reader meets the damage")

    def is_mended():
        try:
            return [its.read_bytes() for _, its in files_of(four, "a", FULL_COPY)] == [body]
        except FileNotFoundError:  # the bad one goes just now
            return False

    wait_until(is_mended, 30, "the full copy is made again")


def test_a_full_copy_that_is_gone_is_made_again(four):
    body = os.urandom(3 * MIB)
    assert four.put("cut", "a", body).status == 200
    holder = in_full(four, "a")
    ((_, path),) = files_of(four, "a", FULL_COPY)
    four.kill(holder)
    path.unlink()
    four.start(holder)
    wait_until_in_place(four)
    assert wait_until(lambda: read(four, "a"), 10, "it is read") == body
    assert in_full(four, "a") == holder
    assert read(four, "a") == body


def test_slices_are_cut_from_the_full_copy_when_too_few_are_left(four):
    body = os.urandom(3 * MIB)
    assert four.put("cut", "a", body).status == 200
    holder = in_full(four, "a")
    others = [target for target in four.targets() if target != holder]
    four.kill(*others)
    lost = [path for target, path in files_of(four, "a", 0) + files_of(four, "a", 1)]
    for path in lost:
        path.unlink()
    four.start(*others)
    wait_until_in_place(four)
    assert in_full(four, "a") == holder
    four.kill(holder)
    wait_until(lambda: read(four, "a") == body, 20, "it is read from slices alone")


@pytest.mark.deep("more than 10 s")
def test_the_full_copy_follows_the_owner(four):
    restart_with(four)
    bodies = four.fill("cut", {f"n-{i}": os.urandom(300 * KIB + i) for i in range(8)})
    leaves = four.owner("cut", "n-0")
    put_aside(four, leaves)
    wait_until(lambda: attribute.slices(four.drives(leaves)) == [], 90, "the one in maintenance has nothing any longer")
    for name, body in bodies.items():
        def at_owner():
            return [target for target, _ in files_of(four, name, FULL_COPY)] == [four.owner("cut", name)]
        wait_until(at_owner, 30, f"{name}: the full copy is at the owner")
        assert read(four, name) == body
    does(four, "stop-maintenance", leaves)
    wait_until_in_place(four)
    for name, body in bodies.items():
        assert in_full(four, name) == four.owner("cut", name)
        assert read(four, name) == body


def test_a_reader_of_everything_leaves_a_full_copy(four):
    """The reader leaves it at the owner that should have it; repair is stopped here, so it was the reader."""
    body = os.urandom(2 * MIB)
    assert four.put("cut", "a", body).status == 200
    holder = in_full(four, "a")
    others = [target for target in four.targets() if target != holder]
    four.kill(*others)
    four.start(*others, fail_points="full_copy.make=error")
    wait_until_in_place(four)
    put_aside(four, holder)
    owner = wait_until(lambda: (now := four.owner("cut", "a")) != holder and now, 20, "it has another owner")
    part = get(four, "a", Range="bytes=0-9")
    assert part.status == 206 and part.body == body[:10]
    assert not four.logs[owner].matching("full copy restored while it was read")

    def restored():  # before the new owner has the record, a reader is sent to the one before
        return read(four, "a") == body and four.logs[owner].matching("full copy restored while it was read object=a")

    wait_until(restored, 20, "it is restored", every=0.2)
    assert [path.read_bytes() for target, path in files_of(four, "a", FULL_COPY) if target == owner] == [body]
    assert read(four, "a") == body


@pytest.mark.parametrize("layout", ("whole", "striped"))
@pytest.mark.deep("half a minute")
def test_with_durability_owner_slices_come_after_the_acknowledgement(four, layout):
    four.create_bucket("soon", props(layout, durability="owner"))
    restart_with(four, "slice.before_seal=sleep:4000")
    body = os.urandom(2 * MIB)
    answer = four.put("soon", "a", body)
    assert answer.status == 200, answer
    assert sorted(slices_of(four, "a")) == [FULL_COPY]
    # Before there are slices: from every replica of its record, and by who copies it.
    for target in four.targets():
        if "a" in attribute.objects(four.drives(target), "soon"):
            answer = client.request("GET", f"{four.url_of(target)}/v1/objects/soon/a?provider=ais", expect=False)
            assert answer.status == 200 and answer.body == body, (target, answer)
    four.create_bucket("plain")
    copied = client.request("PUT", four.url("soon", "a") + "&object_to=ais/@%23/plain/copy", b"", expect=False)
    assert copied.status == 200, copied
    assert sorted(slices_of(four, "a")) == [FULL_COPY], "the slices came too soon to tell"
    assert four.get("plain", "copy").body == body and four.get("soon", "a").body == body
    wanted = [0, 1, 2] + [FULL_COPY] * (layout == "whole")
    wait_until(lambda: sorted(slices_of(four, "a")) == wanted, 90, "it has the slices that it shall have")
    assert four.get("soon", "a").body == body
    for other in ("c", "b"):  # chunked; with any one target away
        assert client.request("PUT", four.url("soon", other), iter([body[:100], body[100:]])).status == 200
        wait_until(lambda: sorted(slices_of(four, other)) == wanted, 90, "it has the slices that it shall have")
    # Slices are of use to others only when the record names them: before that the owner alone has the object.
    wait_until(lambda: names_all_slices(four, "b", "soon"), 90, "both replicas of the record name all slices")
    four.kill(four.owner("soon", "b"))
    wait_until(lambda: read(four, "b", "soon") == body, 20, "it is read without its owner")
    refused = four.bucket_action("POST", "no", "create-bck", {"durability": "owner"})
    assert refused.status == 400 and "ec.enabled" in refused.json()["message"], refused


def test_a_write_counts_the_full_copy_as_a_slice(make_cluster):
    """With three targets and one of them away: the full copy and two slices, acknowledged as degraded, and completed later."""
    cluster = make_cluster(targets=3, drives=2)
    cluster.create_bucket("cut", props("whole"))
    cluster.create_bucket("strict", props("whole", durability="strict"))
    wait_until_in_place(cluster)
    cluster.kill("t3")
    body = os.urandom(MIB)

    def put(bucket):
        try:
            return cluster.put(bucket, "a", body)
        except OSError:  # sent to the one that was killed just now
            return None

    answer = wait_until(lambda: (made := put("cut")) and made.status == 200 and made, 20, "it is written")
    assert answer.headers.get("Tarn-Durability") == "degraded", answer
    refused = wait_until(lambda: put("strict"), 20, "it is answered")
    assert refused.status == 503, refused
    cluster.start("t3")
    wait_until_in_place(cluster)
    wait_until(lambda: sorted(slices_of(cluster, "a")) == [0, 1, 2, FULL_COPY], 60, "it has all slices")
    assert read(cluster, "a") == body
