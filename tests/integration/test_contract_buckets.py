"""What AIStore's own clients were seen to ask about buckets, lists and nodes, and the shape of what AIStore answered.

The files in contracts/ hold one case a line. `do` is method, path, JSON body and headers; `want` the status and, where
they say something, the content type, headers, and the shape of the body: "str", "int", "float", "bool", "null",
"digits" (a number in a string), "positive" (a whole number above 0), "=text" (exactly that, as text or as JSON), [shape] for a
list whose entries all have it, {"key": shape} for an object that has at least these keys, and "*" as a key for the
shape of all others. `entries` are the names that a list has, with their flags. {words} stand for names that a cluster
gives. A body that is a string is sent as it stands. `differs` says why the answer is not AIStore's, on purpose.

In remote.json `upstream` is what the S3 server is given before the call (null: what is deleted there), and `leaves` what
it has afterwards. `eventually` repeats the call until the answer is right."""

import itertools
import json
import re
import time
from pathlib import Path

import msgpack
import pytest
from harness import client
from harness.waiting import guarded

CONTRACTS = Path(__file__).parent / "contracts"
FILES = ["buckets", "list", "daemon", "jobs", "multi", "cli"]

_names = itertools.count(1)


def problems_of(shape, value, where="body"):
    """What of `value` is not as `shape` says."""
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [f"{where}: {value!r} is no list"]
        return [found for i, each in enumerate(value) if shape for found in problems_of(shape[0], each, f"{where}[{i}]")]
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return [f"{where}: {value!r} is no object"]
        found = [f"{where}: no key {key}" for key in shape if key != "*" and key not in value]
        for key, each in value.items():
            if key in shape or "*" in shape:
                found += problems_of(shape.get(key, shape.get("*")), each, f"{where}.{key}")
        return found
    if shape.startswith("="):
        fits = shape[1:] == (value if isinstance(value, str) else json.dumps(value))
        return [] if fits else [f"{where}: {value!r} is not {shape[1:]!r}"]
    fits = {"str": isinstance(value, str), "bool": isinstance(value, bool), "null": value is None,
            "int": isinstance(value, int) and not isinstance(value, bool),
            "float": isinstance(value, (int, float)) and not isinstance(value, bool),
            "digits": isinstance(value, str) and value.isdigit(),
            "positive": isinstance(value, int) and not isinstance(value, bool) and value > 0}
    return [] if fits[shape] else [f"{where}: {value!r} is no {shape}"]


def filled(value, names):
    if isinstance(value, str):
        return re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], found[0]), value)
    if isinstance(value, list):
        return [filled(each, names) for each in value]
    if isinstance(value, dict):
        return {key: filled(each, names) for key, each in value.items()}
    return value


def error_of(answer):
    text = answer.headers["Hdr-Error"] if "Hdr-Error" in answer.headers else answer.text
    return json.loads(text)


def problems(want, answer):
    """What of the answer is not as the case says."""
    found = []
    if answer.status != want["status"]:
        return [f"status {answer.status} instead of {want['status']}: {answer.text or answer.headers.get('Hdr-Error')}"]
    content_type = answer.headers.get("Content-Type", "")
    if want.get("exact_type") and content_type != want["type"] or not content_type.startswith(want.get("type", "")):
        found.append(f"Content-Type {content_type!r}")
    for name, pattern in want.get("headers", {}).items():
        value = ", ".join(answer.headers.get_all(name, []))
        if not re.fullmatch(pattern, value):
            found.append(f"header {name}: {value!r}")
    for name, shape in want.get("header_json", {}).items():
        found += problems_of(shape, json.loads(answer.headers[name]), name)
    if want.get("empty") and answer.body:
        found.append(f"a body: {answer.text}")
    if "text" in want and not re.fullmatch(want["text"], answer.text):
        found.append(f"text {answer.text!r}")
    if "json" in want:
        found += problems_of(want["json"], answer.json())
    if "msgpack" in want:
        found += problems_of(want["msgpack"], msgpack.unpackb(answer.body))
    if "entries" in want:
        entries = {entry["n"]: entry.get("f", 0) for entry in msgpack.unpackb(answer.body)["Entries"] or []}
        if entries != want["entries"]:
            found.append(f"entries {entries}")
    if "error" in want:
        error = error_of(answer)
        found += problems_of({"message": "str", "method": "str", "url_path": "str", "remote_addr": "str", "caller": "str",
                              "node": "str", "status": "int"}, error, "error")
        if want["error"].get("tcode", error.get("tcode")) != error.get("tcode") or error["status"] != answer.status:
            found.append(f"error {error}")
        if want["error"].get("message", "") not in error["message"]:
            found.append(f"message {error['message']!r} instead of one with {want['error']['message']!r}")
    return found


def ask(cluster, case):
    method, path, body, *headers = case["do"]
    base = cluster.url_of(cluster.targets()[0]) if case.get("at") == "target" else cluster.endpoint
    is_content = isinstance(body, str)
    data = None if body is None else body.encode() if is_content else json.dumps(body).encode()
    # As both clients do: the type is named even when there is no body.
    named = {} if is_content else {"Content-Type": "application/json"}
    return client.request(method, base + path, data, named | (headers[0] if headers else {}), expect=False)


def is_over(case, answer):
    """True if the call need not be repeated."""
    if case.get("eventually"):
        return not problems(case["want"], answer)
    if answer.status == case.get("until", answer.status):
        return True
    assert answer.status in (202, 206), answer
    return False


def replay(cluster, case, names):
    case = filled(case, names)
    deadline = time.monotonic() + guarded(20)
    while not is_over(case, answer := ask(cluster, case)) and time.monotonic() < deadline:
        time.sleep(0.05)
    if "save" in case:
        names[case["save"]] = answer.text
    if "save_header" in case:
        name, header = case["save_header"]
        names[name] = answer.headers.get(header, "")
    return problems(case["want"], answer)


@pytest.mark.parametrize("file", FILES)
def test_answers_are_those_of_aistore(cluster, bucket, file):
    cases = [json.loads(line.rstrip(",")) for line in (CONTRACTS / f"{file}.json").read_text().splitlines()
             if line.startswith("{")]
    assert len(cases) >= 10
    cluster.fill(bucket, dict.fromkeys(("one.txt", "dir/two.txt"), b"12345678"))
    names = {"bucket": bucket, "new": f"contract-{next(_names)}", "none": "no-such-bucket",
             "target": cluster.nodes["t1"]["id"], "proxy": cluster.nodes["p1"]["id"]}
    found = {}
    for case in cases:
        for each in case.get("each", [""]):
            found[f"{case['name']} {each}".strip()] = replay(cluster, case, names | {"each": each} if each else names)
    cluster.destroy_bucket(names["new"])
    assert not any(found.values()), "\n".join(f"{name}: {each}" for name, each in found.items() if each)


def test_administration_is_aistores(make_cluster):
    cluster = make_cluster(targets=2, drives=2)
    spare = cluster.directory / "t1" / "spare"
    spare.mkdir()
    cases = [json.loads(line.rstrip(",")) for line in (CONTRACTS / "admin.json").read_text().splitlines()
             if line.startswith("{")]
    assert len(cases) >= 40
    names = {"target": cluster.nodes["t1"]["id"], "proxy": cluster.nodes["p1"]["id"], "drive": str(cluster.drives("t1")[0]),
             "spare": str(spare), "other": cluster.nodes["t2"]["id"], "internal": cluster.url_of("t1", "internal"),
             "public": cluster.url_of("t1")}
    found = {case["name"]: replay(cluster, case, names) for case in cases}
    assert not any(found.values()), "\n".join(f"{name}: {each}" for name, each in found.items() if each)
    for node in ("t1", "t2", "p1"):
        cluster.wait_exit(node)


def change_upstream(s3, bucket, objects):
    for name, body in objects.items():
        if body is None:
            s3.client.delete_object(Bucket=bucket, Key=name)
        else:
            s3.client.put_object(Bucket=bucket, Key=name, Body=body.encode())


def problems_upstream(s3, bucket, wanted):
    """What upstream has differently: {name: body}, None for what is not there."""
    there = {each["Key"] for each in s3.client.list_objects_v2(Bucket=bucket).get("Contents", [])}
    have = {name: s3.client.get_object(Bucket=bucket, Key=name)["Body"].read().decode() if name in there else None
            for name in wanted}
    return [f"upstream has {name}: {body!r}" for name, body in have.items() if body != wanted[name]]


def test_remote_buckets_are_aistores(upstream_cluster, s3):
    cluster = upstream_cluster(s3, targets=2, environment={"AWS_ENDPOINT_URL": s3.url})
    cases = [json.loads(line.rstrip(",")) for line in (CONTRACTS / "remote.json").read_text().splitlines()
             if line.startswith("{")]
    assert len(cases) >= 180
    names = {"up": "contract-up", "other": "contract-other", "none": "contract-none", "into": "contract-into"}
    for name in ("up", "other"):
        s3.client.create_bucket(Bucket=names[name])
    found = {}
    for case in cases:
        change_upstream(s3, names["up"], case.get("upstream", {}))
        found[case["name"]] = replay(cluster, case, names) + problems_upstream(s3, names["up"], case.get("leaves", {}))
    assert not any(found.values()), "\n".join(f"{name}: {each}" for name, each in found.items() if each)


def test_a_wrong_answer_is_noticed():
    """The comparison itself: each kind of difference is one."""
    shape = {"n": "int", "s": "str", "d": "digits", "l": [{"x": "bool"}], "m": {"*": "float"}, "p": "positive",
             "t": "=text", "f": "=false"}
    right = {"n": 1, "s": "", "d": "12", "l": [{"x": True}], "m": {"a": 1.5}, "p": 1, "t": "text", "f": False, "more": None}
    assert problems_of(shape, right) == []
    for key, wrong in (("n", True), ("n", "1"), ("s", 1), ("d", 12), ("d", "1x"), ("l", [{"x": 0}]), ("l", {}), ("l", [{}]),
                       ("m", {"a": "1"}), ("m", []), ("p", 0), ("p", True), ("t", "Text"), ("t", 1), ("f", True), ("f", None)):
        assert len(problems_of(shape, right | {key: wrong})) == 1, (key, wrong)
    assert len(problems_of(shape, {})) == 8
