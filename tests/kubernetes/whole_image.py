"""The image as users make it: compiled from the sources by deploy/Containerfile, and a cluster of one target in it."""

import shutil
import subprocess

from cluster import WORK, Failed, build_base, build_image, buildah
from harness.cluster import REPOSITORY

NAME = "tarn-whole:1"
# In a network of its own, as the user of the image. The paths of a container's root are those of the image.
SCRIPT = r"""
set -eu
tarn --version
work=$(mktemp -d)
mkdir "$work/p" "$work/t" "$work/d"
head -c 3000000 /dev/urandom > "$work/sent"
tarn-proxy --dir "$work/p" --listen 127.0.0.1:8080 --relay 127.0.0.1:8081 --internal 127.0.0.1:8180 \
  > "$work/proxy.log" 2>&1 &
proxy=$! target=
trap 'kill -9 $proxy $target; rm -rf "$work"' EXIT
until curl -fs -o /dev/null http://127.0.0.1:8080/healthz; do kill -0 $proxy || { cat "$work/proxy.log"; exit 1; }; sleep 0.2; done
tarn-target --dir "$work/t" --drive "$work/d" --listen 127.0.0.1:8090 --internal 127.0.0.1:8190 \
  --join http://127.0.0.1:8180 --secret-file "$work/p/cluster.secret" > "$work/target.log" 2>&1 &
target=$!
until tarn --endpoint http://127.0.0.1:8080 node ls | grep -q 'target *up'; do
  kill -0 $target || { cat "$work/target.log"; exit 1; }
  sleep 0.2
done
tarn --endpoint http://127.0.0.1:8080 cluster wait --timeout 60s
curl -fsS -L -T "$work/sent" http://127.0.0.1:8080/data/object
curl -fsS -L -o "$work/got" http://127.0.0.1:8080/data/object
cmp "$work/sent" "$work/got"
echo "PUT and GET of an object: the same bytes, as user $(id -u)"
"""


def context():
    """The files that git knows, as they are here: what a user has after `git clone`."""
    folder = WORK / "whole-source"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    files = subprocess.run(["git", "-C", REPOSITORY, "ls-files", "-z"], capture_output=True, check=True).stdout
    subprocess.run(["tar", "-C", REPOSITORY, "--null", "-T", "-", "-cf", folder / "source.tar"], input=files, check=True)
    subprocess.run(["tar", "-C", folder, "-xf", folder / "source.tar"], check=True)
    (folder / "source.tar").unlink()
    return folder


def build_whole_image():
    """Compiles for eight minutes on two processors; Debian's packages come from its mirror."""
    build_base()
    build_image(NAME, REPOSITORY / "deploy/Containerfile", context(), "--build-arg", "BASE=localhost/debian:12")


def use_whole_image():
    """What the programs of the image print, in a container."""
    container = buildah("from", f"localhost/{NAME}").strip()
    try:
        command = ["buildah", "--root", WORK / "storage", "--runroot", WORK / "storage-run", "--storage-driver", "vfs",
                   "run", "--isolation", "chroot", container, "--", "timeout", "120", "bash", "-c", SCRIPT]
        shell = 'ip link set lo up && exec "$@"'
        done = subprocess.run(["unshare", "--net", "sh", "-c", shell, "sh", *map(str, command)], capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise Failed(f"the programs of the image do not work: {done.stdout}{done.stderr}")
        return done.stdout.strip().replace("\n", "\n  ")
    finally:
        buildah("rm", container)
