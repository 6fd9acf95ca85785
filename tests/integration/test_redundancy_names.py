"""The names behind each number of `tarn redundancy` (docs/api.md): a state of objects, page by page."""

import json

import pytest
from harness import client
from harness.cli import Cli, Liar, answer
from harness.members import DOWN
from harness.nodes import stored_map, wait_until_in_place
from harness.waiting import wait_until
from test_mirror import mirrored  # noqa: F401

STATES = ("full", "reduced", "at_risk", "lost")


def asked(cluster, query):
    return client.request("GET", f"{cluster.endpoint}/v1/cluster?what=redundancy&provider=ais&{query}", expect=False)


def names(cli, bucket, state, *words):
    return cli("redundancy", bucket, "--list", state, *words).stdout.decode().splitlines()


def test_full_objects_are_named_from_any_name_on(cluster, mirrored, bucket, cli):  # noqa: F811
    """Full objects have copies on drives, or are single copies: each target counts its own."""
    wanted = sorted(f"n-{i:02}" for i in range(25))
    for where in (mirrored, bucket):
        cluster.fill(where, dict.fromkeys(wanted, b"x"))
        assert cli.ok("redundancy", where, "--list", "full").decode().splitlines() == wanted
        assert names(cli, where, "full", "--after", "n-11") == wanted[12:]
        assert names(cli, where, "full", "--after", wanted[-1]) == []
        assert [names(cli, where, state) for state in STATES[1:]] == [[], [], []]
    told = json.loads(cli.ok("redundancy", mirrored, "--list", "full", "--json"))
    assert (told["name"], told["list"], told["names"], told["more"], told["complete"]) == (mirrored, "full", wanted, False, True), told


def test_what_cannot_be_listed_says_what_can(cluster, bucket, cli):
    for query, says in ((f"bucket={bucket}&list=green", "full, reduced, at_risk and lost"), ("list=lost", "bucket=NAME"),
                        (f"bucket={bucket}&after=a", "list=reduced")):
        refused = asked(cluster, query)
        assert refused.status == 400 and says in refused.json()["message"], refused
    assert asked(cluster, "bucket=no-such-bucket&list=lost").status == 404
    assert cli("redundancy", bucket, "--list", "green").returncode == 2
    assert cli("redundancy", "--list", "lost").returncode == 2
    assert cli("redundancy", bucket, "--after", "a").returncode == 2


@pytest.mark.parametrize("props", [{"mirror": {"enabled": True, "copies": 2, "domain": "node"}},
                                   {"ec": {"enabled": True, "layout": "striped", "data_slices": 2, "parity_slices": 1, "objsize_limit": 1000}}])
def test_what_a_target_that_is_away_takes_with_it_is_named(make_cluster, props):
    """There are as many names as the numbers say, and exit code 7, since objects that only that target has are in neither."""
    cluster = make_cluster(targets=4, drives=1)
    cluster.create_bucket("short", props)
    wait_until_in_place(cluster)
    wanted = sorted(f"o-{i:02}" for i in range(30))
    for name in wanted:
        assert cluster.put("short", name, name.encode() * 1000).status == 200
    cli = Cli(cluster.endpoint)
    wait_until(lambda: names(cli, "short", "full") == wanted, 30, "all of them are full")
    cluster.kill("t3")
    # What the cluster knows of a target that is away changes once more when its lease ends.
    wait_until(lambda: any(node["flags"] & DOWN for node in stored_map(cluster)["nodes"]), 30, "t3 counts as down")

    def counted():
        told = cluster.redundancy("short")
        return told["targets_away"] and told["reduced"] > 0 and told["full"] + told["reduced"] == len(wanted) and told

    def counted_and_listed():
        """Both of one moment: nodes hear of the map that says so each in its own time."""
        before = counted()
        listed = {state: names(cli, "short", state) for state in STATES}
        after = counted()
        return before and after and all(before[state] == after[state] for state in STATES) and (before, listed)

    told, listed = wait_until(counted_and_listed, 60, "some objects are short")
    assert {state: len(its) for state, its in listed.items()} == {state: told[state] for state in STATES}, (told, listed)
    assert listed["full"] + listed["reduced"] != [] and sorted(listed["full"] + listed["reduced"]) == wanted
    assert set(listed["at_risk"]) <= set(listed["reduced"])
    middle = listed["reduced"][0]
    assert names(cli, "short", "reduced", "--after", middle) == listed["reduced"][1:]
    partial = cli("redundancy", "short", "--list", "reduced")
    assert partial.returncode == 7 and "incomplete" in partial.stderr, partial
    print(f"injected: t3 killed; detected: {len(listed['reduced'])} of {len(wanted)} objects are short, and named")
    cluster.start("t3")
    wait_until(lambda: names(cli, "short", "full") == wanted and cli("redundancy", "short", "--list", "full").returncode == 0, 60,
               "all of them are full again")


def test_pages_are_put_together_by_their_last_names():
    """Names of any bytes are told as text; where the next page begins is not."""
    def page(found, **more):
        told = {"names": found, "more": bool(more), "complete": True, "name": "b", "provider": "ais"} | more
        return answer(200, body=json.dumps(told).encode())

    with Liar(page(["a", "b\u001b"], next="b%1B"), page(["c"], next="%FF"), page(["d"])) as liar:
        assert liar.cli.ok("redundancy", "b", "--list", "reduced", "--after", "0 1") == b"a\nb\\x1b\nc\nd\n"
        queries = [path.partition("&list=")[2] for _, path, _ in liar.requests]
        assert queries == ["reduced&after=0%201", "reduced&after=b%1B", "reduced&after=%FF"], queries
    with Liar(page(["a"], next="a"), page(["a"], next="a")) as liar:
        liar.cli.refuses(1, "redundancy", "b", "--list", "reduced", "--after", "a", says="there are more names")
