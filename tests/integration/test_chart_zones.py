"""The Helm chart: zones of targets, which a container reads from the API server."""

import http.server
import json
import ssl
import subprocess
import threading

import pytest
from harness.helm import CHART, check_restricted, containers_of, find, name_of, pod_of
from harness.waiting import guarded

ZONES = ["--set", "targets.zone.mode=node"]


def test_targets_have_no_zone_and_no_rights_unless_they_are_wanted(helm):
    objects = helm.objects()
    assert [each["kind"] for each in objects if each["kind"] in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")] == []
    _, spec = pod_of(find(objects, "StatefulSet", "-target"))
    assert spec["containers"][0]["command"] == ["tarn-target"] and "serviceAccountName" not in spec
    assert [container["name"] for container in spec["initContainers"]] == ["secrets"]


def test_values_of_a_release_of_before_need_no_zone(helm):
    """helm upgrade --reuse-values brings values that do not have it."""
    plain = ["--set", "secret.existingSecret=kept"]
    assert helm.text(*plain, "--set-json", "targets.zone=null") == helm.text(*plain)
    _, spec = pod_of(find(helm.objects("--set-json", 'targets.zone={"mode":"node","nodeLabel":null}'), "StatefulSet", "-target"))
    assert "topology.kubernetes.io/zone" in spec["initContainers"][1]["command"]


def test_only_the_container_that_reads_the_zone_has_a_token(helm):
    objects = helm.objects(*ZONES)
    check_restricted(objects)
    _, spec = pod_of(find(objects, "StatefulSet", "-target"))
    assert [container["name"] for container in spec["initContainers"]] == ["secrets", "zone"]
    with_token = [container["name"] for container in containers_of(spec)
                  if "api" in {mount["name"] for mount in container.get("volumeMounts", [])}]
    assert with_token == ["zone"]
    for each in objects:
        if pod_of(each) and name_of(each) != "StatefulSet/tarn-target":
            assert "serviceAccountToken" not in json.dumps(pod_of(each)[1]) and "serviceAccountName" not in pod_of(each)[1], name_of(each)
    role, binding = find(objects, "ClusterRole", "-zones"), find(objects, "ClusterRoleBinding", "-zones")
    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": spec["serviceAccountName"], "namespace": "demo"}]
    assert find(objects, "ServiceAccount", "-target")["metadata"]["name"] == spec["serviceAccountName"] == "tarn-target"
    # An account of the operator's own gets the right.
    own = helm.objects(*ZONES, "--set", "serviceAccountName=storage")
    assert find(own, "ClusterRoleBinding", "-zones")["subjects"][0]["name"] == "storage"
    assert [each for each in own if each["kind"] == "ServiceAccount"] == []
    assert pod_of(find(own, "StatefulSet", "-target"))[1]["serviceAccountName"] == "storage"


@pytest.mark.parametrize("mode", ["podDNS", "nodePort"])
def test_targets_start_with_the_zone_that_was_read(helm, tmp_path, mode):
    container = pod_of(find(helm.objects(*ZONES, "--set", f"targets.publicAddress.mode={mode}"), "StatefulSet", "-target"))[1]["containers"][0]
    (tmp_path / "zone").write_text("eu-1a\n")
    shell = container["command"][2].replace("exec tarn-target", "exec printf '%s\\n'").replace("/run/tarn", str(tmp_path))
    result = subprocess.run(["sh", "-c", shell, "tarn-target", "--dir", "/d"], capture_output=True, text=True,
                            env={"PATH": "/usr/bin:/bin", "POD_NAME": "tarn-target-11", "HOST_IP": "10.1.2.3"}, timeout=guarded(20))
    address = ["--advertise", "http://10.1.2.3:31011"] if mode == "nodePort" else []
    assert result.stdout.splitlines() == ["--dir", "/d", *address, "--zone", "eu-1a"], result


class ApiServer(http.server.BaseHTTPRequestHandler):
    """The call of zone.sh as the API server of Kubernetes answers it, which needs a cluster; over TLS, with a token."""

    labels = {"kubernetes.io/hostname": "m1", "topology.kubernetes.io/zone": "eu-1a", "topology.kubernetes.io/region": "eu-1"}
    metadata = {"name": "m1", "labels": labels, "annotations": {"labels": '"topology.kubernetes.io/zone":"no", "labels":{"a":"b"}'},
                "managedFields": [{"fieldsV1": {"f:metadata": {"f:labels": {"f:topology.kubernetes.io/zone": {}}}}}]}

    def do_GET(self):
        if self.headers["Authorization"] != "Bearer right":
            status, answer = 401, {"kind": "Status", "message": "Unauthorized"}
        elif self.path != "/api/v1/nodes/m1":
            status, answer = 404, {"kind": "Status", "message": 'nodes "m2" not found'}
        else:
            status, answer = 200, {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": self.metadata}
        body = json.dumps(answer, indent=2).encode() if "indent" in self.server.style else json.dumps(answer, separators=(",", ":")).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


@pytest.fixture
def api_server(tmp_path):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=api",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", tmp_path / "key.pem", "-out", tmp_path / "ca.crt"],
                   check=True, capture_output=True, timeout=guarded(20))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), ApiServer)
    server.style = ""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "ca.crt", tmp_path / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("machine, label, token, says", [
    ("m1", "topology.kubernetes.io/zone", "right", None),
    ("m1", "topology.kubernetes.io/rack", "right", "no zone for targets on machine m1: it has no label topology.kubernetes.io/rack"),
    ("m1", "a", "right", "it has no label a "),
    ("m2", "topology.kubernetes.io/zone", "right", "the API server answers 404: nodes"),
    ("m1", "topology.kubernetes.io/zone", "wrong", "the API server answers 401: Unauthorized"),
])
@pytest.mark.parametrize("style", ["", "indent"])
def test_the_zone_of_a_machine_is_read(api_server, tmp_path, style, machine, label, token, says):
    api_server.style = style
    (tmp_path / "token").write_text(token)
    script = tmp_path / "zone.sh"
    script.write_text((CHART / "files/zone.sh").read_text().replace("/run/api", str(tmp_path)))
    result = subprocess.run(["sh", script, machine, label, tmp_path / "zone"], capture_output=True, text=True, timeout=guarded(60),
                            env={"PATH": "/usr/bin:/bin", "KUBERNETES_SERVICE_HOST": "127.0.0.1",
                                 "KUBERNETES_SERVICE_PORT": str(api_server.server_address[1])})
    if says is None:
        assert result.returncode == 0 and (tmp_path / "zone").read_text() == "eu-1a\n", result
    else:
        assert result.returncode == 1 and says in result.stderr and not (tmp_path / "zone").exists(), result


def test_an_api_server_that_is_away_is_said(tmp_path):
    for name in ("token", "ca.crt"):
        (tmp_path / name).write_text("x")
    script = tmp_path / "zone.sh"
    script.write_text((CHART / "files/zone.sh").read_text().replace("/run/api", str(tmp_path)))
    result = subprocess.run(["sh", script, "m1", "zone", tmp_path / "zone"], capture_output=True, text=True, timeout=guarded(60),
                            env={"PATH": "/usr/bin:/bin", "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"})
    assert result.returncode == 1 and "the API server does not answer: curl: " in result.stderr, result
