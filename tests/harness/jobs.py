"""Jobs as AIStore's clients ask for them: begin, look, wait, stop."""

import urllib.parse

from harness.waiting import wait_until

JSON = {"Content-Type": "application/json"}


def query(cluster, what, proxy=None, **message):
    return cluster.call(proxy, "GET", f"/v1/cluster?what={what}", message)


def status(cluster, job, proxy=None):
    answer = query(cluster, "status", proxy, id=job)
    assert answer.status == 200, answer
    return answer.json()


def ended(cluster, job, seconds=30):
    """The status of a job when it has ended."""
    wait_until(lambda: status(cluster, job)["end_time"] != 0, seconds, f"job {job} ends")
    return status(cluster, job)


def snaps(cluster, job, proxy=None):
    """The report of each target that has a part in the job."""
    answer = query(cluster, "qryxstats", proxy, id=job)
    assert answer.status == 200, answer
    return {target: found[0] for target, found in answer.json().items() if found}


def total(found, counter):
    return sum(int(snap["stats"][counter]) for snap in found.values())


def finished(cluster, answer):
    """(objects, bytes) of the job that an action began, when it has ended well."""
    assert answer.status == 200, answer
    end = ended(cluster, answer.text)
    assert not end["err"], end["err"]
    found = snaps(cluster, answer.text)
    return total(found, "loc-objs"), total(found, "loc-bytes")


def handled(cluster, answer):
    """How many objects the job has handled that an action began, when all of its parts are idle."""
    assert answer.status == 200, answer
    return total(idle(cluster, answer.text), "loc-objs")


def stop(cluster, **value):
    return cluster.call(None, "PUT", "/v1/cluster", {"action": "stop", "name": "", "value": value})


def start(cluster, kind, **value):
    """The id of a job that begins by its kind alone."""
    answer = cluster.call(None, "PUT", "/v1/cluster", {"action": "start", "value": {"Kind": kind} | value})
    assert answer.status == 200, answer
    return answer.text


def told(cluster, what):
    """What the cluster says of `what`, Tarn's own queries without a body."""
    answer = cluster.call(None, "GET", f"/v1/cluster?what={what}")
    assert answer.status == 200, answer
    return answer.json()


def idle(cluster, job, seconds=30):
    """The parts of a job when all of them are idle, which is how clients wait for a copy-listrange."""
    wait_until(lambda: all(snap["is_idle"] for snap in snaps(cluster, job).values()), seconds, f"job {job} is idle")
    return snaps(cluster, job)


def to_bucket(cluster, source, action, goal, value=None):
    """The raw answer of copy-bck or move-bck."""
    uname = urllib.parse.quote(goal if "/" in goal else f"ais/@#/{goal}/", safe="")
    return cluster.call(None, "POST", f"/v1/buckets/{source}?provider=ais&bck_to={uname}", {"action": action, "name": "", "value": value})


def delete_many(cluster, bucket, **value):
    """The raw answer of delete-listrange."""
    return cluster.bucket_action("DELETE", bucket, "delete-listrange", value)


def copy_many(cluster, bucket, goal, **value):
    """The raw answer of copy-listrange."""
    tobck = {"tobck": {"name": goal, "provider": "ais", "namespace": None}}
    return cluster.bucket_action("POST", bucket, "copy-listrange", tobck | value)
