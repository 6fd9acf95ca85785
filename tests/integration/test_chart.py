"""The Helm chart: what it renders is valid, restricted and stable, and runs as it was rendered."""

import copy
import functools
import json
import os
import re
import subprocess

import kubernetes_validate
import pytest
import yaml
from harness import client
from harness.cluster import PROGRAMS, REPOSITORY
from harness.helm import (
    CHART, NEWEST_KUBERNETES, PROFILES, Helm, check_restricted, containers_of, find, name_of, newest_helm, pod_of, violations)
from harness.pods import Site
from harness.waiting import guarded, wait_until

OLDEST_KUBERNETES = "1.28.0"  # kubeVersion of Chart.yaml
EVERY_PROFILE = [None, *PROFILES]
VALUES = (CHART / "values.yaml").read_text()
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
CUSTOM = "monitoring.coreos.com/v1"
PRIVILEGED_PROFILE = "hostpath"
# Values that are off by default, all at once.
EVERYTHING = {
    "buckets": [{"name": "safe", "copies": 2, "properties": {"checksum.type": "sha256"}}, {"name": "coded", "ec": "2+1", "layout": "striped"}],
    "proxies": {"autoscaling": {"enabled": True}, "trafficDistribution": "PreferSameZone", "spreadOverZones": True,
                "publicUrl": "http://tarn.example.com", "settings": {"log.level": "debug", "job.patience": "20m"},
                "service": {"type": "LoadBalancer", "sourceRanges": ["10.0.0.0/8"], "loadBalancerClass": "example.com/lb",
                            "externalTrafficPolicy": "Local"},
                "relay": {"type": "NodePort", "nodePort": 30081},
                "ingress": {"enabled": True, "className": "nginx", "host": "tarn.example.com", "service": "redirect", "tlsSecret": "tarn-tls",
                            "annotations": {"f": "6", "e": "5"}}, "podLabels": {"b": "2", "a": "1"}, "podAnnotations": {"d": "4", "c": "3"},
                "nodeSelector": {"disk": "nvme", "area": "b"}, "tolerations": [{"key": "k", "operator": "Exists"}], "priorityClassName": "high"},
    "targets": {"settings": {"target.weight": 2, "space.high_watermark": 80, "rebalance.enabled": False, "scrub.bandwidth": "100MiB",
                             "upstream.endpoints": "http://store:9000,https://other.example.com"}, "upstreamSecret": "s3",
                "spreadOverZones": True, "antiAffinity": "preferred", "zone": {"mode": "node", "nodeLabel": "example.com/rack"}},
    "etcd": {"external": {"endpoints": ["https://e1:2379", "https://e2:2379"], "tlsSecret": "etcd-tls", "clientCertificate": True,
                          "user": "tarn", "passwordSecret": "etcd-user"}},
    "image": {"pullSecrets": ["registry"]}, "serviceAccountName": "storage",
    "secret": {"existingSecret": "kept"}, "test": {"deletePod": True},
    "networkPolicy": {"clients": [{"namespaceSelector": {"matchLabels": {"team": "train"}}}]},
    "monitoring": {"serviceMonitor": {"enabled": True, "labels": {"r": "s"}}, "prometheusRule": {"enabled": True}, "dashboard": {"enabled": True}},
}


@pytest.fixture(scope="module")
def newest(tmp_path_factory):
    return Helm(tmp_path_factory.mktemp("newest"), newest_helm())


@pytest.fixture
def everything(tmp_path):
    file = tmp_path / "everything.yaml"
    file.write_text(yaml.safe_dump(EVERYTHING))
    return ["-f", file]


# --- what is rendered --------------------------------------------------------------------------------------------

@pytest.mark.parametrize("profile", EVERY_PROFILE)
def test_lint_finds_nothing(helm, profile):
    files = ["-f", CHART / f"values-{profile}.yaml"] if profile else []
    result = helm.run("lint", CHART, "--strict", "--kube-version", NEWEST_KUBERNETES, *files)
    assert result.returncode == 0 and "WARNING" not in result.stdout + result.stderr, result.stdout


# A file of all definitions is a megabyte, and is asked for with each object.
kubernetes_validate.utils.schema_contents = functools.cache(kubernetes_validate.utils.schema_contents)


def check_schema(each, kubernetes):
    if each["apiVersion"] == CUSTOM:
        check_custom(each)
        return
    kubernetes_validate.validate(each, ".".join(kubernetes.split(".")[:2]), strict=True)


def check_custom(each):
    """The custom resources of the Prometheus operator, whose schemas Kubernetes does not have."""
    keys = {"ServiceMonitor": {"selector", "namespaceSelector", "endpoints"}, "PrometheusRule": {"groups"}}
    assert set(each["spec"]) == keys[each["kind"]]
    for endpoint in each["spec"].get("endpoints", []):
        assert set(endpoint) == {"port", "path", "interval"}
    for group in each["spec"].get("groups", []):
        assert set(group) == {"name", "rules"}
        for rule in group["rules"]:
            assert {"alert", "expr", "labels", "annotations"} <= set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
            assert rule["labels"]["severity"] in ("warning", "critical") and rule["annotations"]["summary"]


@pytest.mark.parametrize("kubernetes", [OLDEST_KUBERNETES, NEWEST_KUBERNETES])
@pytest.mark.parametrize("profile", EVERY_PROFILE)
def test_objects_satisfy_their_schemas(helm, profile, kubernetes):
    for each in helm.objects(profile=profile, kubernetes=kubernetes):
        check_schema(each, kubernetes)


def test_objects_of_all_options_satisfy_their_schemas_and_the_policy(helm, everything):
    objects = helm.objects(*everything)
    for each in objects:
        check_schema(each, NEWEST_KUBERNETES)
    check_restricted(objects)
    kinds = {each["kind"] for each in objects}
    assert {"HorizontalPodAutoscaler", "Job", "ServiceMonitor", "PrometheusRule", "NetworkPolicy", "Ingress"} <= kinds
    assert "Secret" not in kinds and not [each for each in objects if name_of(each) == "StatefulSet/tarn-etcd"]


def test_the_check_of_schemas_finds_unknown_keys_and_wrong_types(helm):
    deployment = find(helm.objects(), "Deployment", "-proxy")
    for change in ({"replicsa": 2}, {"replicas": "2"}):
        wrong = copy.deepcopy(deployment)
        wrong["spec"] |= change
        with pytest.raises(kubernetes_validate.ValidationError):
            check_schema(wrong, NEWEST_KUBERNETES)


@pytest.mark.parametrize("profile", [each for each in EVERY_PROFILE if each != PRIVILEGED_PROFILE])
def test_pods_are_restricted(helm, profile):
    check_restricted(helm.objects(profile=profile))


def test_pods_of_the_hostpath_profile_break_two_rules_only(helm):
    check_restricted(helm.objects(profile=PRIVILEGED_PROFILE), [
        f"StatefulSet/tarn-target: {rule}" for rule in (
            "volume state is of the machine", "volume drive-d0 is of the machine", "volume drive-d1 is of the machine",
            "target: port 8080 of the machine")])


def test_the_policy_finds_what_is_not_restricted(helm):
    metadata, spec = pod_of(find(helm.objects(), "StatefulSet", "-target"))
    assert violations(metadata, spec) == []
    changes = [({"hostNetwork": True}, {}), ({"securityContext": {"runAsNonRoot": True, "runAsUser": 0}}, {}),
               ({"automountServiceAccountToken": True}, {}), ({}, {"securityContext": {}}),
               ({}, {"resources": {}}), ({}, {"image": "tarn"}), ({}, {"ports": [{"containerPort": 1, "hostPort": 1}]})]
    for of_pod, of_container in changes:
        wrong = copy.deepcopy(spec) | of_pod
        wrong["containers"][0] |= of_container
        assert violations(metadata, wrong), (of_pod, of_container)


def test_selectors_and_claims_have_no_version(helm):
    for profile in EVERY_PROFILE:
        for each in helm.objects(profile=profile):
            its = each["spec"] if "spec" in each else {}
            templates = [claim["metadata"] for claim in its.get("volumeClaimTemplates", [])]
            selectors = [its.get("selector", {}), its.get("podSelector", {}), *templates]
            assert not re.search(r"version|helm\.sh/chart|0\.1\.0", json.dumps(selectors)), name_of(each)


def test_pods_are_selected_by_what_belongs_to_them(helm, everything):
    """Each selector of a Service, a budget or a policy finds the pods of exactly one workload."""
    for words in ([], everything):
        objects = helm.objects(*words)
        labels = {name_of(each): pod_of(each)[0]["labels"] for each in objects if each["kind"] in ("Deployment", "StatefulSet")}
        for each in objects:
            selector = each.get("spec", {}).get("selector") or each.get("spec", {}).get("podSelector")
            if each["kind"] not in ("Service", "PodDisruptionBudget", "NetworkPolicy", "Deployment", "StatefulSet"):
                continue
            wanted = set(selector.get("matchLabels", selector).items())
            found = [name for name, its in labels.items() if wanted <= set(its.items())]
            assert len(found) == 1, (name_of(each), found)


@pytest.mark.deep("the newest Helm is built first, in two minutes")
@pytest.mark.parametrize("profile", EVERY_PROFILE)
def test_the_newest_helm_renders_the_same(helm, newest, profile):
    words = ["--set", "secret.existingSecret=kept"]  # a new one is random
    assert newest.text(*words, profile=profile) == helm.text(*words, profile=profile)


@pytest.mark.parametrize("release", ["tarn", "t", "a-release-with-the-longest-name-that-helm-takes-x-y-z"])
def test_names_are_short_enough(helm, release):
    for each in helm.objects(release=release, profile="cloud"):
        name = each["metadata"]["name"]
        # Kubernetes makes labels and host names of these: with ten characters of a hash, five more, or both.
        room = 63 - {"StatefulSet": 11, "Deployment": 17, "Job": 6}.get(each["kind"], 0)
        assert len(name) <= room and re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", name), name
        labels = {**each["metadata"].get("labels", {}), **(pod_of(each)[0].get("labels", {}) if pod_of(each) else {})}
        assert all(len(value) <= 63 for value in labels.values()), labels


def reordered(value):
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return [reordered(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("profile", [*EVERY_PROFILE, "everything"])
def test_reordered_values_render_the_same(helm, profile, tmp_path):
    text = VALUES if profile is None else yaml.safe_dump(EVERYTHING, sort_keys=False) if profile == "everything" \
        else (CHART / f"values-{profile}.yaml").read_text()
    values = yaml.safe_load(text)
    values["secret"] = {"existingSecret": "kept"}  # a secret is made anew each time where there is no cluster
    rendered = []
    for number, order in enumerate((values, reordered(values))):
        file = tmp_path / f"{number}.yaml"
        file.write_text(yaml.safe_dump(order, sort_keys=False))
        rendered.append(helm.text("-f", file))
    assert rendered[0] == rendered[1]


# --- values ------------------------------------------------------------------------------------------------------

# Reasons of the schema, in the words of Helm to 3.17 and of later ones.
LEAST, ITEMS, ONE_OF = "minimum|greater than or equal", "minItems|at least 1 items", "must be one of"
PATTERN, TYPE = "(d|D)oes not match pattern", "got string, want integer|Expected: integer, given: string"


def refused(path, reason):
    return rf"{re.escape(path)}'?: .*({reason})"


# The second is a regular expression of what is said, with a dot for each slash.
BAD_VALUES = [
    (["--set", "proxies.replicsa=2"], "replicsa"),
    (["--set", "targets.drives[0].name=d0,targets.drives[0].sise=1Gi"], "sise"),
    (["--set", "proxies.replicas=0"], refused("proxies.replicas", LEAST)),
    (["--set-string", "proxies.replicas=2"], refused("proxies.replicas", TYPE)),
    (["--set", "etcd.replicas=2"], refused("etcd.replicas", ONE_OF)),
    (["--set", "security.runAsUser=0"], refused("security.runAsUser", LEAST)),
    (["--set", "targets.antiAffinity=hard"], refused("targets.antiAffinity", ONE_OF)),
    (["--set", "test.deletePod=true,targets.replicas=1"], "test.deletePod needs two targets"),
    (["--set", "proxies.ingress.service=both"], refused("proxies.ingress.service", ONE_OF)),
    (["--set", "proxies.trafficDistribution=PreferClose"], refused("proxies.trafficDistribution", ONE_OF)),
    (["--set", "proxies.ingress.host=http://tarn.example.com"], r"proxies\.ingress\.host.*oes not match"),
    (["--set", "targets.zone.mode=label"], refused("targets.zone.mode", ONE_OF)),
    (["--set", "targets.zone.nodeLabel=a b"], refused("targets.zone.nodeLabel", PATTERN)),
    (["--set", "targets.publicAddress.mode=loadBalancer"], r"targets\.publicAddress\.url"),
    (["--set", "targets.publicAddress.url=host:8080"], refused("targets.publicAddress.url", PATTERN)),
    (["--set-json", 'targets.drives=[]'], refused("targets.drives", ITEMS)),
    (["--set-json", 'targets.drives=[{"name":"d0"}]'], r"hostPath|targets\.drives\.0: size is required"),
    (["--set-json", 'targets.drives=[{"name":"D_0","size":"1Gi"}]'], refused("targets.drives.0.name", PATTERN)),
    (["--set-json", 'buckets=[{"name":"b","copies":2,"ec":"2+1"}]'], r"buckets\.0"),
    (["--set-json", 'buckets=[{"name":"b","ec":"two"}]'], refused("buckets.0.ec", PATTERN)),
    (["--set-json", 'buckets=[{"name":"b","layout":"whole"}]'], r"buckets\.0.*(layout|ec)"),
    (["--set-json", 'etcd.external.endpoints=["e1:2379"]'], refused("etcd.external.endpoints.0", PATTERN)),
    (["--set", "etcd.external.endpoints={http://e:2379}", "--set", "etcd.external.user=x"], "needs etcd.external.passwordSecret"),
    (["--set", "etcd.external.endpoints={http://e:2379}", "--set", "etcd.external.tlsSecret=x"], "https"),
    (["--set", "etcd.external.endpoints={https://e:2379,http://f:2379}"], "all http or all https"),
    (["--set-json", 'targets.drives=[{"name":"a","size":"1Gi"},{"name":"a","size":"1Gi"}]'], "two drives have the name a"),
    (["--set", "targets.publicAddress.mode=hostPort,targets.antiAffinity=none"], "one target a machine"),
    (["--set", "targets.antiAffinity=none", "--set-json", 'targets.drives=[{"name":"a","hostPath":"/d"}]'], "the same directories"),
]


def check_refused(helm, words, says):
    result = helm.template(*words)
    assert result.returncode != 0 and re.search(says, result.stderr.replace("/", ".")), result.stderr


@pytest.mark.parametrize("words, says", BAD_VALUES)
def test_bad_values_are_refused(helm, words, says):
    check_refused(helm, words, says)


@pytest.mark.deep("the newest Helm is built first, in two minutes")
@pytest.mark.parametrize("words, says", BAD_VALUES)
def test_the_newest_helm_refuses_bad_values_too(newest, words, says):
    check_refused(newest, words, says)


def leaves(node, path=(), covered=False):
    """(path, line, commented) of each value of values.yaml; a comment of a map covers what is in it."""
    lines = VALUES.splitlines()
    for key, value in node.value:
        name = (*path, key.value)
        commented = covered or lines[key.start_mark.line - 1].lstrip().startswith("#")
        if isinstance(value, yaml.MappingNode) and value.value and not value.flow_style:
            yield from leaves(value, name, commented)
        else:
            yield name, commented


def test_each_value_is_documented():
    assert VALUES.count("\n") < 300
    found = list(leaves(yaml.compose(VALUES)))
    assert len(found) > 90
    assert [".".join(path) for path, commented in found if not commented] == []


def resolve(schema):
    return SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def keys_of(schema, path=()):
    """Paths of all keys that a schema names, and of maps that take any key."""
    schema = resolve(schema)
    closed = schema.get("additionalProperties") is False
    assert closed or "properties" not in schema, f"{path} takes unknown keys"
    for name, its in schema.get("properties", {}).items():
        yield (*path, name)
        yield from keys_of(its, (*path, name))
    if "items" in schema:
        list(keys_of(schema["items"], (*path, "*")))


def test_schema_and_values_have_the_same_keys():
    free = {"resources", "state"}  # not all of their keys have a default

    def paths(value, path=()):
        for key, its in value.items():
            yield (*path, key)
            if isinstance(its, dict) and key not in free:
                yield from paths(its, (*path, key))

    named = {path for path in keys_of(SCHEMA) if not free & set(path[:-1]) and path[0] != "global"}
    maps = {path for path in named if "properties" not in resolve(schema_at(path))}
    given = {path for path in paths(yaml.safe_load(VALUES)) if not any(path[:n] in maps for n in range(1, len(path)))}
    assert named == given


def schema_at(path):
    schema = SCHEMA
    for key in path:
        schema = resolve(schema)["properties"][key]
    return schema


# --- metrics -----------------------------------------------------------------------------------------------------

def documented_metrics():
    text = (REPOSITORY / "docs/metrics.md").read_text()
    names = set(re.findall(r"`(tarn_[a-z_]+|ais_target_[a-z_]+)`", text))
    return names | {name + "_bucket" for name in names if re.search(rf"`{name}` \|.*histogram:", text)}


def test_rules_and_dashboard_use_metrics_that_exist(helm, everything):
    objects = helm.objects(*everything)
    dashboard = json.loads(find(objects, "ConfigMap", "-dashboard")["data"]["tarn.json"])
    rules = find(objects, "PrometheusRule", "tarn")["spec"]["groups"][0]["rules"]
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]] + [rule["expr"] for rule in rules]
    used = {name for text in expressions for name in re.findall(r"\b(?:tarn|ais)_[a-z_]+", text)}
    assert len(used) > 12
    assert used - documented_metrics() == set()


def test_operators_can_read_what_each_alert_means(helm, everything):
    rules = find(helm.objects(*everything), "PrometheusRule", "tarn")["spec"]["groups"][0]["rules"]
    rows = re.findall(r"^\| `(Tarn\w+)` \| (.*?) \| .+ \| .+ \|$", (REPOSITORY / "docs/operations.md").read_text(), re.MULTILINE)
    assert [rule["alert"] for rule in rules] == [alert for alert, _ in rows]
    for rule, (alert, when) in zip(rules, rows):
        lasts = {"1m": "for a minute", "2m": "for 2 minutes", "15m": "for 15 minutes", "1h": "for an hour"}.get(rule.get("for"))
        assert when.endswith(lasts) if lasts else " for " not in when, alert
        named = re.findall(r"`(tarn_\w+)", when)
        assert set(named) <= set(re.findall(r"\btarn_\w+", rule["expr"])), alert


# --- programs take what is rendered ---------------------------------------------------------------------------------

def help_of(*command):
    return subprocess.run([PROGRAMS / command[0], *command[1:], "--help"], capture_output=True, text=True, check=True,
                          timeout=guarded(20)).stdout


def test_the_programs_accept_all_rendered_options(helm, everything, tmp_path):
    """Each program reads its options before it looks for the secret, which is not there: exit code 1, and not 2."""
    address = {"POD_NAME": "tarn-target-0", "POD_NAMESPACE": "demo", "POD_INDEX": "0", "HOST_IP": "10.0.0.1", "NODE_NAME": "n"}
    for words in ([], everything, *(["-f", CHART / f"values-{profile}.yaml"] for profile in PROFILES)):
        objects = helm.objects(*words)
        for kind, ending in (("Deployment", "-proxy"), ("StatefulSet", "-target")):
            container = pod_of(find(objects, kind, ending))[1]["containers"][0]
            program = container["command"][-1]
            arguments = [re.sub(r"\$\((\w+)\)", lambda match: address[match[1]], word) for word in container["args"]]
            arguments = [re.sub("^/(?=var|run|drives)", f"{tmp_path}/", word) for word in arguments]
            arguments = [re.sub(r"https?://[^,]*:2379", "http://127.0.0.1:1", word) for word in arguments]
            for option in ("--meta-ca", "--meta-cert", "--meta-key", "--meta-user", "--meta-password-file"):
                if option in arguments:  # known to the program, but for an etcd that is there
                    assert option in help_of(program)
                    at = arguments.index(option)
                    del arguments[at:at + 2]
            command = [word.replace("/run/tarn", str(tmp_path)) for word in container["command"]]
            (tmp_path / "zone").write_text("eu-1a\n")
            environment = os.environ | address | {"PATH": f"{PROGRAMS}:/usr/bin:/bin"}
            result = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=guarded(20), env=environment)
            assert result.returncode == 1 and "no secret at" in result.stdout + result.stderr, (arguments, result)


def test_a_setting_that_a_program_does_not_have_is_refused_by_it(helm, tmp_path):
    objects = helm.objects("--set", r"targets.settings.no\.such=1")
    arguments = pod_of(find(objects, "StatefulSet", "-target"))[1]["containers"][0]["args"]
    result = subprocess.run([PROGRAMS / "tarn-target", *arguments], capture_output=True, text=True, timeout=guarded(20))
    assert result.returncode == 2 and "no.such" in result.stderr, result


def test_variables_of_ours_are_known(helm, everything):
    for words in ([], everything):
        for each in helm.objects(*words):
            for container in containers_of(pod_of(each)[1]) if pod_of(each) else []:
                ours = [variable["name"] for variable in container.get("env", []) if variable["name"].startswith(("TARN_", "AIS_"))]
                assert all(name in help_of("tarn") for name in ours), ours


def test_scripts_are_sound():
    scripts = sorted((CHART / "files").glob("*.sh"))
    assert len(scripts) == 6
    result = subprocess.run(["shellcheck", *scripts], capture_output=True, text=True, timeout=guarded(60))
    assert result.returncode == 0, result.stdout


# --- addresses of targets -------------------------------------------------------------------------------------------

def addresses(helm, *words):
    """The container of a target, and all addresses that its arguments advertise."""
    container = pod_of(find(helm.objects(*words), "StatefulSet", "-target"))[1]["containers"][0]
    arguments = container["args"]
    return container, [after for word, after in zip(arguments, arguments[1:]) if word == "--advertise"]


def advertised(helm, *words):
    container, all_of_them = addresses(helm, *words)
    return container, all_of_them[0] if all_of_them else None


MODE = "targets.publicAddress."


@pytest.mark.parametrize("words, expected", [
    ([], "http://$(POD_NAME).tarn-target.demo.svc.cluster.local:8080"),
    (["--set", "clusterDomain=k8s.example"], "http://$(POD_NAME).tarn-target.demo.svc.k8s.example:8080"),
    (["--set", f"{MODE}mode=hostPort,{MODE}port=9000"], "http://$(HOST_IP):9000"),
    (["--set", f"{MODE}mode=hostPort,ipFamily=IPv6"], "http://[$(HOST_IP)]:8080"),
    (["--set", f"{MODE}mode=hostPort,{MODE}url=http://$(NODE_NAME).example.com:8080"], "http://$(NODE_NAME).example.com:8080"),
    (["--set", f"{MODE}mode=url,{MODE}url=https://t$(POD_INDEX).example.com"], "https://t$(POD_INDEX).example.com"),
])
def test_targets_advertise_the_address_of_their_mode(helm, words, expected):
    assert advertised(helm, *words)[1] == expected


def test_clients_of_some_networks_have_addresses_of_their_own(helm):
    networks = f"{MODE}networks[0].cidr=10.244.0.0/16,{MODE}networks[1].cidr=fd00::/8,{MODE}networks[1].url=http://$(NODE_NAME):8080"
    pod = "http://$(POD_NAME).tarn-target.demo.svc.cluster.local:8080"
    own = [f"10.244.0.0/16={pod}", "fd00::/8=http://$(NODE_NAME):8080"]
    assert addresses(helm, "--set", f"{MODE}mode=hostPort,{networks}")[1] == ["http://$(HOST_IP):8080", *own]
    assert addresses(helm, "--set", f"{MODE}mode=nodePort,{networks}")[1] == own


@pytest.mark.parametrize("family, address, expected", [("IPv4", "10.1.2.3", "http://10.1.2.3:31011"), ("IPv6", "fd00::7", "http://[fd00::7]:31011")])
def test_targets_with_node_ports_advertise_their_own(helm, family, address, expected):
    words = ["--set", f"{MODE}mode=nodePort,targets.replicas=12,ipFamily={family}"]
    container, none = advertised(helm, *words)
    assert none is None
    command = [container["command"][0], container["command"][1], container["command"][2].replace("exec tarn-target", "exec printf '%s\\n'"),
               *container["command"][3:], *container["args"]]
    result = subprocess.run(command, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "POD_NAME": "tarn-target-11", "HOST_IP": address})
    assert result.stdout.splitlines() == [*container["args"], "--advertise", expected], result
    service = find(helm.objects(*words), "Service", "-target-11")
    assert service["spec"]["ports"][0]["nodePort"] == 31011
    assert service["spec"]["selector"]["statefulset.kubernetes.io/pod-name"] == "tarn-target-11"


@pytest.mark.parametrize("kubernetes, value, expected", [
    (NEWEST_KUBERNETES, None, "PreferSameNode"), ("1.34.0", None, "PreferSameNode"), ("v1.34.1-gke.7", "PreferSameZone", "PreferSameZone"),
    ("1.33.9", None, "PreferClose"), ("1.31.0", "PreferSameZone", "PreferClose"), ("1.30.9", None, None), (OLDEST_KUBERNETES, None, None),
    (NEWEST_KUBERNETES, "", None), ("1.33.9", "", None),
    (NEWEST_KUBERNETES, "null", "PreferSameNode"),  # as with values of a release of before
])
def test_services_choose_a_proxy_as_far_as_the_cluster_knows_how(helm, kubernetes, value, expected):
    words = [] if value is None else ["--set", f"proxies.trafficDistribution={value}"]
    objects = helm.objects(*words, kubernetes=kubernetes)
    for ending in ("-proxy", "-relay"):
        assert find(objects, "Service", ending)["spec"].get("trafficDistribution") == expected
    others = [each for each in objects if each["kind"] == "Service" and not each["metadata"]["name"].endswith(("-proxy", "-relay"))]
    assert others and not [each for each in others if "trafficDistribution" in each["spec"]]
    for each in objects:
        check_schema(each, kubernetes.lstrip("v"))


def test_proxies_of_an_upgrade_are_spread_among_themselves(helm, everything):
    """Those that are replaced leave gaps. Pods of a StatefulSet come after those that they replace."""
    objects = helm.objects(*everything)
    for kind, ending, keys in (("Deployment", "-proxy", ["pod-template-hash"]), ("StatefulSet", "-target", None)):
        constraints = pod_of(find(objects, kind, ending))[1]["topologySpreadConstraints"]
        assert [each.get("matchLabelKeys") for each in constraints] == [keys] * 2


@pytest.mark.parametrize("service", ["relay", "redirect"])
def test_an_ingress_leads_to_a_port_of_a_service(helm, service):
    objects = helm.objects("--set", f"proxies.ingress.enabled=true,proxies.ingress.service={service}")
    (rule,) = find(objects, "Ingress", "-proxy")["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    to = path["backend"]["service"]
    ports = {port["name"]: port["targetPort"] for port in find(objects, "Service", to["name"])["spec"]["ports"]}
    assert path["path"] == "/" and "host" not in rule and ports == {to["port"]["name"]: service}
    for words in ([], ["--set-json", "proxies.ingress=null"]):  # by default, and with values of a release of before
        assert not [each for each in helm.objects(*words) if each["kind"] == "Ingress"], words


def test_each_target_has_a_load_balancer_of_its_own(helm):
    objects = helm.objects(profile="cloud")
    for number in range(6):
        service = find(objects, "Service", f"-target-{number}")
        assert service["spec"]["type"] == "LoadBalancer"
        assert service["metadata"]["annotations"] == {"external-dns.alpha.kubernetes.io/hostname": f"target-{number}.data.example.com"}


def test_only_a_test_that_is_asked_for_may_delete_a_pod(helm):
    """tests/kubernetes runs it."""
    assert not [each for each in helm.objects() if each["kind"] in ("Role", "RoleBinding")]
    assert not [each for each in helm.objects("--set-json", "test=null") if each["kind"] in ("Role", "RoleBinding")]
    objects = helm.objects("--set", "test.deletePod=true,targets.replicas=5")
    check_restricted(objects)
    assert find(objects, "Role", "-test-gone")["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "resourceNames": ["tarn-target-4"], "verbs": ["get", "delete"]}]
    _, spec = pod_of(find(objects, "Pod", "-test-gone"))
    assert spec["serviceAccountName"] == find(objects, "RoleBinding", "-test-gone")["subjects"][0]["name"]


# --- a cluster of rendered pods -------------------------------------------------------------------------------------

@pytest.fixture
def site(helm, tmp_path):
    objects = helm.objects("--set-json", 'buckets=[{"name":"safe","copies":2,"properties":{"checksum.type":"sha256"}},{"name":"coded","ec":"2+1"}]',
                           "--set", r"etcd.replicas=3,proxies.replicas=2,targets.settings.shutdown\.notice=0s",
                           "--set-json", 'targets.drives=[{"name":"d0","size":"1Gi"},{"name":"d1","size":"1Gi"}]', profile="laptop")
    its = Site(objects, tmp_path, environment={"LEAVE_PAUSE": "0", "HOOK_LOG": "/dev/stdout"})
    yield its
    its.kill()


def nodes_of(url):
    result = subprocess.run([PROGRAMS / "tarn", "--endpoint", url, "node", "ls"], capture_output=True, text=True, timeout=guarded(60))
    assert result.returncode == 0, result
    return [line.split() for line in result.stdout.splitlines() if " proxy " in line or " target " in line]


def test_rendered_pods_are_a_cluster(site):
    """Commands, options, secrets, addresses, probes and hooks fit together: etcd, proxies and targets find each other."""
    objects = site.objects
    etcds = site.make(find(objects, "StatefulSet", "-etcd"), 3)
    targets = site.make(find(objects, "StatefulSet", "-target"), 3)
    proxies = site.make(find(objects, "Deployment", "-proxy"), 2)
    for ending in ("-proxy", "-relay"):
        site.serve(find(objects, "Service", ending), proxies[0])
    site.start([*etcds, *proxies, *targets])
    first, second = (f"http://{proxy.address}:8080" for proxy in proxies)
    wait_until(lambda: [node[2] for node in nodes_of(first)] == ["up"] * 5, 30, "all nodes are up")

    test = site.single(find(objects, "Pod", "-test"))
    (result,) = test.run_all()
    assert result.returncode == 0, result
    addresses = {f"{target.address}:8080" for target in targets}
    assert set(re.search(r"objects at (.*)", result.stdout)[1].split()) <= addresses, result.stdout

    buckets = site.single(find(objects, "Job", "-buckets"))
    for says in ("", "is there"):  # an upgrade finds them
        results = buckets.run_all()
        assert [each.returncode for each in results] == [0, 0, 0], results
        assert all(says in each.stdout for each in results[:-1])
    assert client.request("PUT", f"{first}/safe/kept", b"bytes of a client").status == 200

    # A target that is away: the next one is not stopped before it is back, but only so long.
    away = json.loads((targets[0].directory / "state" / "node.json").read_text())["id"]
    assert targets[0].stop() == 0
    for seconds in ("2", "8", "30"):  # a busy machine may take longer to answer than the hook waits
        hook = ["sh", "/scripts/wait-safe.sh", first, seconds, "/var/lib/tarn/node.json"]
        waiting = targets[1].run(targets[1].main, hook)
        assert waiting.returncode == 0 and "ends anyway" in waiting.stdout, waiting
        if "waiting: " in waiting.stdout:
            break
    assert re.search(f'waiting: .*{away}.*"safe":false', waiting.stdout), waiting
    site.start(targets[:1])
    wait_until(lambda: '"safe":true' in targets[1].pre_stop().stdout, 60, "a target may be stopped")

    # Both proxies, one of them the primary, leave as their pods end, while the other one is there.
    assert proxies[1].pre_stop().returncode == 0
    assert proxies[1].process.wait(timeout=guarded(60)) == 0
    assert len(nodes_of(first)) == 4
    (renewed,) = site.make(find(objects, "Deployment", "-proxy"), 1, first=2)
    site.start([renewed])
    assert proxies[0].pre_stop().returncode == 0
    assert proxies[0].process.wait(timeout=guarded(60)) == 0
    renewed_url = f"http://{renewed.address}:8080"
    assert [node[1:3] for node in nodes_of(renewed_url)] == [["proxy", "up"], *[["target", "up"]] * 3]
    assert client.request("GET", f"{renewed_url}/safe/kept").body == b"bytes of a client"
    assert [pod.stop() for pod in (*targets, renewed)] == [0, 0, 0, 0]


# --- documents and the image ----------------------------------------------------------------------------------------

def test_each_mode_of_addresses_is_documented():
    text = (REPOSITORY / "docs/kubernetes.md").read_text()
    modes = schema_at(("targets", "publicAddress", "mode"))["enum"]
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == modes


def test_image_and_chart_agree():
    text = (REPOSITORY / "deploy/Containerfile").read_text()
    last = text.split("\nFROM ")[-1]
    user = yaml.safe_load(VALUES)["security"]["runAsUser"]
    assert f"USER {user}:{user}" in last and f"useradd --uid {user}" in last
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    built = subprocess.run([PROGRAMS / "tarn", "--version"], capture_output=True, text=True, check=True, timeout=guarded(20)).stdout
    assert built.split()[-1] == version and f'image.version="{version}"' in last
    assert "HEALTHCHECK" in last and "/healthz" in last and "install-deps --runtime --image" in last
    # The compiler and the sources stay behind.
    assert re.findall(r"COPY (.*)", last) == ["--from=programs /programs/ /usr/local/bin/"]
    assert (REPOSITORY / ".containerignore").read_text() == (REPOSITORY / ".dockerignore").read_text()
