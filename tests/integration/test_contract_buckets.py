"""What AIStore's own clients were seen to ask about buckets, lists and nodes, and the shape of what AIStore answered.

The files in contracts/ hold one case a line. `do` is method, path, JSON body and headers; `want` the status and, where
they say something, the content type, headers, and the shape of the body: "str", "int", "float", "bool", "null",
"digits" (a number in a string), [shape] for a list whose entries all have it, {"key": shape} for an object that has at
least these keys, and "*" as a key for the shape of all others. {words} stand for names that a cluster gives.
`differs` says why the answer is not AIStore's, on purpose."""

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
    fits = {"str": isinstance(value, str), "bool": isinstance(value, bool), "null": value is None,
            "int": isinstance(value, int) and not isinstance(value, bool),
            "float": isinstance(value, (int, float)) and not isinstance(value, bool),
            "digits": isinstance(value, str) and value.isdigit()}
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
        if not re.fullmatch(pattern, answer.headers.get(name, "")):
            found.append(f"header {name}: {answer.headers.get(name)!r}")
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
    data = None if body is None else json.dumps(body).encode()
    # As both clients do: the type is named even when there is no body.
    return client.request(method, base + path, data, {"Content-Type": "application/json"} | (headers[0] if headers else {}),
                          expect=False)


def replay(cluster, case, names):
    case = filled(case, names)
    deadline = time.monotonic() + guarded(20)
    while True:
        answer = ask(cluster, case)
        if answer.status == case.get("until", answer.status) or time.monotonic() > deadline:
            break
        assert answer.status in (202, 206), answer
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
    for name in ("one.txt", "dir/two.txt"):
        assert cluster.put(bucket, name, b"12345678").status == 200
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


def test_a_wrong_answer_is_noticed():
    """The comparison itself: each kind of difference is one."""
    shape = {"n": "int", "s": "str", "d": "digits", "l": [{"x": "bool"}], "m": {"*": "float"}}
    right = {"n": 1, "s": "", "d": "12", "l": [{"x": True}], "m": {"a": 1.5}, "more": None}
    assert problems_of(shape, right) == []
    for key, wrong in (("n", True), ("n", "1"), ("s", 1), ("d", 12), ("d", "1x"), ("l", [{"x": 0}]), ("l", {}), ("l", [{}]),
                       ("m", {"a": "1"}), ("m", [])):
        assert len(problems_of(shape, right | {key: wrong})) == 1, (key, wrong)
    assert len(problems_of(shape, {})) == 5
