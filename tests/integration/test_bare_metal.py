"""deploy/cluster and deploy/drives without machines: inventories, checks, plans, units. tests/metal/run has the rest."""

import contextlib
import functools
import importlib.machinery
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import tomllib

import pytest
from harness import client
from harness.cluster import PROGRAMS, REPOSITORY
from harness.waiting import guarded, wait_until

DEPLOY = REPOSITORY / "deploy"
sys.path.insert(0, str(DEPLOY))
from metal import check, files, inventory, members  # noqa: E402
from metal.inventory import Wrong, parse  # noqa: E402


def script(name):
    """A program of deploy as a module."""
    loader = importlib.machinery.SourceFileLoader(f"deploy_{name}", str(DEPLOY / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.modules[loader.name] = module  # dataclasses look there
    loader.exec_module(module)
    return module


CLUSTER, DRIVES = script("cluster"), script("drives")


@functools.cache
def programs():
    return CLUSTER.Programs(PROGRAMS)


def host(number, *roles, **fields):
    return {"name": f"s{number}", "address": f"10.0.0.{number}", "roles": list(roles), **({"drives": 2} if "target" in roles else {}), **fields}


def three(**tables):
    return {"cluster": {"name": "train"}, "hosts": [host(number, "etcd", "proxy", "target") for number in (1, 2, 3)], **tables}


def wanted(table, name="s1"):
    found = parse(table)
    machine = next(each for each in found.hosts if each.name == name)
    return found, machine, files.wanted(found, machine, programs().digests, programs().settings)


# --- inventories -----------------------------------------------------------------------------------------------------

def test_the_inventory_of_the_document_is_one():
    text = (REPOSITORY / "docs/bare-metal.md").read_text()
    (block,) = re.findall(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    found = parse(tomllib.loads(block))
    assert [each.name for each in found.hosts] == ["s1", "s2", "s3"]
    assert found.hosts[0].drives == ("/srv/tarn/1", "/srv/tarn/2") and found.hosts[0].ssh_user == "admin"
    assert found.meta() == ["http://10.0.0.1:2379", "http://10.0.0.2:2379", "http://10.0.0.3:2379"]
    for key in (*inventory.PORTS, "cluster.etcd", "ssh.config", "public", "zone", "settings"):
        assert key in text, f"the document does not have {key}"
    for name in inventory.PORTS:
        assert str(inventory.PORTS[name]) in text


@pytest.mark.parametrize("change, says", [
    (lambda t: t.pop("hosts"), "hosts: want a table [[hosts]]"),
    (lambda t: t.update(host=[]), "host: there is no such key; did you mean hosts?"),
    (lambda t: t["cluster"].update(name="a b"), "cluster.name: want a name"),
    (lambda t: t["cluster"].update(etcd=["http://10.0.0.9:2379"]), "either URLs of an etcd of your own, or hosts"),
    (lambda t: t["cluster"].update(etcd="10.0.0.9"), "want URLs such as http://"),
    (lambda t: t["hosts"][0].update(role="proxy"), "host s1: role: there is no such key; did you mean roles?"),
    (lambda t: t["hosts"][0].update(roles=["gateway"]), "host s1: roles: want a list of etcd, proxy, target"),
    (lambda t: t["hosts"][1].update(address="s2.example.com"), "host s2: address: 's2.example.com': want the IP address"),
    (lambda t: t["hosts"][1].update(address="0.0.0.0"), "other machines cannot reach that"),
    (lambda t: t["hosts"][1].update(address="10.0.0.1"), "host s2: address: 10.0.0.1 is that of host s1"),
    (lambda t: t["hosts"][1].update(name="s1"), "name: s1 is that of host s1 as well"),
    (lambda t: t["hosts"][1].update(drives=0), "host s2: drives: want how many there are"),
    (lambda t: t["hosts"][1].pop("drives"), "host s2: drives: a target needs at least one"),
    (lambda t: t["hosts"][1].update(drives=["/srv/a", "/srv/a/b"]), "is inside of the other"),
    (lambda t: t["hosts"][1].update(drives=["/srv/a b"]), "want an absolute path"),
    (lambda t: t["hosts"][1].update(roles=["proxy"]), "only a target has drives"),
    (lambda t: t["hosts"][1]["roles"].remove("etcd"), "2 have the role etcd: want 1, 3 or 5"),
    (lambda t: [each["roles"].remove("etcd") for each in t["hosts"]], "a cluster of several machines needs the role etcd"),
    (lambda t: [each["roles"].remove("proxy") for each in t["hosts"]], "at least one needs the role proxy"),
    (lambda t: t["hosts"][0].update(zone="rack 1"), "host s1: zone: 'rack 1': want 1 to 63 letters"),
    (lambda t: t["hosts"][0].update(zone="x" * 64), "host s1: zone: "),
    (lambda t: t["hosts"][0].update(zone="rack-1"), "host s2: zone: other targets have one"),
    (lambda t: t["hosts"].append(host(4, "proxy", zone="rack-1")), "host s4: zone: only a target has a zone"),
    (lambda t: t.update(ports={"proxy": 80}), "ports.proxy: 80: want a number from 1024"),
    (lambda t: t.update(ports={"proxy": 8090}), "8090 is the port of proxy as well"),
    (lambda t: t.update(ports={"s3": 9000}), "ports.s3: there is no such key"),
    (lambda t: t.update(settings={"scrub.period": "72h; rm"}), "settings.scrub.period: '72h; rm': want a number"),
    (lambda t: t.update(settings={"scrub.period": "$(id)"}), "settings.scrub.period"),
    (lambda t: t.update(ssh={"user": "-oProxyCommand=id"}), "ssh.user: '-oProxyCommand=id' cannot be that"),
    (lambda t: t.update(ssh={"port": "22"}), "ssh.port: want a number"),
])
def test_what_is_wrong_in_an_inventory_is_said(change, says):
    table = three()
    change(table)
    with pytest.raises(Wrong) as error:
        parse(table)
    assert any(says in problem for problem in error.value.problems), error.value


def test_all_that_is_wrong_is_said_at_once(tmp_path):
    file = tmp_path / "cluster.toml"
    file.write_text('[cluster]\nname = "x y"\n[[hosts]]\nname = "s1"\naddress = "nowhere"\nroles = ["proxy"]\n')
    result = subprocess.run([DEPLOY / "cluster", "up", "--inventory", file], capture_output=True, text=True, timeout=guarded(60))
    assert result.returncode == 2 and result.stdout == ""
    assert len(result.stderr.splitlines()) == 3 and all(line.startswith(f"{file}: ") for line in result.stderr.splitlines()), result.stderr


@pytest.mark.parametrize("text, says", [("[cluster", "no TOML"), (None, "it cannot be read: No such file")])
def test_a_file_that_is_no_inventory(tmp_path, text, says):
    file = tmp_path / "cluster.toml"
    if text is not None:
        file.write_text(text)
    result = subprocess.run([DEPLOY / "cluster", "status", "--inventory", file], capture_output=True, text=True, timeout=guarded(60))
    assert result.returncode == 2 and says in result.stderr, result


def test_settings_go_to_the_programs_that_have_them():
    table = three(settings={"scrub": {"period": "72h"}, "default_bucket": "shards", "lease.term": "6s"})
    table["hosts"][0]["settings"] = {"target.weight": 2, "scrub.period": "24h"}
    _, _, found = wanted(table)
    proxy, target = found.files["/etc/tarn/proxy.conf"][1], found.files["/etc/tarn/target.conf"][1]
    assert "--set default_bucket=shards --set lease.term=6s" in proxy and "scrub" not in proxy
    assert "--set lease.term=6s --set scrub.period=24h --set target.weight=2" in target and "default_bucket" not in target
    keys = programs().settings
    assert check.unknown_settings(parse(table), keys) == []
    table["settings"]["scrub.perod"] = "1h"
    table["hosts"][0]["settings"]["default_bukket"] = "x"
    problems = check.unknown_settings(parse(table), keys)
    assert len(problems) == 2 and "settings.scrub.perod" in problems[0] and "host s1" in problems[1]


def test_targets_are_told_their_zone():
    table = three()
    for number, each in enumerate(table["hosts"]):
        each["zone"] = f"rack-{number % 2}"
    table["hosts"].append(host(4, "proxy"))  # a proxy needs none
    target = wanted(table)[2].files["/etc/tarn/target.conf"][1]
    assert " --zone rack-0 " in target and "--zone rack-1" in wanted(table, "s2")[2].files["/etc/tarn/target.conf"][1]
    assert "--zone" not in wanted(table)[2].files["/etc/tarn/proxy.conf"][1]
    assert "--zone" not in wanted(three())[2].files["/etc/tarn/target.conf"][1]


def test_a_long_grace_has_a_longer_stop():
    _, _, found = wanted(three(settings={"shutdown.grace": "10m"}))
    assert "TimeoutStopSec=660\n" in found.files["/etc/systemd/system/tarn-target.service.d/host.conf"][1]


def test_what_a_service_is_started_with_has_a_digest():
    """Another member of etcd concerns those who ask etcd, and no member that has begun."""
    first = {service.role: service.digest for service in wanted(three())[2].services}
    assert first == {service.role: service.digest for service in wanted(three())[2].services}
    other = three()
    other["hosts"][2] |= {"name": "s4", "address": "10.0.0.4"}
    second = {service.role: service.digest for service in wanted(other)[2].services}
    assert second["etcd"] == first["etcd"] and second["proxy"] != first["proxy"] and second["target"] != first["target"]
    found, machine, _ = wanted(three())
    third = files.wanted(found, machine, programs().digests | {"tarn-proxy": "another"}, programs().settings)
    assert [service.role for service in third.services if service.digest != first[service.role]] == ["proxy"]


def test_a_public_name_is_advertised_and_listened_for():
    table = three()
    table["hosts"][0]["public"] = "s1.example.com"
    options = wanted(table)[2].files["/etc/tarn/target.conf"][1]
    assert "--listen 0.0.0.0:8090 --internal 10.0.0.1:8190 --advertise http://s1.example.com:8090" in options


def test_clients_of_some_networks_are_sent_to_an_address_of_their_own():
    table = three()
    table["hosts"][0]["networks"] = {"10.1.0.0/16": "10.1.0.1", "fd00::/8": "fd00::1"}
    own = wanted(table)[2].files
    assert ("--listen 0.0.0.0:8090 --internal 10.0.0.1:8190 --advertise http://10.0.0.1:8090 "
            "--advertise 10.1.0.0/16=http://10.1.0.1:8090 --advertise fd00::/8=http://[fd00::1]:8090") in own["/etc/tarn/target.conf"][1]
    assert "=http" not in own["/etc/tarn/proxy.conf"][1]
    for networks in ({"10.1.0.1/16": "a"}, {"pods": "a"}, {"10.1.0.0/16": "http://a"}, {"10.1.0.0/16": 7}, "10.1.0.0/16"):
        table["hosts"][0]["networks"] = networks
        with pytest.raises(Wrong, match="host s1: networks"):
            parse(table)


# --- units -----------------------------------------------------------------------------------------------------------

def unit_folder(tmp_path, found):
    """The units of a host as files, with the programs that are built here in place of installed ones."""
    for path, (mode, text) in found.files.items():
        if path.startswith("/etc/systemd/system/"):
            file = tmp_path / path.removeprefix("/etc/systemd/system/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.replace("/usr/local/bin/", f"{PROGRAMS}/"))
    return sorted(tmp_path.glob("*.service"))


def test_systemd_takes_the_units(tmp_path):
    table = three()
    table["hosts"][0]["drives"] = ["/srv/tarn/1", "/data/fast-2"]
    units = unit_folder(tmp_path, wanted(table)[2])
    assert [unit.name for unit in units] == ["tarn-etcd.service", "tarn-proxy.service", "tarn-target.service"]
    assert "ReadWritePaths=-/data/fast-2\n" in (tmp_path / "tarn-target.service.d/host.conf").read_text()
    environment = os.environ | {"SYSTEMD_UNIT_PATH": f"{tmp_path}:"}
    result = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, timeout=guarded(120), env=environment)
    ours = [line for line in result.stderr.splitlines() if "tarn-" in line]
    assert result.returncode == 0 and not ours, result
    for unit in units:
        result = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--threshold=15", unit], capture_output=True, text=True,
                                timeout=guarded(120), env=environment)
        assert result.returncode == 0 and "Overall exposure level" in result.stdout, result.stdout


@pytest.mark.parametrize("path", ["/srv/tarn/1", "/data/fast-2", "/mnt/a.b_c+d"])
def test_names_of_mount_units_are_those_of_systemd(path):
    theirs = subprocess.run(["systemd-escape", "--path", "--suffix=mount", path], capture_output=True, text=True, check=True).stdout
    assert files.mount_unit(path) == theirs.strip()


def test_this_kernel_has_the_keys_of_sysctl():
    lines = [line for line in (DEPLOY / "systemd/tarn.sysctl").read_text().splitlines() if line and not line.startswith("#")]
    assert len(lines) > 5
    for line in lines:
        key, _, value = line.partition(" = ")
        assert key.startswith("-") and re.fullmatch(r"[\d ]+", value), line
        assert os.path.exists("/proc/sys/" + key[1:].replace(".", "/")), key


def status(method, url, body=None):
    """0 while nothing listens."""
    try:
        return client.request(method, url, body, expect=False).status
    except OSError:
        return 0


def test_the_programs_run_with_the_options_of_an_inventory(tmp_path):
    """One machine, without etcd: this one."""
    ports = {}
    with contextlib.ExitStack() as stack:
        for name in inventory.PORTS:
            probe = stack.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            ports[name] = probe.getsockname()[1]
    drives = [str(tmp_path / "d1"), str(tmp_path / "d2")]
    for drive in drives:
        os.mkdir(drive)
    table = {"cluster": {"name": "one"}, "ports": ports, "settings": {"scrub.period": "72h"},
             "hosts": [{"name": "s1", "address": "127.0.0.1", "roles": ["proxy", "target"], "drives": drives}]}
    found = wanted(table)[2].files
    secret = tmp_path / "secret"
    secret.write_text("5a" * 32 + "\n")
    secret.chmod(0o600)
    running = []
    try:
        for role in ("proxy", "target"):
            words = re.search(r'^TARN_OPTIONS="(.*)"$', found[f"/etc/tarn/{role}.conf"][1], re.MULTILINE)[1].split()
            log = stack.enter_context(open(tmp_path / f"{role}.log", "w"))
            command = [PROGRAMS / f"tarn-{role}", "--dir", tmp_path / role, "--secret-file", secret, *words]
            running.append(subprocess.Popen(command, stdout=log, stderr=log))
            url = f"http://127.0.0.1:{ports[role]}"
            wait_until(lambda url=url: status("GET", f"{url}/readyz") == 200, 60, f"{role} is ready")
        where = f"http://127.0.0.1:{ports['relay']}/v1/objects/data/name?provider=ais"
        wait_until(lambda: status("PUT", where, b"its bytes") == 200, 60, "an object is stored")
        assert client.request("GET", where, expect=False).body == b"its bytes"
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            assert process.wait(guarded(60)) == 0
        stack.close()


# --- checks and plans ------------------------------------------------------------------------------------------------

def look_at_this_machine(found, machine, shall, packages=()):
    result = subprocess.run(["sh", "-c", check.SCRIPT, "tarn", *check.words(found, machine, shall, packages)], capture_output=True, text=True,
                            timeout=guarded(60))
    assert result.returncode == 0, result
    return check.State(machine, shall, packages, programs(), result.stdout, time.time())


def test_the_check_sees_what_a_machine_lacks():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        table = three(ports={"target": port})
        table["hosts"][0] |= {"drives": ["/srv/tarn-no-such-drive", "/proc"]}
        found, machine, shall = wanted(table)
        state = look_at_this_machine(found, machine, shall, ["libc6", "no-such-package"])
    problems = "\n".join(state.problems(found))
    assert state.missing_packages == ["no-such-package"]
    assert f"port {port} (target) is taken" in problems
    assert "10.0.0.1 is not an address of it" in problems
    assert "/srv/tarn-no-such-drive is not mounted and does not exist" in problems
    assert "/proc is proc: want xfs or ext4" in problems and "/proc holds something else" in problems
    steps = "\n".join(state.steps())
    assert "install packages: no-such-package" in steps and "start tarn-target.service, now and at each boot" in steps
    assert "write programs to /usr/local/bin: tarn tarn-proxy tarn-target" in steps or os.path.exists("/usr/local/bin/tarn")
    assert abs(state.clock) < 30


def state_of(machine, shall, facts):
    """A machine that says these facts, and is well apart from them."""
    text = {"os": "debian\t12\tDebian 12", "machine": programs().machine, "init": "systemd", "time": str(time.time()), "user": "10001\ttarn",
            "room": str(1 << 40), "cluster": "train", "secret": "", "etcd": "", "address": machine.address, "end": ""} | facts
    return check.State(machine, shall, [], programs(), "".join(f"{kind}\t{value}\n" for kind, value in text.items()), time.time())


@pytest.mark.parametrize("facts, says", [
    ({"os": "debian\t11\tDebian GNU/Linux 11 (bullseye)"}, "this is Debian GNU/Linux 11 (bullseye): want Debian 12"),
    ({"init": "runit"}, "its first process is runit: want systemd"),
    ({"machine": "riscv64"}, "it is riscv64, the programs are for"),
    ({"cluster": "other"}, "it belongs to the cluster other"),
    ({"user": "\tbob"}, "user id 10001, which drives belong to, is that of bob"),
    ({"room": "1000"}, "has 0 MiB free"),
    ({"drive": "/srv/tarn/1\txfs\t8:1\troot:0\tyes\tro,noatime"}, "/srv/tarn/1 is mounted read-only"),
    ({"drive": "/srv/tarn/1\tntfs\t8:1\troot:0\tyes\trw"}, "/srv/tarn/1 is ntfs: want xfs or ext4"),
    ({"drive": "/srv/tarn/1\txfs\t8:1\tbob:1000\tyes\trw", "entry": "/srv/tarn/1\t.tarn"}, "chown -R 10001 /srv/tarn/1"),
    ({"drive": "/srv/tarn/1\txfs\t8:1\troot:0\tyes\trw", "entry": "/srv/tarn/1\tphotos"}, "/srv/tarn/1 holds something else (photos)"),
    ({"drive": "/srv/tarn/1\txfs\t8:1\troot:0\tyes\trw\ndrive\t/srv/tarn/2\txfs\t8:1\troot:0\tyes\trw"},
     "/srv/tarn/2 and /srv/tarn/1 are the same file system"),
    ({"nodrive": "/srv/tarn/1\texists"}, "/srv/tarn/1 is not mounted: mount it"),
])
def test_what_stands_against_a_machine_is_said(facts, says):
    found, machine, shall = wanted(three())
    problems = list(state_of(machine, shall, facts).problems(found))
    assert any(says in problem for problem in problems), problems


def test_a_drive_that_a_target_had_may_be_away():
    found, machine, shall = wanted(three())
    state = state_of(machine, shall, {"nodrive": "/srv/tarn/1\texists", "options": "--drive /srv/tarn/1 --drive /srv/tarn/2"})
    assert list(state.problems(found)) == [] and "/srv/tarn/1 is not mounted: the target goes on without it" in state.warnings()


def test_a_drive_of_another_machine_is_known_before_its_user_is_there():
    found, machine, shall = wanted(three())
    facts = {"drive": "/srv/tarn/1\txfs\t8:1\tUNKNOWN:10001\tyes\trw", "entry": "/srv/tarn/1\t.tarn"}
    assert list(state_of(machine, shall, facts | {"user": "\t"}).problems(found)) == []
    (problem,) = state_of(machine, shall, facts | {"user": "998\t"}).problems(found)
    assert "/srv/tarn/1 belongs to UNKNOWN, id 10001: chown -R 998 /srv/tarn/1" in problem


def test_machines_must_have_one_secret():
    found, _, shall = wanted(three())
    states = [state_of(machine, shall, {"secret": secret}) for machine, secret in zip(found.hosts, ("a", "a", "b"))]
    (problem,) = check.problems_of_all(found, states)
    assert "is not the same on all machines: s1, s2 but s3" in problem
    lost = [state_of(machine, shall, {"etcd": "s1=x"}) for machine in found.hosts]
    (problem,) = check.problems_of_all(found, lost)
    assert "no machine has /etc/tarn/cluster.secret: put it back" in problem


def answer(*numbers):
    return json.dumps({"members": [{"ID": str(number), "name": f"s{number}", "peerURLs": [f"http://10.0.0.{number}:2380"],
                                    "clientURLs": [f"http://10.0.0.{number}:2379"]} for number in numbers]})


def members_of(table, running, with_data, live=(1, 2, 3)):
    found = parse(table)
    noted = ",".join(f"s{number}=http://10.0.0.{number}:2380" for number in live)
    states = {}
    for machine in found.hosts:
        number = int(machine.name[1:])
        facts = ({"etcd": noted} if number in with_data else {}) | ({"members": answer(*live)} if number in running else {})
        states[machine.name] = state_of(machine, wanted(table, machine.name)[2], facts)
    return members.plan(found, states)


def test_members_of_etcd_are_replaced_one_by_one():
    other = three()
    other["hosts"][2] |= {"name": "s4", "address": "10.0.0.4"}
    assert members_of(three(), (), ()) == (members.Plan(), [])  # a new cluster
    assert members_of(three(), (1, 2, 3), (1, 2, 3)) == (members.Plan(), [])
    assert members_of(three(), (), (1, 2, 3)) == (members.Plan(), [])  # all are stopped
    plan, problems = members_of(other, (1, 2), (1, 2))
    assert plan.steps() == ["remove the member s3 from etcd", "add s4 to etcd"] and plan.ask.name == "s1" and not problems
    plan, problems = members_of(three(), (1, 2), (1, 2))  # the same address, without its data
    assert plan.steps() == ["remove the member s3 from etcd", "add s3 to etcd"] and not problems
    plan, problems = members_of(other, (), (1, 2))
    assert not plan.steps() and "start it there first" in problems[0]
    plan, problems = members_of(other, (1,), (1, 2))
    assert not plan.steps() and "only while a majority runs" in problems[0]


def test_a_host_that_is_out_of_reach_is_named(tmp_path):
    if shutil.which("ssh") is None:
        pytest.fail("there is no ssh: deploy/install-deps --test")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]  # bound, and not listened at
        file = tmp_path / "cluster.toml"
        file.write_text(f'[cluster]\nname = "one"\n[ssh]\nport = {port}\n'
                        '[[hosts]]\nname = "s1"\naddress = "127.0.0.1"\nroles = ["proxy", "target"]\ndrives = 2\n')
        words = [DEPLOY / "cluster", "up", "--plan", "--inventory", file, "--programs", PROGRAMS]
        result = subprocess.run(words, capture_output=True, text=True, timeout=guarded(60))
    assert result.returncode == 1 and "s1: ssh: connect to host 127.0.0.1" in result.stderr and "Nothing was changed" in result.stderr, result


# --- drives ----------------------------------------------------------------------------------------------------------

def drives(*words):
    return subprocess.run([DEPLOY / "drives", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=guarded(60))


@pytest.mark.parametrize("words, says", [
    (["format", "no-such-device"], "there is no device no-such-device"), (["format", "/dev/null"], "there is no device /dev/null"),
    (["adopt", "no-such-device"], "there is no device"), (["release", "/srv/tarn/no-such"], "is no place of a drive")])
def test_what_is_no_drive_is_refused(words, says):
    result = drives(*words)
    assert result.returncode == 1 and (says in result.stderr or "run it as root" in result.stderr) and result.stdout == "", result


def test_words_of_drives():
    assert drives().returncode == 2 and drives("erase", "sdb").returncode == 2
    assert "--wipe" in drives("format", "--help").stdout


def test_a_place_must_be_free(tmp_path):
    (tmp_path / "something").touch()
    for path, says in ((tmp_path, "is there and not empty"), ("/proc", "something is mounted at"), ("relative", "want an absolute path"),
                       ("/a/../b", "want an absolute path")):
        with pytest.raises(DRIVES.Failed, match=says):
            DRIVES.check_place(DRIVES.Path(path))


def test_devices_of_this_machine_are_listed():
    """Devices that are mounted are in use."""
    for device in DRIVES.devices():
        assert device.path.startswith("/dev/") and device.size > 0
        if any(point.startswith("/") for point in device.mounts):
            assert DRIVES.obstacles(device, wipe=True) != []
