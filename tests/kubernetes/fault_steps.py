"""Steps in which pods and machines of the release end, while clients read and write."""

import time

from chart_site import require, say
from cluster import wait_for
from epoch import Epoch


def epochs(site):
    """WebDataset outside and in a pod, at the same time, over a bucket with two copies."""
    epoch = Epoch(site)
    say("a WebDataset epoch, outside and in a pod")
    for line in epoch.read():
        say(f"  {line}")
        require("read again" not in line, "a shard was cut although nothing happened")
    say("the same while a target is deleted")

    lost = site.id_of("tarn-target-1")

    def delete():
        site.kubectl("delete", "pod/tarn-target-1", "--wait=false")
        wait_for(lambda: site.state_of(lost) == "down", 120, "the target is away", every=0.2)

    with site.kept_away("tarn-target-1"):
        for line in epoch.read(in_the_middle=delete):
            say(f"  {line}")
        require(site.state_of(lost) == "down", "the target was back before the readers were done")
    site.rolled_out()
    site.settle()


def delete_pods(site):
    with site.load("delete a target that may stop, then a proxy, then a member of etcd"):
        site.document("Upgrade", "tarn node safe-to-stop", target=site.id_of("tarn-target-1"))
        for pod in ("pod/tarn-target-1", site.proxies()[0], "pod/tarn-etcd-0"):
            site.kubectl("delete", pod)
            site.rolled_out()
            site.settle()


def kill_pods(site):
    with site.load("kill a target and a proxy without notice; then another proxy, which is taken out by hand"):
        site.kubectl("delete", "pod/tarn-target-2", "--force", "--grace-period=0")
        site.rolled_out()
        site.settle()
        kill_proxy(site)
        site.wait_proxies()
        site.settle()
        site.document("Upgrade", "tarn node remove-unsafe", proxy=kill_proxy(site))
        site.wait_proxies()
        site.settle()


def kill_proxy(site):
    """Returns the id of the proxy when it is down."""
    pod = site.proxies()[0]
    proxy = site.kubectl("exec", pod, "-c", "proxy", "--", "cat", "/var/lib/tarn/proxy.id").strip()
    site.kubectl("delete", pod, "--force", "--grace-period=0")
    site.rolled_out()
    wait_for(lambda: site.state_of(proxy) != "up", 60, "the proxy is down", every=0.5)
    return proxy


def cut_node(site):
    with site.load("cut a node off, and join it again"):
        site.cluster.cut(3)
        wait_for(lambda: "NotReady" in site.cluster.kubectl("get", "node", "n3", "--no-headers"), 120, "the node is missed")
        time.sleep(10)
        site.cluster.join(3)
        wait_for(lambda: " Ready" in site.cluster.kubectl("get", "node", "n3", "--no-headers"), 120, "the node is back")
        site.rolled_out()
        site.settle()
