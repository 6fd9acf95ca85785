"""Steps that change the release: another image, more and fewer targets, other drives, another machine."""

import json
import re

import yaml
from chart_site import NODES, empty, require, say
from cluster import NEXT_TAG, STATE, TAG, wait_for

TARGETS = "Add and remove targets"
DRIVES = "Add drives"
DRIVE = "Replace a drive"
MACHINE = "Replace a machine"


def volumes_of(site, machine, suffix="", names=("d0", "d1", "tarn-state")):
    """Entries of localVolumes.volumes for directories that are made on this machine."""
    site.make_disks(machine, *(name + suffix for name in names))
    return [{"kind": "state" if name == "tarn-state" else "drive", "node": f"n{machine}", "path": f"{site.disks}/{name}{suffix}",
             "size": "1Gi" if name == "tarn-state" else "1Ti"} for name in names]


def upgrade(site):
    with site.load("upgrade to another image while a target is deleted, and roll back"), site.logs_of_nodes() as logs:
        last_pod = f"tarn-target-{NODES - 1}"
        first, last = site.id_of("tarn-target-0"), site.id_of(last_pod)
        with site.document_meanwhile("Upgrade", "helm upgrade", tag=NEXT_TAG), site.kept_away(last_pod):
            wait_for(lambda: site.state_of(last) == "down", 120, "the last target is updated first", every=0.2)
            site.kubectl("delete", "pod/tarn-target-0", "--wait=false")
            wait_for(lambda: "wait-safe: waiting" in logs["tarn-target-0"].read_text(), 50, "the first target waits for it")
        site.rolled_out()
        site.settle()
        hook = [line for line in logs["tarn-target-0"].read_text().splitlines() if line.startswith("wait-safe: ")]
        waited = [line for line in hook if line.startswith("wait-safe: waiting") and last in line]
        require(waited, f"tarn-target-0 did not wait for {last}: {hook}")
        say(f"  tarn-target-0: {waited[0]}")
        # Kubernetes may cut off the last lines of a pod that ends: then the log of a proxy has that it was told so.
        proxies = [log.read_text() for log in logs.values()] + [site.kubectl("logs", proxy) for proxy in site.proxies()]
        told = [line for line in hook if line.startswith("wait-safe: may stop")]
        told += re.findall(f"asked whether nodes may stop nodes={first} safe=true.*", "\n".join(proxies))
        require(told, f"tarn-target-0 was not told that it may stop: {hook}")
        say(f"  tarn-target-0: {told[-1]}")
        require(site.images_of_tarn() == {f"localhost/tarn:{NEXT_TAG}"}, f"pods have {site.images_of_tarn()}")
        site.require_proxy_everywhere()
        site.document("Upgrade", "helm rollback")
        site.rolled_out()
        site.settle()
        require(site.images_of_tarn() == {f"localhost/tarn:{TAG}"}, f"pods have {site.images_of_tarn()}")
        site.require_proxy_everywhere()


def scale(site):
    with site.load("add a target, and take it out again"):
        more = {"localVolumes": {"volumes": site.values()["localVolumes"]["volumes"] + volumes_of(site, 1, "-more")}}
        site.document(TARGETS, "helm upgrade tarn helm/tarn -n tarn --reuse-values --set targets.replicas=4", values=more)
        site.rolled_out()
        site.settle()
        require(len(site.members("target")) == NODES + 1, "the target did not join")
        added = json.loads(site.document(TARGETS, "kubectl -n tarn exec"))["id"]
        site.document(TARGETS, "tarn node decommission", target=added)
        site.document(TARGETS, "helm upgrade tarn helm/tarn -n tarn --reuse-values --set targets.replicas=3", "kubectl -n tarn delete pvc")
        site.rolled_out()
        site.settle()
        require(added not in [node["id"] for node in site.members()], "the target is a member still")
        require(f"tarn-target-{NODES}" not in site.kubectl("get", "pods,pvc", "-o", "name"), "the pod or its claims are there still")


def replace_drive(site):
    """Replaces a drive; the new one is the emptied directory of the machine."""
    pod = f"tarn-target-{NODES - 1}"
    with site.load("replace a drive"):
        lost = site.id_of(pod)
        site.document(DRIVE, "tarn drive detach", target=lost)
        claim = site.kubectl("get", "pvc", f"drive-d1-{pod}", "-o", "jsonpath={.spec.volumeName}")
        empty(site.disk(site.machine_of(pod), site.kubectl("get", "pv", claim, "-o", "jsonpath={.spec.local.path}")))
        site.document(DRIVE, "kubectl -n tarn delete pod")
        site.rolled_out()
        site.document(DRIVE, "tarn drive attach", target=lost)
        site.settle()
        # A drive that is attached is filled in the background.
        site.wait_redundant()
        say("  " + site.document(DRIVE, "tarn redundancy").strip().replace("\n", "\n  "))


def add_drives(site):
    with site.load("a third drive for each target"):
        values = site.values()
        drives = [*values["targets"]["drives"], {"name": "d2", "size": "1Ti", "storageClass": "tarn-local"}]
        volumes = values["localVolumes"]["volumes"] + [each for number in range(1, NODES + 1) for each in volumes_of(site, number, names=["d2"])]
        (site.folder / "DRIVES.yaml").write_text(yaml.safe_dump({"targets": {"drives": drives}, "localVolumes": {"volumes": volumes}}))
        before = {pod: site.id_of(pod) for pod in (f"tarn-target-{number}" for number in range(NODES))}
        site.document(DRIVES)
        site.rolled_out()
        site.settle()
        require({pod: site.id_of(pod) for pod in before} == before, "targets have other ids than before")
        shown = json.loads(site.tarn("drive", "ls", "--json"))
        require([row["drive"] for row in shown].count("/drives/d2") == NODES and {row["state"] for row in shown} == {"up"}, shown)


def reinstall(site):
    say("uninstall, and install again on the same volumes")
    kept = site.tarn("ls", "safe").splitlines()
    file = STATE / "values.yaml"
    file.write_text(yaml.safe_dump(site.values()))
    site.helm("uninstall", "tarn", "--wait", "--timeout", "10m")
    wait_for(lambda: not site.kubectl("get", "pods", "-l", "app.kubernetes.io/instance=tarn,app.kubernetes.io/component!=test", "-o", "name"),
             300, "all pods are gone")
    require("tarn-secret" in site.kubectl("get", "secrets", "-o", "name"), "the secret is gone")
    site.helm("install", "tarn", site.chart, "-f", file, "--wait", "--timeout", "10m")
    site.wait_proxies()
    site.settle()
    require(site.tarn("ls", "safe").splitlines() == kept, "objects are missing")
    say(f"  {site.test()}")


def replace_machine(site):
    """The machine of a target dies for good. One that was not there before takes its place."""
    pod = f"tarn-target-{NODES - 1}"
    machine, lost = site.machine_of(pod), site.id_of(pod)
    with site.load("replace a machine", without=machine):
        new = site.cluster.add_node()
        site.cluster.cut(int(machine[1:]))
        wait_for(lambda: "NotReady" in site.cluster.kubectl("get", "node", machine, "--no-headers"), 120, "the machine is missed")
        kept = [volume for volume in site.values()["localVolumes"]["volumes"] if volume["node"] != machine]
        volumes = kept + volumes_of(site, new, names=("d0", "d1", "d2", "tarn-state"))
        (site.folder / "VOLUMES.yaml").write_text(yaml.safe_dump({"localVolumes": {"volumes": volumes}}))
        site.document(MACHINE, "kubectl delete node", "kubectl -n tarn delete pvc", "helm upgrade", "kubectl -n tarn delete pod", machine=machine)
        for name in ("statefulset/tarn-target", "deployment/tarn-proxy"):  # a member of etcd is gone for good
            site.kubectl("rollout", "status", name, "--timeout=300s")
        require(site.machine_of(pod) == f"n{new}" and site.id_of(pod) != lost, f"{pod} is on {site.machine_of(pod)}")
        site.document(MACHINE, "tarn node remove-unsafe", target=lost)
        site.wait_proxies()
        site.settle()
        require(len(site.members("target")) == NODES, site.tarn("node", "ls"))
        site.wait_redundant()
