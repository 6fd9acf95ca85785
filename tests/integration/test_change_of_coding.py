"""The coding of a bucket that has objects changes: other slices, slices for the first time, none any longer (docs/decisions/019)."""

import json
import os
import threading

import pytest
from aistore.sdk import Client
from harness import attribute, client
from harness.coded import FULL_COPY, KIB, LIMIT, get, props, record_of, records_of, slices_of
from harness.jobs import ended, snaps, start, total
from harness.nodes import wait_until_in_place
from harness.waiting import guarded, wait_until

SIZES = (0, 1, LIMIT, LIMIT + 1, 70 * KIB, 300 * KIB + 5)
RED = {"Ais-Custom-Md": "color=red"}


@pytest.fixture
def four(make_cluster):
    cluster = make_cluster(targets=4, drives=1)
    wait_until_in_place(cluster)
    return cluster


def heads(cluster, names):
    """The facts that a client can know of objects."""
    kept = ("ETag", "Ais-Version", "Ais-Atime", "Content-Length", "Ais-Custom-Md", "Ais-Checksum-Value")
    answers = {name: client.request("HEAD", cluster.url("cut", name)) for name in names}
    return {name: {key: answer.headers.get(key) for key in kept} for name, answer in answers.items()}


def change(cluster, value, seconds=60):
    """The end of the job that a change of properties begins."""
    answer = cluster.bucket_action("PATCH", "cut", "set-bprops", value)
    assert answer.status == 200 and answer.text, answer
    end = ended(cluster, answer.text, seconds)
    assert end["err"] == "" and not end["aborted"], end
    return answer.text


def wait_kept(cluster, bodies, k, m, layout):
    """Waits until all that lies anywhere is what this coding wants (k 0: none). Each object has `m` + 1 records or copies and is
    readable."""
    def of(name):
        coded = k > 0 and len(bodies[name]) > LIMIT
        wanted = {i: 1 for i in range(k + m)} | ({FULL_COPY: 1} if layout == "whole" else {}) if coded else {}
        return {index: len(holders) for index, holders in slices_of(cluster, name).items()} == wanted and len(records_of(cluster, name)) == m + 1

    for name, body in bodies.items():
        wait_until(lambda of_name=name: of(of_name), 60, f"{name} is kept as {k}+{m} {layout}", every=0.2)
        assert get(cluster, name).body == body, name
        said = record_of(cluster, name)[0]
        if k > 0 and len(body) > LIMIT:
            assert (said["coding"]["k"], said["coding"]["m"]) == (k, m), said


def files(cluster):
    return len(attribute.data_files(cluster.all_drives()))


@pytest.mark.deep("minutes: former slices stay for half a minute")
def test_another_coding(four):
    """Layout, k, m and limit of a coded bucket: objects keep ETag, version, time and metadata."""
    four.create_bucket("cut", props("striped"))
    bodies = four.fill("cut", 12, SIZES, headers=RED)
    before = heads(four, bodies)
    assert all(head["Ais-Custom-Md"] for head in before.values())
    coded = sum(len(body) > LIMIT for body in bodies.values())
    job = change(four, {"ec": {"layout": "whole"}})
    assert total(snaps(four, job), "loc-objs") == coded
    wait_kept(four, bodies, 2, 1, "whole")
    change(four, {"ec": {"layout": "striped", "data_slices": 1, "parity_slices": 2}})
    wait_kept(four, bodies, 1, 2, "striped")
    change(four, {"ec": {"data_slices": 3, "parity_slices": 1}})
    wait_kept(four, bodies, 3, 1, "striped")
    assert heads(four, bodies) == before
    # Only what is larger than the limit is cut.
    change(four, {"ec": {"objsize_limit": 100 * KIB}})
    for name, body in bodies.items():
        wanted = {0, 1, 2, 3} if len(body) > 100 * KIB else set()
        wait_until(lambda of_name=name, its=wanted: set(slices_of(four, of_name)) == its, 60, f"{name} is as the limit says", every=0.2)
    assert heads(four, bodies) == before and sorted(four.names("cut")) == sorted(bodies)


@pytest.mark.parametrize("first", ["plain", "copies on nodes"])
@pytest.mark.deep("a minute: former slices stay for half a minute")
def test_slices_for_what_is_there_and_whole_objects_again(four, first):
    """While clients read and write."""
    mirror = {"mirror": {"enabled": True, "domain": "node", "copies": 2}}
    four.create_bucket("cut", mirror if first != "plain" else None)
    bodies = four.fill("cut", 24, SIZES, headers=RED)
    stop, wrong, written = threading.Event(), [], {}

    def read():
        names = sorted(bodies)
        while not stop.is_set():
            for name in names:
                got = get(four, name)
                if got.status != 200 or got.body != bodies[name]:
                    wrong.append((name, got.status))

    def write():
        for number in range(10**6):
            if stop.is_set():
                return
            name, body = f"w-{number % 7}", os.urandom(SIZES[number % len(SIZES)])
            answer = four.put("cut", name, body, expect=False)
            if answer.status == 200:
                written[name] = body
            else:
                wrong.append((name, answer))

    threads = [threading.Thread(target=read), threading.Thread(target=write)]
    for thread in threads:
        thread.start()
    try:
        on = {"ec": props("striped", 2, 1)["ec"]}
        change(four, on if first == "plain" else on | {"mirror": {"enabled": False}})
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong, wrong[:5]
    bodies |= written
    wait_kept(four, bodies, 2, 1, "striped")
    change(four, {"ec": {"enabled": False}})
    wait_kept(four, bodies, 0, 0, "")
    wait_until(lambda: files(four) == len(bodies), 60, "no other file is left", every=0.5)
    for name, body in bodies.items():
        assert get(four, name).body == body, name


@pytest.mark.deep("half a minute")
def test_what_cannot_be_coded_otherwise_is_not_counted_as_full(four):
    """Switched off, the coding is still that of objects that no client can read: they are short of slices, not full."""
    four.expect_errors("lost|no slice could be made|not recoded|could not be|fewer than|slices")
    four.create_bucket("cut", props("striped", 2, 1))
    bodies = four.fill("cut", {f"n-{i}": os.urandom(70 * KIB + i) for i in range(3)})
    gone = 0
    for target in four.targets():
        for path, said in attribute.slices(four.drives(target)):
            if said["name"] == "n-1" and said["slice"]["index"] in (0, 2):
                os.remove(path)
                gone += 1
    assert gone == 2
    wait_until(lambda: four.redundancy("cut")["lost"] == 1, 20, "one is lost")
    assert four.bucket_action("PATCH", "cut", "set-bprops", {"ec": {"enabled": False}}).status == 200
    wait_until(lambda: all(not slices_of(four, name) for name in ("n-0", "n-2")), 60, "the others are whole objects", every=0.2)
    now = wait_until(lambda: (said := four.redundancy("cut"))["full"] == 2 and said, 30, "these are full")
    assert (now["lost"], now["lost_names"], now["lost_bytes"]) == (1, ["n-1"], len(bodies["n-1"])), now
    assert now["full_bytes"] == len(bodies["n-0"]) + len(bodies["n-2"]) and now["coded"] == 1, now
    assert (now["survives_drives"], now["survives_nodes"]) == (0, 0), now


def test_a_job_that_cannot_store_an_object_otherwise_ends_and_names_it(make_cluster):
    """After job.patience, not before: what is in the way may be a target that is away for a moment."""
    cluster = make_cluster(targets=4, drives=1, settings={"job.patience": "3s"})
    cluster.expect_errors("lost|no slice could be made|not recoded|could not be|fewer than|slices|not kept|job")
    wait_until_in_place(cluster)
    cluster.create_bucket("cut", props("striped", 2, 1))
    for i in range(3):
        assert cluster.put("cut", f"n-{i}", os.urandom(70 * KIB + i)).status == 200
    gone = [path for path, said in attribute.slices(cluster.all_drives())
            if said["name"] == "n-1" and said["slice"]["index"] in (0, 2)]
    for path in gone:
        os.remove(path)
    assert len(gone) == 2
    answer = cluster.bucket_action("POST", "cut", "ec-encode", json.dumps({"data_slices": 1, "parity_slices": 1}))
    assert answer.status == 200, answer
    said = ended(cluster, answer.text)
    assert "1 of the objects cannot be kept as the bucket wants, such as n-1: " in said["err"], said
    wait_until(lambda: len(slices_of(cluster, "n-0")) == len(slices_of(cluster, "n-2")) == 3, 60, "the others are coded otherwise")


def test_ec_encode_as_aistores_clients_ask_for_it(four):
    four.create_bucket("cut")
    bodies = four.fill("cut", 12, SIZES, headers=RED)
    value = json.dumps({"data_slices": 1, "parity_slices": 1, "objsize_limit": LIMIT})
    answer = four.bucket_action("POST", "cut", "ec-encode", value)
    assert answer.status == 200, answer
    sdk = Client(four.endpoint)
    assert sdk.job(answer.text).wait(timeout=guarded(60)).success
    wait_kept(four, bodies, 1, 1, "whole")
    assert sdk.bucket("cut").info and sdk.job(answer.text).status().err == ""
    # Once more, and what is missing of it: nothing changes.
    for value in (json.dumps({}), ""):
        again = four.bucket_action("POST", "cut", "ec-encode", value)
        assert again.status == 200 and ended(four, again.text)["err"] == "", again
        assert total(snaps(four, again.text), "loc-objs") == 0
    job = start(four, "ec-encode", Bck={"name": "cut", "provider": "ais"})
    assert ended(four, job)["err"] == ""


@pytest.mark.deep("a target must be started again within its lease")
def test_what_was_overtaken_stays_hidden_when_records_get_copies_on_drives(make_cluster):
    """A drive is away while its names are written, so that the new versions lie on the other one. It is back, and a larger m gives each
    target two records of a name. Before anything has been dropped, moved or copied the other drive goes: no client reads an old version."""
    cluster = make_cluster(targets=2, drives=2, settings={"resilver.enabled": "false"})
    wait_until_in_place(cluster)
    cluster.create_bucket("cut", props("striped", 1, 1))
    owned = cluster.names_owned_by("t1", "cut", 24)
    cluster.fill("cut", dict.fromkeys(owned, b"old"))
    first, second = cluster.drives("t1")
    aside = first.parent / "aside"
    on = lambda drive: {name: said["generation"] for name, said in attribute.objects([drive], "cut").items()}
    names = sorted(on(first).keys() & set(owned))
    assert len(names) > 4
    cluster.expect_errors("drive missing")
    cluster.kill("t1")
    first.rename(aside)
    cluster.start("t1")
    for name in names:
        wait_until(lambda of_name=name: cluster.put("cut", of_name, b"new", expect=False).status == 200, 20, f"{name} is written")
    cluster.kill("t1")
    aside.rename(first)
    cluster.start("t1", fail_points="mirror.before_drop=error;mirror.before_repair=error")
    wait_until_in_place(cluster)
    change(cluster, {"ec": {"parity_slices": 2}})
    wait_until_in_place(cluster)
    assert all(on(first)[name] != on(second)[name] for name in names), "an old version has gone already"
    cluster.kill("t1")
    second.rename(aside)
    cluster.start("t1")
    requests = lambda: cluster.metric("t1", "tarn_http_requests_total", method="GET") or 0

    def is_asked():
        """Reads all; true when the target was asked so often that each name was among them: reads go to both targets by turns."""
        for name in names:
            answer = get(cluster, name)
            assert answer.status == 503 or (answer.status, answer.body) == (200, b"new"), (name, answer)
        return requests() > 10 * len(names)

    wait_until(is_asked, 60, "readers are sent to the target")
    cluster.kill("t1")
    aside.rename(second)
    cluster.start("t1")
    wait_until(lambda: on(first) == on(second) and on(first).keys() >= set(owned), 30, "each lies on both drives, in its newest version")
    assert {get(cluster, name).body for name in names} == {b"new"}


def test_what_cannot_be_is_refused(four):
    four.create_bucket("cut", {"mirror": {"enabled": True, "copies": 2}})
    four.create_bucket("plain")

    def refused(method, bucket, action, value, status, words):
        answer = four.bucket_action(method, bucket, action, value)
        assert answer.status == status and words in answer.json()["message"], answer

    refused("PATCH", "cut", "set-bprops", {"ec": {"enabled": True}, "mirror": {"enabled": False}}, 501, "copies on drives")
    refused("PATCH", "plain", "set-bprops", {"ec": {"enabled": True, "parity_slices": 5}}, 400, "drive of its own")
    refused("POST", "plain", "ec-encode", json.dumps({"data_slices": 3, "parity_slices": 2}), 400, "the targets have 4 together")
    refused("POST", "plain", "ec-encode", "[1]", 400, "data_slices")
    refused("POST", "plain", "ec-encode", json.dumps({"data_slices": 99}), 400, "ec.data_slices")
    refused("POST", "plain", "ec-encode", json.dumps({"data_slices": 30, "parity_slices": 3}), 400, "32")
    refused("POST", "nothing", "ec-encode", "", 404, "nothing")
    body = json.dumps({"action": "start", "value": {"Kind": "ec-encode", "Bck": {"name": "plain", "provider": "ais"}}}).encode()
    answer = client.request("PUT", f"{four.endpoint}/v1/cluster", body, {"Content-Type": "application/json"}, expect=False)
    assert answer.status == 400 and "not coded" in answer.json()["message"], answer
