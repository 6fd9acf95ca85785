"""Kills between the steps of a repair, and of the judgement of a slice that no record names (docs/decisions/019, rule D): the owner dies at
each of them, and what it left is gone on with. Readers at two proxies, a history that is judged, and nothing left over at the end."""

from harness import attribute, client
from harness.admin import does
from harness.nodes import wait_until_home
from harness.waiting import wait_until
from test_coded_steps import AT_ONCE, BUCKET, Steps, overwrite

# Of an owner that moves slices off a target that is put aside, back, and off it again.
MOVING = ("repair.sealed", "coded.before_own_again", "repair.before_drop")


def dies_at(steps, target, point):
    """Ends by itself, and starts again without the point."""
    steps.stage.wait_gone(target)
    assert steps.stage.fail_point_hits(target, point) > 0, f"{target} did not end at {point}"
    print(f"injected: {target} killed at {point}")
    steps.start(target)
    try:
        # Who asked the owner about a piece when it died asks again a minute later at most.
        wait_until_home(steps.cluster, seconds=90)
    except AssertionError:
        print(client.request("GET", steps.cluster.endpoint + "/v1/cluster?what=rebalance").text)
        raise


def restart(steps, target, point):
    steps.stage.kill(target)
    steps.start(target, point=f"{point}=kill")
    wait_until_home(steps.cluster)


def pieces(cluster):
    """[(set, slice, target)] of all that lies anywhere."""
    return sorted((said["piece"]["set"], said["piece"]["index"], target)
                  for target in cluster.targets() for _, said in attribute.pieces(cluster.drives(target)))


def holds_slices(cluster, target):
    return len(attribute.pieces(cluster.drives(target)))


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
    cluster.expect_errors("slice|piece|No such file")
    for path, _ in attribute.pieces(cluster.drives(other)):
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
    before = pieces(cluster)
    restart(steps, owner, "coded.before_record")
    op = overwrite(300_000)(steps.stage.client("writer", timeout=30), name)
    steps.stage.wait_gone(owner)
    for point in ("judge.before_bump", "coded.before_own_again"):
        steps.stage.start(owner, fail_points={owner: f"{AT_ONCE};{point}=kill"}, ready=False)
        steps.stage.wait_gone(owner, seconds=30)
        assert steps.stage.fail_point_hits(owner, point) > 0, f"{owner} did not end at {point}"
        print(f"injected: {owner} killed at {point}, after {op.line()}")
    steps.start(owner)
    # Homes whose question met the death of the owner ask again at the next walk; a start begins one.
    others = [target for target in cluster.targets() if target != owner]
    steps.stage.kill(*others)
    steps.start(*others)
    wait_until_home(cluster)
    try:
        wait_until(lambda: pieces(cluster) == before, 40, "what nobody names has gone, and nothing else")
    except AssertionError as late:
        raise AssertionError(before, pieces(cluster)) from late
    steps.end()
