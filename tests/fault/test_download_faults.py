"""Targets, proxies and web servers that die while files are downloaded."""

import pytest
from disks import seeded
from harness import attribute
from harness.downloads import PATH, begin, call, counts, ended, has_ended, show
from harness.upstreams import WebServer, stand_still, upstream_cluster
from harness.waiting import wait_until

MIB = 1 << 20


def files(server, rng, count, size):
    server.objects |= {f"f-{i:02}": rng.randbytes(size + i) for i in range(count)}
    server.flaws |= dict.fromkeys(server.objects, stand_still(server.goes_on))
    return server.objects


def received(cluster, job, proxy="p1"):
    answer = call(cluster, "GET", PATH, proxy, id=job)
    return sum(int(each["downloaded"]) for each in answer.json()["current_tasks"]) if answer.status == 200 else 0


@pytest.mark.gate("A1, of a download")
def test_others_fetch_what_a_dead_target_was_fetching(make_cluster, flawed, seed):
    rng = seeded(seed, "target")
    bodies = files(flawed, rng, 12, MIB)
    cluster = upstream_cluster(make_cluster, flawed)
    job = begin(cluster, "range", "data", template=f"{flawed.url}/b/f-{{00..11}}", limits={"connections": rng.randint(1, 3)})
    owners = sorted({cluster.owner("data", name) for name in bodies})
    wait_until(lambda: received(cluster, job) >= len(owners) * MIB // 2, 60, "bytes come to each")
    dies = rng.choice(owners)
    cluster.kill(dies)
    print(f"injected: kill -9 of {dies} at {received(cluster, job)} bytes")
    assert not has_ended(show(cluster, job))
    flawed.goes_on.set()
    status = ended(cluster, job, 180)
    assert not status["aborted"] and status["error"] == "", status
    assert counts(status) == {"finished": 12, "skipped": counts(status)["skipped"], "error": 0, "scheduled": 12, "total": 12}, status
    cluster.start(dies)
    wait_until(lambda: all(cluster.get("data", name).status == 200 for name in bodies), 60, "all are here")
    cluster.assert_bodies("data", bodies)
    wait_until(lambda: len(attribute.paths(cluster.all_drives())) == len(bodies), 60, "what the dead target had begun is gone")


@pytest.mark.gate("A1, of a download")
def test_a_target_killed_before_a_commit_keeps_no_half_object(make_cluster, flawed, seed):
    rng = seeded(seed, "commit")
    bodies = files(flawed, rng, 6, 100_000)
    flawed.goes_on.set()
    cluster = upstream_cluster(make_cluster, flawed, targets=1)
    cluster.kill("t1")
    hit = rng.randint(1, 6)
    cluster.start("t1", fail_points=f"download.before_commit=kill@{hit}")
    job = begin(cluster, "range", "data", template=f"{flawed.url}/b/f-{{00..05}}", limits={"connections": 1})
    cluster.wait_exit("t1", 60)
    print(f"injected: kill at commit {hit}")
    cluster.start("t1")
    status = ended(cluster, job, 120)
    assert counts(status)["finished"] == 6 and counts(status)["error"] == 0, status
    cluster.assert_bodies("data", bodies)
    wait_until(lambda: len(attribute.paths(cluster.all_drives())) == len(bodies), 60, "nothing half is left")


@pytest.mark.gate("A3, of a download")
def test_another_proxy_goes_on_with_a_download(make_cluster, flawed, seed):
    rng = seeded(seed, "proxy")
    bodies = files(flawed, rng, 8, MIB)
    cluster = upstream_cluster(make_cluster, flawed, targets=2, meta="etcd", proxies=2)
    job = begin(cluster, "range", "data", template=f"{flawed.url}/b/f-{{00..07}}", limits={"connections": rng.randint(1, 3)})
    wait_until(lambda: received(cluster, job, "p2") > 0, 60, "another proxy knows how far it is")
    cluster.kill("p1")
    print("injected: kill -9 of the proxy that drives the job")
    flawed.goes_on.set()

    def status():
        answer = call(cluster, "GET", PATH, "p2", id=job)
        return answer.json() if answer.status == 200 and has_ended(answer.json()) else None

    done = wait_until(status, 180, "the job ends by the other proxy")
    assert counts(done)["finished"] == 8 and counts(done)["error"] == 0 and not done["aborted"], done
    cluster.start("p1")
    cluster.assert_bodies("data", bodies)


@pytest.mark.gate("A1, of a download")
def test_a_web_server_that_goes_in_the_middle_of_files(make_cluster, tmp_path, seed):
    rng = seeded(seed, "server")
    server = WebServer(tmp_path / "web", rate="64k")
    bodies = server.fill({f"f-{i:02}": rng.randbytes(8 * MIB + 1000 * i) for i in range(4)})
    with server:
        cluster = upstream_cluster(make_cluster, server, targets=2)
        job = begin(cluster, "range", "data", template=f"{server.url}/f-{{00..03}}")
        wait_until(lambda: received(cluster, job) > rng.randint(0, MIB // 2), 60, "bytes come")
        server.stop()
        print(f"injected: the server goes at {received(cluster, job)} bytes")
        assert not has_ended(show(cluster, job))
        config = server.directory / "nginx.conf"
        config.write_text(config.read_text().replace("limit_rate 64k", "limit_rate 0"))
        server.start()
        status = ended(cluster, job, 120)
        assert counts(status)["finished"] == 4 and counts(status)["error"] == 0, status
        cluster.assert_bodies("data", bodies)
