"""Downloads as AIStore's clients ask for them."""

from harness.waiting import wait_until

PATH = "/v1/download"


def call(cluster, method, path=PATH, proxy=None, **message):
    return cluster.call(proxy, method, path, message)


def post(cluster, kind, bucket, **fields):
    provider, _, name = bucket.rpartition("://")
    return call(cluster, "POST", type=kind, bucket={"name": name, "provider": provider or "ais"}, **fields)


def begin(cluster, kind, bucket, **fields):
    """The id of a download."""
    answer = post(cluster, kind, bucket, **fields)
    assert answer.status == 200, answer
    assert answer.json()["id"].startswith("dnl-")
    return answer.json()["id"]


def show(cluster, job, **more):
    answer = call(cluster, "GET", id=job, **more)
    assert answer.status == 200, answer
    return answer.json()


def has_ended(status):
    return not status["finished_time"].startswith("0001")


def ended(cluster, job, seconds=60):
    """The status of a download when it has ended."""
    wait_until(lambda: has_ended(show(cluster, job)), seconds, f"download {job} ends")
    return show(cluster, job)


def counts(status):
    return {key: status[f"{key}_cnt"] for key in ("finished", "skipped", "error", "scheduled")} | {"total": status["total"]}


def fetched(cluster, kind, bucket, seconds=60, **fields):
    return ended(cluster, begin(cluster, kind, bucket, **fields), seconds)
