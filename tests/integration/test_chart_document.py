"""The Helm chart: what docs/kubernetes.md and NOTES.txt tell people to do."""

import importlib.util
import re
import shlex
import shutil

import yaml
from harness.cluster import REPOSITORY
from harness.helm import CHART, NEWEST_KUBERNETES, name_of

KUBERNETES = REPOSITORY / "tests" / "kubernetes"


def test_helm_commands_of_the_document_render(helm):
    text = (REPOSITORY / "docs/kubernetes.md").read_text()
    commands = [shlex.split(line) for line in re.findall(r"^helm (?:install|upgrade) .*", text, re.MULTILINE)]
    assert {command[1] for command in commands} == {"install", "upgrade"} and len(commands) >= 7
    for command in commands:
        words = [word for word in command[2:] if word not in ("--wait", "--reuse-values")]
        if "--timeout" in words:
            del words[words.index("--timeout"):words.index("--timeout") + 2]
        words[words.index("helm/tarn")] = str(CHART)
        for file in {"DRIVES.yaml", "VOLUMES.yaml"} & set(words):  # of the reader's own
            del words[words.index(file) - 1:words.index(file) + 1]
        words = [str(REPOSITORY / word) if word.startswith("helm/") else word for word in words]
        result = helm.run("template", *words, "--kube-version", NEWEST_KUBERNETES)
        assert result.returncode == 0 and "kind: StatefulSet" in result.stdout, (command, result.stderr)


def load_tables():
    """tests/kubernetes/document.py as a module."""
    spec = importlib.util.spec_from_file_location("kubernetes_document", KUBERNETES / "document.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_command_of_the_document_is_run_on_a_kubernetes_or_has_a_reason():
    """tests/kubernetes runs them; its tables must know each."""
    document = load_tables()
    commands = document.parse()
    assert len(commands) > 40 and document.compare() == []
    steps = "".join(path.read_text() for path in KUBERNETES.glob("*_steps.py"))
    named = {step for rows in document.RUN_BY.values() for step in rows.values()}
    assert [step for step in named if not re.search(rf"^def {step}\(", steps, re.MULTILINE)] == []


def test_a_command_that_no_table_knows_is_found(tmp_path, monkeypatch):
    document = load_tables()
    text = document.DOCUMENT.read_text()
    other = tmp_path / "kubernetes.md"
    monkeypatch.setattr(document, "DOCUMENT", other)
    other.write_text(text.replace("```sh\nkubectl delete node", "```sh\nkubectl drain worker-3\nkubectl delete node"))
    assert document.compare() == ["Replace a machine: 'kubectl drain worker-3' stands in 0 tables of tests/kubernetes/document.py"]
    other.write_text(text.replace("\ntarn redundancy\n```", "\n```"))
    assert document.compare() == ["Replace a drive: 0 commands begin with 'tarn redundancy'"]


def test_the_document_names_objects_that_are_rendered(helm):
    objects = [name_of(each).lower() for each in helm.objects()]
    claims = ["pvc/" + "-".join((claim["metadata"]["name"], each["metadata"]["name"], number))
              for each in helm.objects() for claim in each.get("spec", {}).get("volumeClaimTemplates", []) for number in "0123"]
    text = (REPOSITORY / "docs/kubernetes.md").read_text()
    named = [match.lower() for match in re.findall(r"\b((?:deployment|service|statefulset)/[\w-]+)", text)]
    named += [f"pvc/{name}" for name in re.findall(r"\b((?:state|drive-d0)-tarn-target-\d)\b", text)]
    assert len(named) >= 4
    assert [name for name in named if name not in [*objects, *claims]] == []


def notes_of(helm, folder, *words):
    """NOTES.txt as `helm install` prints it, which wants a cluster: here a copy of the chart has it in a ConfigMap."""
    chart = shutil.copytree(CHART, folder / "tarn", dirs_exist_ok=True)
    (chart / "templates/NOTES.txt").rename(chart / "NOTES.txt")
    (chart / "templates/notes.yaml").write_text(
        'kind: ConfigMap\nmetadata: {name: notes}\ndata:\n  notes: |\n    {{- tpl (.Files.Get "NOTES.txt") . | nindent 4 }}\n')
    result = helm.run("template", "tarn", chart, "-n", "demo", "--kube-version", NEWEST_KUBERNETES, "-s", "templates/notes.yaml", *words)
    assert result.returncode == 0, result.stderr
    return yaml.safe_load(result.stdout)["data"]["notes"]


def test_notes_have_the_next_commands_and_warn(helm, tmp_path):
    objects = [name_of(each).lower() for each in helm.objects()]
    notes = notes_of(helm, tmp_path, "--set", "etcd.replicas=1")
    commands = re.findall(r"^  (\w+ .*)", notes, re.MULTILINE)
    assert [command.split()[0] for command in commands[:3]] == ["kubectl", "helm", "kubectl"]
    named = re.findall(r"\b((?:deployment|service|statefulset)/[\w-]+)", notes)
    assert len(named) == 3 and set(named) <= set(objects)
    assert "cannot follow redirects" in notes and "one member" in notes and "tarn-secret" in notes
    outside = notes_of(helm, tmp_path / "outside", "--set", "targets.publicAddress.mode=nodePort,secret.existingSecret=kept")
    assert "cannot follow redirects" not in outside and "one member" not in outside and "get secret" not in outside
