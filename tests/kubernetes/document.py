"""Commands of docs/kubernetes.md: which step of `run` runs which of them, with what in place of the reader's own names.

The steps take commands from here as they stand in the document. `run` ends with an error when one was not run, and a
test of the gate when one stands in neither table."""

import re
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "kubernetes.md"

# Section: {how a command of it begins: the step that runs it}.
RUN_BY = {
    "Try it on a laptop": {
        "kubectl create namespace tarn": "laptop",
        "kubectl label namespace tarn": "laptop",
        "helm install": "laptop",
        "helm test": "laptop",
        "tarn() {": "laptop",
        "tarn node ls": "laptop",
        "kubectl -n tarn port-forward": "laptop",
        "curl -T FILE": "laptop",
    },
    "Install on local drives": {
        "helm install tarn helm/tarn -n tarn -f helm/tarn/values-local-pv.yaml": "install",
        "kubectl create namespace tarn": "hostpath",
        "kubectl label namespace tarn": "hostpath",
        "kubectl label node": "hostpath",
        "helm install tarn helm/tarn -n tarn -f helm/tarn/values-hostpath.yaml": "hostpath",
    },
    "Spread over zones": {
        "helm upgrade": "change_settings",
        "tarn node ls": "change_settings",
        "kubectl -n tarn logs": "change_settings",
    },
    "Let clients outside reach targets": {
        "helm upgrade": "reach_from_outside",
        "curl": "reach_from_outside",
    },
    "Create buckets, change settings": {
        "helm upgrade": "change_settings",
        "tarn cluster config set": "change_settings",
    },
    "Read through to cloud storage": {
        "kubectl -n tarn create secret": "change_settings",
        "helm upgrade": "change_settings",
        "tarn bucket create": "change_settings",
    },
    "Upgrade": {
        "helm upgrade": "upgrade",
        "helm rollback": "upgrade",
        "tarn node safe-to-stop": "delete_pods",
        "tarn node remove-unsafe": "kill_pods",
    },
    "Add and remove targets": {
        "helm upgrade tarn helm/tarn -n tarn --reuse-values --set targets.replicas=4": "scale",
        "kubectl -n tarn exec": "scale",
        "tarn node decommission": "scale",
        "helm upgrade tarn helm/tarn -n tarn --reuse-values --set targets.replicas=3": "scale",
        "kubectl -n tarn delete pvc": "scale",
    },
    "Add drives": {
        "kubectl -n tarn delete statefulset": "add_drives",
        "helm upgrade": "add_drives",
        "for i in 0 1 2": "add_drives",
    },
    "Replace a drive": {
        "tarn drive detach": "replace_drive",
        "tarn redundancy": "replace_drive",
        "kubectl -n tarn delete pod": "replace_drive",
        "tarn drive attach": "replace_drive",
    },
    "Replace a machine": {
        "kubectl delete node": "replace_machine",
        "kubectl -n tarn delete pvc": "replace_machine",
        "helm upgrade": "replace_machine",
        "kubectl -n tarn delete pod": "replace_machine",
        "tarn node remove-unsafe": "replace_machine",
    },
}

# Section: {how a command of it begins: why no step runs it}.
NOT_RUN = {
    "Make the image": {
        "podman build": "there is no podman: buildah makes the image of the same file, from the sources with --compile",
        "podman push": "there is no registry: each node imports the image from an archive",
    },
    "Install in a cloud": {
        "helm install": "there is no cloud: no volumes on demand, no load balancers, no metrics and no Prometheus operator",
    },
}

# (pattern in a command, what stands in its place, why). {name}: a value that the step has.
REPLACEMENTS = (
    (r"-n tarn(?= |$)", "-n {namespace}", "releases stand side by side, each in a namespace of its own"),
    (r"namespace tarn\b", "namespace {namespace}", "the same"),
    (r"(-f) helm/tarn/values-(local-pv|hostpath)\.yaml", r"\1 \2.yaml", "a copy of the profile with machines and paths of the test"),
    (r"delete node worker-3", "delete node {machine}", "the machine on which a pod happens to be"),
    (r"\bworker-(\d)", r"n\1", "names of machines"),
    (r"--timeout 60m", "--timeout 10m", "a run that hangs is to end"),
    (r"^helm test .*", r"\g<0> --timeout 10m", "the test that deletes a pod may take longer than the 5 minutes of helm on a busy machine"),
    (r"image\.tag=0\.1\.1", "image.tag={tag}", "the tag of an image that the test has"),
    (r"http://PROXY:8080", "{proxy_url}", "the address of a machine, with the port of the Service"),
    (r"http://store:9000", "{store_url}", "an S3 server outside of the Kubernetes cluster"),
    (r"TARGET-ID", "{target}", "ids"),
    (r"PROXY-ID", "{proxy}", "ids"),
    (r"drive-d0-tarn-target-3", "drive-d0-tarn-target-3 drive-d1-tarn-target-3", "targets have two drives"),
    (r"drive-d1-tarn-target-2", "drive-d1-tarn-target-2 drive-d2-tarn-target-2", "targets have been given a third drive"),
)


class Wrong(Exception):
    """The tables and the document do not fit together; one line."""


def parse():
    """[(section, command)] in the order of the document. Commands are the lines of its sh blocks, and the first line of a
    block without a language. The rest of such a block is what the command prints."""
    found, section, language = [], "", None
    for line in DOCUMENT.read_text().splitlines():
        if line.startswith("## "):
            section = line[3:]
        elif line.startswith("```"):
            language, first = (line[3:] if language is None else None), True
        elif language == "sh" or (language == "" and first):
            found.append((section, line))
            first = False
    return found


def parse_output(section, command):
    """The pattern of what a block without a language has below its command; "(...)" stands for anything."""
    text = re.search(rf"^## {re.escape(section)}\n.*?^```\n{re.escape(command)}\n(.*?)\n```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    if not text:
        raise Wrong(f"{section}: {command!r} has no output")
    return ".*".join(re.escape(part) for part in replace(text[1], {}).split("(...)"))


def match(section, command, table):
    """How the command begins by a table, or None; the longest beginning counts."""
    return max((start for start in table.get(section, {}) if command.startswith(start)), key=len, default=None)


def compare():
    """Lines about commands that stand in no table or in both, and about rows that no command or two have; none when all is well."""
    commands, complaints, rows = parse(), [], []
    for section, command in commands:
        its = [start for start in (match(section, command, table) for table in (RUN_BY, NOT_RUN)) if start]
        rows += [(section, start) for start in its]
        if len(its) != 1:
            complaints.append(f"{section}: {command!r} stands in {len(its)} tables of tests/kubernetes/document.py")
    for table in (RUN_BY, NOT_RUN):
        for section, starts in table.items():
            for start in starts:
                if rows.count((section, start)) != 1:
                    complaints.append(f"{section}: {rows.count((section, start))} commands begin with {start!r}")
    text = [command for _, command in commands]
    complaints += [f"no command has {pattern}" for pattern, _, _ in REPLACEMENTS if not any(re.search(pattern, command) for command in text)]
    return complaints


def replace(command, values):
    """The command with what the tests have in place of the reader's names."""
    for pattern, new, _ in REPLACEMENTS:
        if re.search(pattern, command):
            missing = [name for name in re.findall(r"\{(\w+)\}", new) if name not in values]
            if missing:
                raise Wrong(f"{command!r} needs {missing[0]}")
            command = re.sub(pattern, re.sub(r"\{(\w+)\}", lambda name: str(values[name[1]]), new), command)
    return command


class Commands:
    """The commands of the document, and which of them were run."""

    def __init__(self):
        complaints = compare()
        if complaints:
            raise Wrong("\n".join(complaints))
        self.all = parse()
        self.taken = set()

    def take(self, section, starts, values):
        """Commands of a section, ready to be run: those that begin so, or all of them."""
        of_section = [command for its, command in self.all if its == section]
        starts = starts or [match(section, command, RUN_BY) for command in of_section]
        for start in starts:
            if start not in RUN_BY.get(section, {}):
                raise Wrong(f"RUN_BY of tests/kubernetes/document.py has no row {section}: {start!r}")
        chosen = [command for start in starts for command in of_section if match(section, command, RUN_BY) == start]
        self.taken |= {(section, command) for command in chosen}
        return [replace(command, values) for command in chosen]

    def left(self):
        """The commands that were not run, without those for which NOT_RUN has a reason."""
        return [each for each in self.all if each not in self.taken and not match(*each, NOT_RUN)]

    def excused(self):
        """Lines about commands that no step runs, with the reason."""
        return [f"{section}: {command}: {NOT_RUN[section][start]}" for section, command in self.all if (start := match(section, command, NOT_RUN))]
