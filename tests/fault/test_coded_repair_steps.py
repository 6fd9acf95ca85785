"""The owner dies at each step of a repair, and of the judgement of a slice that no record names (docs/decisions/019, rule D). What it left
is continued. Readers at two proxies, a history that is judged, and nothing left over at the end."""

import time

from disks import seeded
from harness import attribute, client
from harness.admin import does
from harness.coded import MIB, props
from harness.nodes import wait_until_in_place
from harness.waiting import wait_until
from test_coded_steps import AT_ONCE, BUCKET, DROPS_SECONDS, Steps, overwrite

# Steps of an owner that moves slices off a target in maintenance, back, and off it again.
MOVING = ("repair.sealed", "coded.before_own_again", "repair.before_drop")


def dies_at(steps, target, point):
    """Ends by itself, and starts again without the point."""
    steps.stage.wait_gone(target)
    assert steps.stage.fail_point_hits(target, point) > 0, f"{target} did not end at {point}"
    print(f"injected: {target} killed at {point}")
    steps.start(target)
    try:
        # A target that asked the owner about a slice when it died asks again a minute later at most.
        wait_until_in_place(steps.cluster, seconds=90)
    except AssertionError:
        print(client.request("GET", steps.cluster.endpoint + "/v1/cluster?what=rebalance").text)
        raise


def restart(steps, target, point):
    steps.stage.kill(target)
    steps.start(target, point=f"{point}=kill")
    wait_until_in_place(steps.cluster)


def slices(cluster):
    """[(set, slice, target)] of all that lies anywhere."""
    return sorted((said["slice"]["set"], said["slice"]["index"], target)
                  for target in cluster.targets() for _, said in attribute.slices(cluster.drives(target)))


def holds_slices(cluster, target):
    return len(attribute.slices(cluster.drives(target)))


def test_slices_that_move_when_their_owner_dies_at_any_step_are_there_once(make_stage, seed):
    steps = Steps(make_stage, seed, "moves", layout="striped", k=2, m=1)
    cluster = steps.cluster
    owner, leaves = steps.rng.sample(cluster.targets(), 2)
    steps.names = cluster.names_owned_by(owner, BUCKET, 8)
    for name in steps.names:
        steps.put(name)
    steps.readers.name = steps.names[0]
    held = holds_slices(cluster, leaves)
    assert held > 0, "nothing would move"
    for turn, point in enumerate(MOVING):
        restart(steps, owner, point)
        does(cluster, "stop-maintenance" if turn % 2 else "start-maintenance", leaves)
        dies_at(steps, owner, point)
        steps.stage.look(steps.judge, steps.names, BUCKET, seconds=20)
        wait_until(lambda: holds_slices(cluster, leaves) == held * (turn % 2), 30, f"{leaves} has what it shall have")
    steps.end()
    print(f"injected: {len(MOVING)} kills of an owner that moved slices")


def test_a_slice_that_is_made_again_when_its_owner_dies_is_made_again(make_stage, seed):
    steps = Steps(make_stage, seed, "remake", layout="striped")
    cluster, name = steps.cluster, "n-0000"
    steps.names.append(name)
    steps.put(name, 300_000)
    steps.readers.name = name
    owner = cluster.owner(BUCKET, name)
    restart(steps, owner, "slice.remake")
    other = next(target for target in cluster.targets() if target != owner)
    cluster.expect_errors("slice|No such file")
    for path, _ in attribute.slices(cluster.drives(other)):
        path.unlink()
    dies_at(steps, owner, "slice.remake")
    wait_until(lambda: holds_slices(cluster, other) == 1, 30, "the slice is there again")
    steps.end()


def test_a_slice_that_nobody_names_goes_though_its_owner_dies_while_it_judges(make_stage, seed):
    """Sealed, and its record was never made: the owner says so under a generation above it, whatever it takes."""
    steps = Steps(make_stage, seed, "judge", layout="striped")
    cluster, name = steps.cluster, "n-0000"
    steps.names.append(name)
    steps.put(name, 200_000)
    steps.readers.name = name
    owner = cluster.owner(BUCKET, name)
    before = slices(cluster)
    restart(steps, owner, "coded.before_record")
    op = overwrite(300_000)(steps.stage.client("writer", timeout=30), name)
    steps.stage.wait_gone(owner)
    for point in ("judge.before_bump", "coded.before_own_again"):
        steps.stage.start(owner, fail_points={owner: f"{AT_ONCE};{point}=kill"}, ready=False)
        steps.stage.wait_gone(owner, seconds=30)
        assert steps.stage.fail_point_hits(owner, point) > 0, f"{owner} did not end at {point}"
        print(f"injected: {owner} killed at {point}, after {op.line()}")
    steps.start(owner)
    # Replicas whose question met the death of the owner ask again at the next walk; a start begins one.
    others = [target for target in cluster.targets() if target != owner]
    steps.stage.kill(*others)
    steps.start(*others)
    wait_until_in_place(cluster)
    try:
        wait_until(lambda: slices(cluster) == before, 40, "what no record names has gone, and nothing else")
    except AssertionError as late:
        raise AssertionError(before, slices(cluster)) from late
    steps.end()


def start_again(steps, *targets, point=""):
    """Restarts targets. A walk at the start asks owners about every slice there."""
    steps.stage.kill(*targets)
    steps.start(*targets, point=point)


def test_slices_of_a_version_that_one_replica_has_go_when_it_is_overruled(make_stage, seed):
    """Rule D: the record that an owner has is older than the slices it is asked about. It is committed again above them before they go. So
    the replica that is away, whose record names them, brings back no version without slices."""
    steps = Steps(make_stage, seed, "overruled", layout="striped", k=2, m=1)
    cluster, name = steps.cluster, "n-0000"
    steps.names.append(name)
    steps.put(name, 200_000)
    steps.readers.name = name
    owner = cluster.owner(BUCKET, name)
    (other,) = (target for target in steps.record_replicas(name) if target != owner)
    sets = {each[0] for each in slices(cluster)}
    generation = max(steps.generations(name))
    restart(steps, owner, "copies.before_own")
    op = overwrite(300_000)(steps.stage.client("writer", timeout=30), name)
    steps.stage.wait_gone(owner)
    steps.stage.kill(other)
    assert op.status != 200 and max(steps.generations(name)) > generation, f"{other} has no newer record: {op.line()}"
    present = [target for target in cluster.targets() if target != other]
    new = [each for each in slices(cluster) if each[0] not in sets and each[2] in present]
    assert new, "no slice of the new version is where it could be judged"
    start_again(steps, *present)
    wait_until(lambda: not [each for each in slices(cluster) if each[0] not in sets and each[2] in present], 60,
               f"slices that no record names have gone without {other}")
    steps.start(other)
    wait_until_in_place(cluster, seconds=90)
    print(f"injected: {owner} died when {other} alone had the record; detected: {len(new)} of its slices went, {op.line()}")
    steps.end()


def test_slices_that_may_be_all_that_is_left_of_an_object_stay(make_stage, seed):
    """Rule D: no record is anywhere, and there are enough slices."""
    steps = Steps(make_stage, seed, "last", layout="striped", k=2, m=1)
    cluster, name = steps.cluster, "n-0000"
    steps.put(name, 200_000)
    owner = cluster.owner(BUCKET, name)
    before = slices(cluster)
    assert len(before) == 3
    steps.readers.stop()
    steps.stage.kill(*cluster.targets())
    records = [path for target in cluster.targets() for path, raw in attribute.data_files(cluster.drives(target)).items()
               if attribute.decode(raw)["name"] == name and attribute.decode(raw)["kind"] != 3]
    assert len(records) == 2, records
    for path in records:
        path.unlink()
    cluster.expect_errors("record|gone|lost")
    asked = "judge.before_bump"
    start_again(steps, *cluster.targets(), point=f"{asked}=sleep:1")
    wait_until(lambda: steps.stage.fail_point_hits(owner, asked) >= len(before), 60, f"{owner} was asked about each slice")
    start_again(steps, *cluster.targets(), point=f"{asked}=sleep:1")
    wait_until(lambda: steps.stage.fail_point_hits(owner, asked) >= 2 * len(before), 60, f"{owner} was asked about each slice again")
    print(f"injected: {len(records)} records deleted; detected: {len(slices(cluster))} slices are there")
    assert slices(cluster) == before


def test_a_reader_by_an_older_record_reads_to_its_end(make_stage, seed):
    """An unneeded slice stays for half a minute. An object is written again while it is read; then one of the slices that its reader uses
    goes away."""
    rng = seeded(seed, "older record")
    stage = make_stage(targets=4, drives=1)
    cluster, name, body = stage.cluster, "n-0000", rng.randbytes(64 * MIB)
    cluster.create_bucket(BUCKET, props("striped", 2, 1))
    wait_until_in_place(cluster)
    assert cluster.put(BUCKET, name, body).status == 200
    owner = cluster.owner(BUCKET, name)
    holders = {index: target for _, index, target in slices(cluster)}
    dies = rng.choice([holders[index] for index in (0, 1) if holders[index] != owner])

    def url_of_owner():
        url = cluster.get(BUCKET, name, follow=False).headers["Location"]
        return url.startswith(cluster.url_of(owner) + "/") and url

    url = wait_until(url_of_owner, 30, "readers are sent to the owner, whose drive is no longer busy with the upload")
    with client.RawConnection(url) as reader:
        reader.send_head("GET", "/" + url.split("/", 3)[3], {})
        status, headers = reader.read_head()
        assert status == 200 and int(headers["Content-Length"]) == len(body)
        parts = reader.body("GET", status, headers, MIB)
        first = next(parts)
        assert cluster.put(BUCKET, name, body[::-1]).status == 200
        time.sleep(DROPS_SECONDS)  # what may go at once has gone
        stage.kill(dies)
        rest = b"".join(parts)
    print(f"injected: {dies} died behind the first bytes of an answer, after the object was written again")
    assert first + rest == body
    left_out = cluster.logs[owner].matching("slice left out by a reader")
    assert left_out, "the reader had all that it needed of the target that died"
