"""Steps that install the chart with its profiles, and change the values of the release that stays."""

import json
import re
import secrets
import sys

import document
import release
from chart_site import IMAGES, NODES, PROXY_PORT, STORE_URL, Site, merge, require, say
from cluster import STATE, TAG, wait_for
from harness.go_programs import go_program
from harness.helm import CHART

LAPTOP = "Try it on a laptop"
DRIVES = "Install on local drives"
SETTINGS = "Create buckets, change settings"
UPSTREAM = "Read through to cloud storage"
ZONES = "Spread over zones"
# For machines that share two processors, and for steps that end soon.
SMALL = {
    "proxies": {"shutdownGraceSeconds": 10, "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}}},
    "targets": {"shutdownGraceSeconds": 10, "stopWaitSeconds": 60, "resources": {"requests": {"cpu": "10m", "memory": "128Mi"}}},
    "etcd": {"resources": {"requests": {"cpu": "10m", "memory": "64Mi"}}}}
# The release that all further steps are about.
STORE = {
    "buckets": [{"name": "safe", "copies": 2}],
    # A proxy a machine, as of this chart's profile. One that died leaves the cluster map by itself, here sooner than after 15 minutes.
    "proxies": {"replicas": NODES, "settings": {"proxy.out_after": "30s"}, "service": {"type": "NodePort", "nodePort": PROXY_PORT}},
    "targets": {"antiAffinity": "preferred"}}  # there may be one more than machines


def of_this_chart(chart):
    """Values that an earlier chart may not know."""
    return {"test": {"deletePod": True}} if chart == CHART else {}


# --- profiles, for a moment ------------------------------------------------------------------------------------------

def make_default_class(site, count):
    """A storage class that is the default one, with volumes of the first machine."""
    names = [f"v{number}" for number in range(count)]
    site.make_disks(1, *names)
    labels = {"test": "laptop"}
    objects = [{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "kubernetes.io/no-provisioner",
                "metadata": {"name": "standard", "labels": labels, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
                "volumeBindingMode": "WaitForFirstConsumer"}]
    where = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}
    objects += [{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"laptop-{name}", "labels": labels},
                 "spec": {"capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "standard",
                          "local": {"path": f"{site.disks}/{name}"},
                          "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [where]}]}}}} for name in names]
    site.cluster.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))


def laptop(cluster, commands):
    say("the profile of a laptop, on volumes of the default storage class of one machine")
    site = Site(cluster, commands, "laptop")
    make_default_class(site, 7)
    text = secrets.token_hex(100_000)
    (site.folder / "FILE").write_text(text)
    site.document(LAPTOP, "kubectl create namespace tarn", "kubectl label namespace tarn")
    site.document(LAPTOP, "helm install", values=IMAGES)
    site.settle()
    say(f"  {site.test()}")
    nodes = site.document(LAPTOP, "tarn node ls")
    require(nodes.count(" target  up") == 3 and nodes.count(" proxy   up") == 1, nodes)
    site.document(LAPTOP, "kubectl -n tarn port-forward", "curl -T FILE")
    require(site.tarn("cat", "data/FILE") == text, "the object that came by the tunnel has other bytes")
    site.remove()
    cluster.kubectl("delete", "storageclass,pv", "-l", "test=laptop", "--wait=false")


def hostpath(cluster, commands):
    say("the profile of directories of machines, in a privileged namespace")
    site = Site(cluster, commands, "hostpath")
    site.copy_profile("hostpath", merge(IMAGES, SMALL))
    for number in range(1, NODES + 1):
        site.make_disks(number, "d0", "d1", "tarn-state", owner=10001)
        site.make_disks(number, "tarn-etcd")
    site.document(DRIVES, "kubectl create namespace tarn", "kubectl label namespace tarn", "kubectl label node",
                  "helm install tarn helm/tarn -n tarn -f helm/tarn/values-hostpath.yaml")
    site.rolled_out()
    site.settle()
    require(len(site.members("target")) == NODES and site.tarn("drive", "ls").count(" /drives/d") == 2 * NODES, site.tarn("drive", "ls"))
    where = site.redirected()
    require(re.match(r"http://10\.250\.0\.\d:8080/", where), f"a client outside is redirected to {where}")
    file, url = site.folder / "sent", f"http://10.250.0.2:{PROXY_PORT}/data/sent"
    file.write_text(secrets.token_hex(100_000))
    cluster.outside("curl", "-fsS", "-L", "-T", file, url)
    require(cluster.outside("curl", "-fsS", "-L", url) == file.read_text(), "a client outside reads other bytes")
    site.remove()


# --- the release that stays ------------------------------------------------------------------------------------------

def install(site):
    say("the profile of local volumes, in a namespace that enforces Pod Security restricted")
    site.copy_profile("local-pv", merge(IMAGES, SMALL, STORE, of_this_chart(site.chart),
                                        {} if site.chart == CHART else {"image": {"tag": release.IMAGE}}))
    for number in range(1, NODES + 1):
        site.make_disks(number, "d0", "d1", "tarn-state", "tarn-etcd")
    site.document(LAPTOP, "kubectl create namespace tarn", "kubectl label namespace tarn")
    refused = site.kubectl("run", "plain", f"--image=localhost/tarn:{TAG}", check=False)
    require(not refused and not site.kubectl("get", "pods", "-o", "name"), "the namespace accepts a pod that is not restricted")
    notes = site.document(DRIVES, "helm install tarn helm/tarn -n tarn -f helm/tarn/values-local-pv.yaml")
    require("helm -n store test tarn" in notes, notes)
    site.rolled_out()
    site.settle()
    require(sorted(node["role"] for node in site.members()) == ["proxy"] * NODES + ["target"] * NODES, "not all nodes are members")
    require("safe" in site.tarn("bucket", "ls"), "the bucket is not there")
    places = site.kubectl("get", "pods", "-l", "app.kubernetes.io/component=target", "-o", "jsonpath={.items[*].spec.nodeName}").split()
    require(len(set(places)) == NODES, f"targets are on {places}")
    if site.chart == CHART:
        site.require_proxy_everywhere()


def test_inside(site):
    say("helm test: redirects to names of pods, from a pod")
    log = site.test()
    require(".tarn-target.store.svc.cluster.local:8080" in log, log)
    say(f"  {log}")


def reach_from_outside(site):
    """The same cluster with addresses for both sides; targets are replaced one after the other for it."""
    secret = site.kubectl("get", "secret", "tarn-secret", "-o", "jsonpath={.data}")
    before = {pod: site.id_of(pod) for pod in (f"tarn-target-{number}" for number in range(NODES))}
    say("upgrade: node ports for clients outside, names of pods for pods")
    # Clients outside that reach a proxy on the machine of their node port appear as the bridge of its pods.
    bridges = [{"cidr": f"10.244.{number}.1/32", "url": "http://$(HOST_IP):3100$(POD_INDEX)"} for number in range(1, NODES + 2)]
    networks = {"targets": {"publicAddress": {"networks": [{"cidr": "10.244.0.0/16"}, *bridges]}}}
    site.document("Let clients outside reach targets", "helm upgrade", values=networks)
    site.rolled_out()
    site.settle()
    require({pod: site.id_of(pod) for pod in before} == before, "targets have other ids than before")
    require(site.kubectl("get", "secret", "tarn-secret", "-o", "jsonpath={.data}") == secret, "the upgrade made another secret")
    with site.load("both sides at once: the client outside by node ports, helm test by names of pods"):
        for number in range(NODES):
            where = site.redirected(number + 1)
            require(re.match(r"http://10\.250\.0\.\d:3100\d/", where), f"a client outside is redirected to {where}")
        for number in range(30):
            where = site.cluster.outside("curl", "-sS", "-o", "/dev/null", "-w", "%{redirect_url}",
                                         f"http://10.250.0.{number % NODES + 1}:{PROXY_PORT}/data/name-{number}")
            require(re.match(r"http://10\.250\.0\.\d:3100\d/", where), f"a client outside is redirected to {where}")
        log = site.test()
        hosts = re.findall(r"\S+:\d+\b", log.partition("objects at ")[2])
        require(hosts and all(host.endswith(".tarn-target.store.svc.cluster.local:8080") for host in hosts), f"a pod is redirected to {hosts}")
        say(f"  from a pod: {log}")


def upgrade_from_release(site):
    """From another chart and other programs to these, back, and here for good."""
    if site.chart == CHART:
        say("there is no earlier release to upgrade from")
        return
    with site.load("upgrade from an earlier release, roll back, and upgrade again"):
        site.use_chart(CHART)
        for verb in ("helm upgrade", "helm rollback", "helm upgrade"):
            site.document("Upgrade", verb, tag=TAG, values=of_this_chart(CHART))
            site.rolled_out()
            site.settle()
            images = site.images_of_tarn()
            require(images == {f"localhost/tarn:{TAG}" if verb == "helm upgrade" else f"localhost/tarn:{release.IMAGE}"}, f"{verb}: {images}")


def change_settings(site):
    """A setting, credentials for an upstream, and zones, for all of which each target is replaced once."""
    keys = secrets.token_hex(8), secrets.token_hex(16)
    (site.folder / "s3.env").write_text("AWS_ACCESS_KEY_ID={}\nAWS_SECRET_ACCESS_KEY={}\n".format(*keys))
    last = f"tarn-target-{NODES - 1}"
    machine = site.machine_of(last)
    label = "topology.kubernetes.io/zone"
    with site.load("a setting, an upstream, and zones, of which one machine has none at first"):
        site.document(SETTINGS, "helm upgrade")
        site.document(UPSTREAM, "kubectl -n tarn create secret", "helm upgrade")
        site.cluster.kubectl("label", "node", machine, f"{label}-")
        with site.document_meanwhile(ZONES, "helm upgrade"):
            wait_for(lambda: "zone" in site.kubectl("get", f"pod/{last}", "-o", "jsonpath={.spec.initContainers[*].name}", check=False), 240,
                     "the last target is made again")
            wait_for(lambda: site.kubectl("logs", last, "-c", "zone", check=False), 120, "the zone is looked for")
            log = site.document(ZONES, "kubectl -n tarn logs")
            pattern = document.parse_output(ZONES, "kubectl -n tarn logs tarn-target-2 -c zone").replace("n3", machine)
            require(re.search(pattern, log), log)
            say(f"  {log.strip()}")
            site.cluster.kubectl("label", "node", machine, f"{label}=z{machine[1:]}")
        site.rolled_out()
        site.settle()
        site.document(SETTINGS, "tarn cluster config set")
    require("scrub.period" in site.tarn("cluster", "config", "get", "scrub"), "the setting of the cluster is not there")
    arguments = site.kubectl("get", f"pod/{last}", "-o", "jsonpath={.spec.containers[0].args}")
    require("scrub.period=72h" in arguments and f"upstream.endpoints={STORE_URL}" in arguments, arguments)
    shown = site.document(ZONES, "tarn node ls")
    for number in range(NODES):
        zone = f"z{site.machine_of(f'tarn-target-{number}')[1:]}"
        require(re.search(rf"^{site.id_of(f'tarn-target-{number}')} +target +{zone} +up", shown, re.MULTILINE), shown)
    say("  " + "\n  ".join(shown.strip().splitlines()))
    read_through(site, keys)


PUT = """
import boto3, botocore.config, sys
url, access, secret, bucket, name, body = sys.argv[1:]
client = boto3.client("s3", endpoint_url=url, aws_access_key_id=access, aws_secret_access_key=secret, region_name="us-east-1",
                      config=botocore.config.Config(s3={"addressing_style": "path"}))
client.create_bucket(Bucket=bucket)
client.put_object(Bucket=bucket, Key=name, Body=body.encode())
"""


def read_through(site, keys):
    """An object of versitygw, which is outside of the Kubernetes cluster and checks signatures, is read by the client outside."""
    say("read through to an S3 server")
    folder = STATE / "upstream"
    folder.mkdir()
    site.cluster.start_server("s3", go_program("versitygw"), "--access", keys[0], "--secret", keys[1], "--port", STORE_URL.removeprefix("http://"),
                              "--region", "us-east-1", "posix", folder)
    wait_for(lambda: site.cluster.in_control("curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", STORE_URL, check=False).isdigit(), 60,
             "the S3 server answers")
    body = secrets.token_hex(20_000)
    site.cluster.in_control(sys.executable, "-c", PUT, STORE_URL, *keys, "imagenet", "shard-0.tar", body)
    site.document(UPSTREAM, "tarn bucket create")
    url = f"http://10.250.0.1:{PROXY_PORT}/v1/objects/imagenet/shard-0.tar?provider=aws"
    require(site.cluster.outside("curl", "-fsS", "-L", url) == body, "a client outside reads other bytes than those of the S3 server")
    require("shard-0.tar" in site.tarn("ls", "--cached", "s3://imagenet"), "the object is not kept")
