"""Writes of coded objects while holders go: a holder that fails during a PUT is replaced before the acknowledgement. Also drives whose
syncs fail (docs/reliability.md C3), overwrites in the middle of a rebuild (G6), and that bytes flow both ways as they come."""

import contextlib
import threading
import time

import disks
import pytest
from disks import seeded
from harness import attribute, client
from harness.cli import Cli
from harness.cluster import SHORT_LEASES
from harness.coded import KIB, MIB, get, props, slices_of
from harness.nodes import wait_until_in_place
from harness.waiting import wait_until
from load import Crowd
from test_coded_drives import make, needs_fuse, read_all, restart, slice_files

AT_ONCE = "safety.drop_later=off"


def sets_of(cluster, name):
    """{set: {slice: [target]}} of what lies anywhere of an object."""
    found = {}
    for target in cluster.targets():
        for _, said in attribute.slices(cluster.drives(target)):
            if said["name"] == name:
                found.setdefault(said["slice"]["set"], {}).setdefault(said["slice"]["index"], []).append(target)
    return found


def in_slices(cluster, name, before=()):
    """{slice: target} of the set that was not there before; each slice is there once."""
    ((_, lies),) = [(each, lies) for each, lies in sets_of(cluster, name).items() if each not in before]
    assert all(len(holders) == 1 for holders in lies.values()), lies
    return {index: holders[0] for index, holders in lies.items()}


def path_of(url):
    return "/" + url.split("/", 3)[3]


class SlowPut:
    """A PUT whose body comes in two halves. Sent to the owner of the name, as by a client who was redirected."""

    def __init__(self, cluster, name, body):
        self.body, self.head = body, {"Content-Length": len(body), "Expect": "100-continue"}
        url = cluster.url("cut", name)
        with client.RawConnection(url) as proxy:
            proxy.send_head("PUT", path_of(url), self.head)
            status, headers = proxy.read_head()
        assert status == 307, status
        self.url = headers["Location"]
        self.connection = client.RawConnection(self.url)

    def first_half(self):
        self.connection.send_head("PUT", path_of(self.url), self.head)
        assert self.connection.read_head()[0] == 100
        self.connection.send(self.body[:len(self.body) // 2])

    def second_half(self):
        self.connection.send(self.body[len(self.body) // 2:])
        answer = self.connection.read_response("PUT")
        self.connection.close()
        return answer


def work_bytes(stage):
    """{target: bytes of its work files}"""
    return {target: sum(path.stat().st_size for path, finished in stage.data_files(target) if not finished)
            for target in stage.targets()}


def first_version(cluster, name, body):
    """Stores an object. Returns its set and a target that has only a slice of it. If a replica of the record is away, the answer says so,
    and that replica gets its copy later."""
    assert cluster.put("cut", name, body).status == 200
    (only,) = sets_of(cluster, name)
    with_record = [target for target in cluster.targets() if name in attribute.objects(cluster.drives(target), "cut")]
    (target,) = set(in_slices(cluster, name).values()) - set(with_record)
    return only, target


def assert_replaced(cluster, name, answer, body, dead, before=()):
    assert answer.status == 200, answer
    lies = in_slices(cluster, name, before)  # at the moment of the answer
    assert "Tarn-Durability" not in answer.headers, answer.headers.items()
    assert sorted(lies) == [0, 1, 2] and len(set(lies.values())) == 3 and dead not in lies.values(), (lies, dead)
    got = get(cluster, name)
    assert got.status == 200 and got.body == body


@pytest.mark.gate("A1 of coded objects")
def test_a_holder_that_is_killed_in_the_middle_of_a_body_is_replaced(make_stage, seed):
    """Slices of the part of the body that has come are already on their way to the drives."""
    rng = seeded(seed, "replaced")
    stage = make(make_stage, targets=5, drives=1)
    cluster = stage.cluster
    body, name = rng.randbytes(12 * MIB), "n-0000"
    before, dead = first_version(cluster, name, rng.randbytes(5000))
    owner = cluster.owner("cut", name)
    put = SlowPut(cluster, name, body)
    put.first_half()
    wait_until(lambda: sorted(work_bytes(stage).values())[-3] >= 2 * MIB, 10, "half of a body has come to three holders")
    written = work_bytes(stage)
    assert written[dead] >= 2 * MIB and written[owner] >= 2 * MIB, written
    stage.kill(dead)
    answer = put.second_half()
    print(f"injected: {dead} killed with {written[dead]} bytes of a slice; detected: {answer.status}")
    assert_replaced(cluster, name, answer, body, dead, {before})


@pytest.mark.gate("A1 of coded objects")
def test_a_holder_that_is_killed_before_it_seals_is_replaced(make_stage, seed):
    rng = seeded(seed, "replaced at the seal")
    stage = make(make_stage, targets=5, drives=1)
    cluster = stage.cluster
    name, body = "n-0000", rng.randbytes(700 * KIB)
    before, dead = first_version(cluster, name, rng.randbytes(5000))
    stage.kill(dead)
    stage.start(dead, fail_points={dead: "slice.before_seal=kill"}, served=False)
    wait_until_in_place(cluster)
    wait_until(lambda: cluster.list_page("cut").status == 200, 20, "a list is answered")
    answer = cluster.put("cut", name, body, expect=False)
    stage.wait_gone(dead)
    assert stage.fail_point_hits(dead, "slice.before_seal") == 1
    print(f"injected: {dead} killed before it sealed its slice; detected: {answer.status}")
    assert_replaced(cluster, name, answer, body, dead, {before})


def stands_still(cluster, target):
    with open(f"/proc/{cluster.pid(target)}/stat", encoding="ascii") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "T"


@contextlib.contextmanager
def still(cluster, target):
    """Stops a target: its connections stay, and it does not answer."""
    cluster.stop(target)
    try:
        wait_until(lambda: stands_still(cluster, target), 10, f"{target} stands still")
        yield
        assert stands_still(cluster, target)
    finally:
        cluster.cont(target)


def test_a_holder_that_hangs_in_the_middle_of_a_body_is_replaced(make_stage, seed):
    rng = seeded(seed, "hangs")
    stage = make(make_stage, targets=5, drives=1)
    cluster = stage.cluster
    body, name = rng.randbytes(12 * MIB), "n-0000"
    before, hung = first_version(cluster, name, rng.randbytes(5000))
    put = SlowPut(cluster, name, body)
    put.first_half()
    wait_until(lambda: work_bytes(stage)[hung] >= 2 * MIB, 10, "half of a body has come there")
    begun = time.monotonic()
    with still(cluster, hung):
        answer = put.second_half()
        print(f"injected: {hung} hangs in the middle of a body; detected: {answer.status} after {time.monotonic() - begun:.1f} s")
        assert answer.status == 200 and "Tarn-Durability" not in answer.headers, answer
        assert hung not in in_slices(cluster, name, {before}).values()
        assert get(cluster, name).body == body


def test_holders_that_hang_together_are_not_waited_for_one_after_another(make_stage, seed):
    """Their leases end meanwhile. Each of them would be given 5 seconds to take something."""
    rng = seeded(seed, "hang together")
    stage = make(make_stage, k=4, m=2, targets=9, drives=1, settings=SHORT_LEASES)
    cluster = stage.cluster
    body, name = rng.randbytes(96 * MIB), "n-0000"
    assert cluster.put("cut", name, rng.randbytes(5000)).status == 200
    (first,) = sets_of(cluster, name)
    with_record = [target for target in cluster.targets() if name in attribute.objects(cluster.drives(target), "cut")]
    # A write waits for replicas of the record in another way.
    hung = sorted(set(in_slices(cluster, name).values()) - set(with_record))[:2]
    put = SlowPut(cluster, name, body)
    put.first_half()
    wait_until(lambda: all(work_bytes(stage)[each] >= 8 * MIB for each in hung), 20, "half of a body has come there")
    begun = time.monotonic()
    with still(cluster, hung[0]), still(cluster, hung[1]):
        answer = put.second_half()
        took = time.monotonic() - begun
        print(f"injected: {hung} hang in the middle of a body; detected: {answer.status} after {took:.1f} s")
        assert answer.status == 200, answer
        assert not set(hung) & set(in_slices(cluster, name, {first}).values())
        assert get(cluster, name).body == body
    assert took < 5, "they were waited for after their leases had ended"


def test_a_holder_that_hangs_at_its_seal_is_replaced(make_stage, seed):
    """When the holder's lease has ended, the owner no longer waits for it."""
    rng = seeded(seed, "hangs at the seal")
    stage = make(make_stage, targets=5, drives=1)
    cluster = stage.cluster
    name, body = "n-0000", rng.randbytes(700 * KIB)
    before, hung = first_version(cluster, name, rng.randbytes(5000))
    owner = cluster.owner("cut", name)
    stage.kill(owner)
    stage.start(owner, fail_points={owner: "coded.before_seal=sleep:2000@1"})
    wait_until_in_place(cluster)
    answers = []
    writer = threading.Thread(target=lambda: answers.append(cluster.put("cut", name, body, expect=False, timeout=60)))
    writer.start()
    wait_until(lambda: stage.fail_point_hits(owner, "coded.before_seal"), 20, "all slices have come to their holders")
    begun = time.monotonic()
    with still(cluster, hung):
        writer.join()
        (answer,) = answers
        took = time.monotonic() - begun
        print(f"injected: {hung} hangs before it seals its slice; detected: {answer.status} after {took:.1f} s")
        assert answer.status == 200 and "Tarn-Durability" not in answer.headers, answer
        assert hung not in in_slices(cluster, name, {before}).values()
        assert get(cluster, name).body == body
    assert took < 20, "the seal waited for more than the lease"


def test_a_replica_of_the_record_that_hangs_holds_up_a_write_for_its_lease(make_stage, seed):
    rng = seeded(seed, "record hangs")
    stage = make(make_stage, targets=5, drives=1)
    cluster = stage.cluster
    name, body = "n-0000", rng.randbytes(700 * KIB)
    first_version(cluster, name, rng.randbytes(5000))
    owner = cluster.owner("cut", name)
    (hung,) = {target for target in cluster.targets() if name in attribute.objects(cluster.drives(target), "cut")} - {owner}
    begun = time.monotonic()
    with still(cluster, hung):
        answer = cluster.put("cut", name, body, expect=False, timeout=60)
        took = time.monotonic() - begun
        print(f"injected: {hung} hangs, which has the record; detected: {answer.status} after {took:.1f} s")
        assert answer.status == 200, answer
        assert get(cluster, name).body == body
    assert took < 20


def test_a_write_without_one_holder_says_so_and_its_slice_comes_though_its_owner_died(make_stage, seed):
    """2 + 2 on four targets of which one is away: `degraded`, or 503. The owner then dies; the record says what is owed."""
    rng = seeded(seed, "degraded")
    stage = make(make_stage, 2, 2, targets=4, drives=1)
    cluster, body = stage.cluster, rng.randbytes(300 * KIB)
    cluster.create_bucket("strict", props("striped", 2, 2, durability="strict"))
    wait_until_in_place(cluster)
    owner, away = rng.sample(cluster.targets(), 2)
    (name,), (refused,) = (cluster.names_owned_by(owner, bucket, 1, prefix=bucket) for bucket in ("cut", "strict"))
    stage.kill(away)

    def put():
        answer = cluster.put("cut", name, body, expect=False)
        return answer if answer.status == 200 else None

    answer = wait_until(put, 20, "it is written")
    stage.kill(owner)
    assert answer.headers.get("Tarn-Durability") == "degraded", answer
    assert sorted(in_slices(cluster, name).values()) == sorted(set(cluster.targets()) - {away})
    stage.start(owner, served=False)
    wait_until(lambda: (said := cluster.put("strict", refused, body, expect=False)).status == 503 and "of the 4 slices" in said.text, 20,
               "a bucket that is strict takes nothing")
    stage.start(away)
    wait_until_in_place(cluster)
    wait_until(lambda: sorted(slices_of(cluster, name)) == [0, 1, 2, 3], 30, "the missing slice has come")
    print(f"injected: {owner} killed after a degraded acknowledgement, {away} away; detected: all slices are there")
    assert len(set(in_slices(cluster, name).values())) == 4
    assert slices_of(cluster, refused) == {} and get(cluster, name).body == body
    assert cluster.put("strict", refused, body).status == 200


@needs_fuse
def test_a_drive_whose_syncs_fail_is_out_and_no_write_fails(make_stage, seed):
    """C3: at one holder, while PUTs run."""
    rng = seeded(seed, "C3")
    stage = make(make_stage, targets=4, drives=2, faulty=True)
    cluster = stage.cluster
    failing = rng.choice(cluster.targets())
    drive = rng.choice(stage.disks[failing])
    bodies, answers = {f"n-{i:04}": rng.randbytes(rng.randrange(2000, 500 * KIB)) for i in range(24)}, {}

    def store(names):
        for name in names:
            answers[name] = cluster.put("cut", name, bodies[name], expect=False)

    names = sorted(bodies)
    store(names[:4])
    drive.rule("eio fsync data/ always")
    writers = [threading.Thread(target=store, args=(names[4 + i::3],)) for i in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    hits = drive.stats().get("eio.fsync", 0)
    refused = {name: answer for name, answer in answers.items() if answer.status != 200}
    degraded = [name for name, answer in answers.items() if "Tarn-Durability" in answer.headers]
    print(f"injected: {hits} syncs failed; detected: {len(bodies) - len(refused)} PUTs acknowledged, {len(degraded)} of them degraded")
    assert hits > 0 and not refused, [(name, answer.text) for name, answer in refused.items()]
    wait_until(lambda: cluster.metric(failing, "tarn_drive_up", drive=str(drive.mountpoint)) == 0, 5, "the drive is out")
    read_all(cluster, bodies, again=False)
    lie = {}
    for (name, index), path in slice_files(cluster).items():
        if drive.mountpoint not in path.parents:
            lie.setdefault(name, set()).add(index)
    assert {name: lie.get(name) for name in names[4:]} == dict.fromkeys(names[4:], {0, 1, 2}), "slices are on other drives, without repair"


@pytest.mark.parametrize("point", ("slice.remake", "repair.before_seal"))
def test_an_overwrite_in_the_middle_of_a_rebuild_is_what_is_read_from_then_on(make_stage, seed, point):
    """G6: what is made again is that of the version before."""
    rng = seeded(seed, "G6", point)
    points = {f"t{i}": f"{AT_ONCE};{point}=sleep:3000" for i in range(1, 5)}
    stage = make(make_stage, targets=4, drives=1, settings={"target.out_after": "2s"}, fail_points=points)
    cluster, name = stage.cluster, "n-0000"
    judge = stage.client("judge", timeout=30)
    assert judge.put("cut", name, 100_000).status == 200
    owner = cluster.owner("cut", name)
    dead = in_slices(cluster, name)[2]
    readers = Crowd([stage.client(f"r{i}", timeout=10) for i in range(2)], lambda reader: reader.get("cut", name)).start()
    stage.kill(dead)
    wait_until(lambda: stage.fail_point_hits(owner, point) > 0, 20, "the old version is being made whole", every=0.005)
    begun = time.monotonic()
    wrote = judge.put("cut", name, 120_000)
    assert wrote.status == 200, wrote.line()
    seconds = time.monotonic() - begun
    time.sleep(max(0, 3.5 - seconds))  # past the hold
    readers.stop()
    others = [target for target in cluster.targets() if target != dead]

    def one_set():
        lie = [(said["slice"]["set"], said["slice"]["index"]) for target in others for _, said in attribute.slices(cluster.drives(target))]
        return len({each for each, _ in lie}) == 1 and sorted(index for _, index in lie) == [0, 1, 2]

    wait_until(one_set, 20, "the slices of the new version are there once, and no others")
    said = [line for line in cluster.logs[owner].lines() if "has changed meanwhile" in line]
    print(f"injected: a rebuild held at {point} for 3 s; the PUT took {seconds:.2f} s; detected: {said[:1]}")
    stage.check(judge, [name], "cut")


def first_byte(cluster, name):
    try:
        return get(cluster, name, Range="bytes=0-0").body
    except OSError:  # sent to the one that was killed just now
        return None


@needs_fuse
def test_the_first_bytes_of_a_degraded_answer_come_before_the_rest_is_read(make_stage, seed):
    """The drives of both slices that are left give their first megabytes, and the rest only seconds later."""
    rng = seeded(seed, "first bytes")
    stage = make(make_stage, 2, 1, targets=3, drives=1, faulty=True)
    cluster, name, body = stage.cluster, "n-0000", rng.randbytes(24 * MIB)
    assert cluster.put("cut", name, body).status == 200
    dead = next(target for index, target in in_slices(cluster, name).items() if index == 0)
    files = slice_files(cluster)
    restart(stage, *cluster.targets())
    stage.kill(dead)
    wait_until(lambda: first_byte(cluster, name) == body[:1], 20, "it is read without that one")
    hold = 3
    for index in (1, 2):
        disk = next(disk for disk in stage.all_disks() if disk.mountpoint in files[name, index].parents)
        disk.rule(f"delay read {files[name, index].name} skip=24 count=1 ms={hold * 1000}")
    url = cluster.get("cut", name, follow=False).headers["Location"]
    begun = time.monotonic()
    with client.RawConnection(url) as connection:
        connection.send_head("GET", path_of(url))
        status, headers = connection.read_head()
        parts = connection.body("GET", status, headers)
        got = next(parts)
        first = time.monotonic() - begun
        got += b"".join(parts)
    last = time.monotonic() - begun
    hits = {disk.name: disk.stats().get("delay.read", 0) for disk in stage.all_disks()}
    print(f"injected: {dead} killed, reads held for {hold} s ({hits}); detected: the first byte came after {first:.2f} s, the last after {last:.2f} s")
    assert status == 200 and int(headers["Content-Length"]) == len(body) and got == body
    assert sum(hits.values()) == 2 and first < last - 1 and last >= hold


@pytest.mark.gate("C4")
def test_a_write_whose_record_finds_no_room_leaves_no_slices(make_cluster, rng):
    """The object was never there, so no record would tell that its slices may go."""
    cluster = make_cluster(targets=5, drives=1)
    cluster.expect_errors(r" (error|warn) ")
    cluster.create_bucket("cut", props("striped"))
    wait_until_in_place(cluster)
    Cli(cluster.endpoint).ok("cluster", "config", "set", "--node", cluster.nodes["t3"]["id"], "space.highwm=1", "space.out_of_space=1")
    owned = [name for target in cluster.targets() if target != "t3" for name in cluster.names_owned_by(target, "cut", 6)]
    answers = {name: cluster.put("cut", name, rng.randbytes(60_000), expect=False) for name in owned}
    refused = {name for name, answer in answers.items() if answer.status == 507}
    print(f"injected: t3 takes no files; detected: {len(refused)} of {len(owned)} writes were refused")
    assert refused and {answer.status for answer in answers.values()} == {200, 507}
    assert all(cluster.nodes["t3"]["id"] in answers[name].text for name in refused)

    def lie():
        return {said["name"] for target in cluster.targets() for _, said in attribute.slices(cluster.drives(target))}

    wait_until(lambda: lie() == set(owned) - refused, 60, "only slices of what was stored lie anywhere")


def test_a_body_without_a_length_that_takes_long_to_encode_is_answered_at_the_relay(make_cluster):
    """It is encoded when all of it is there, for which the relay waits longer than for other answers."""
    slow = "coded.before_seal=sleep:45000;coded.before_record=sleep:25000"
    cluster = make_cluster(targets=3, drives=1, fail_points={f"t{i}": slow for i in (1, 2, 3)})
    cluster.create_bucket("cut", props("striped", 2, 1))
    wait_until_in_place(cluster)
    chunk, begun = bytes(MIB), time.monotonic()
    url = cluster.url("cut", "n").replace(cluster.endpoint, cluster.relay)
    answer = client.request("PUT", url, iter([chunk] * 160), timeout=200)
    took = time.monotonic() - begun
    print(f"injected: an encoding that takes 70 s; detected: {answer.status} after {took:.0f} s")
    assert answer.status == 200 and took > 70
    assert get(cluster, "n").body == chunk * 160
