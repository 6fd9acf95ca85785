"""An earlier release, from which a cluster is upgraded: its chart, and an image of its programs."""

import shutil
import subprocess

from cluster import WORK, Failed, build_tarn_image, run
from harness.cluster import REPOSITORY

IMAGE = "0"  # its tag


def git(*words):
    done = subprocess.run(["git", "-C", REPOSITORY, *words], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def newest():
    """The newest tag that is an ancestor of what is here and not the same; empty if there is none yet."""
    return git("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD~1")


def build(revision):
    """Compiles the release and makes its image. Returns its source tree. What was compiled once is kept."""
    commit = git("rev-parse", "--verify", f"{revision}^{{commit}}")
    if not commit:
        raise Failed(f"there is no revision {revision} to upgrade from")
    tree = WORK / "releases" / commit[:12]
    programs = tree / "build/release/bin"
    if not (tree / "compiled").exists():
        shutil.rmtree(tree, ignore_errors=True)
        tree.mkdir(parents=True)
        run("git", "-C", REPOSITORY, "archive", "-o", tree / "source.tar", commit)
        run("tar", "-C", tree, "-xf", tree / "source.tar")
        run("cmake", "--preset", "release", cwd=tree)
        run("cmake", "--build", "--preset", "release", "--target", "tarn", "tarn-proxy", "tarn-target", cwd=tree)
        (tree / "compiled").touch()
    build_tarn_image(IMAGE, tree, programs)
    return tree
