"""Members of etcd that come and go: which ones the inventory has, beside those that etcd itself has. Pure."""

import dataclasses
import json


@dataclasses.dataclass(frozen=True)
class Member:
    id: str  # a number, as etcd's JSON has it
    name: str  # empty when it has never been started
    peer: str
    client: str


@dataclasses.dataclass(frozen=True)
class Plan:
    remove: tuple = ()  # members
    add: tuple = ()  # hosts
    ask: object = None  # a host whose etcd runs

    def steps(self):
        return ([f"remove the member {member.name or member.peer} from etcd" for member in self.remove]
                + [f"add {host.name} to etcd" for host in self.add])


def parse(text):
    """Members in the answer of /v3/cluster/member/list; none when it is no such answer."""
    try:
        return [Member(each["ID"], each.get("name", ""), (each.get("peerURLs") or [""])[0], (each.get("clientURLs") or [""])[0])
                for each in json.loads(text)["members"]]
    except (ValueError, KeyError, TypeError):
        return []


def plan(inventory, states):
    """(Plan, problems). `states` are those of all hosts; a member that is removed has no data, or is no host any more."""
    hosts = inventory.of_role("etcd")
    begun = [host for host in hosts if states[host.name].etcd_members]
    if not begun:  # a new etcd begins with all its members
        return Plan(), []
    new = [host for host in hosts if host not in begun]
    wanted = {inventory.url(host, "etcd_peer"): host for host in hosts}
    runs = [host for host in begun if parse(states[host.name].etcd_answer)]
    live = parse(states[runs[0].name].etcd_answer) if runs else []
    if not live:
        noted = {url.partition("=")[2] for url in states[begun[0].name].etcd_members.split(",")}
        if new or noted != set(wanted):
            return Plan(), [f"etcd has other members than the inventory, and does not run on {' or '.join(host.name for host in begun)}: "
                            "start it there first (systemctl start tarn-etcd)"]
        return Plan(), []
    remove = tuple(member for member in live if wanted.get(member.peer) not in begun)
    if not remove and not new:
        return Plan(), []
    if len(runs) < len(live) // 2 + 1:
        return Plan(), [f"etcd has {len(live)} members, of which {len(runs)} run: members change only while a majority runs"]
    return Plan(remove, tuple(new), runs[0]), []
