"""The images of a release: a second build gives the same image, and a pushed one is named by the digest that its registry has."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy import containers, image_registry
from tests.deploy.containers import ROOT
from tests.machine import platforms
from tests.machine.platforms import debian_image

pytestmark = [pytest.mark.platform("docker"), pytest.mark.engine, pytest.mark.timeout(2400)]
NAME = "terracrew-test-twice"
EPOCH = "1763424000"
BUILD_SECONDS = 1100
RECOGNIZES = """
from pathlib import Path
from terracrew.toolchains import discovery, remembered
remembered.recall()
print([remembered.version(Path(each.path)) == each.version for each in discovery.find_all()])
"""
"""Prints whether the versions of engines are known without starting them."""
PUSH = "import sys, images; print(images.push(sys.argv[1]))"


@pytest.mark.feature("V1.build")
def test_two_builds_without_a_cache_give_the_same_image() -> None:
    """The installer of packages had left the time of the installation beside them, in one file of 15,000."""
    docker = containers.docker()
    base = debian_image.image(platforms.need("docker"))
    ids: list[str] = []
    bills: list[bytes] = []
    for tag in ("one", "two"):
        options = ["--base", base, "--name", NAME, "--tag", tag, "--network", "host", "--target", "executor"]
        subprocess.run(
            [sys.executable, "scripts/images.py", *options, "--epoch", EPOCH, "--no-cache"],
            cwd=ROOT,
            env=os.environ | docker.environment | {"DOCKER_BUILDKIT": "0"},
            check=True,
            timeout=BUILD_SECONDS,
        )
        ids.append(docker.run("image", "inspect", "--format", "{{.Id}} {{.RootFS.Layers}}", f"{NAME}-executor:{tag}"))
        bills.append(Path(ROOT, "build", "images", "executor.cdx.json").read_bytes())
    assert ids[0] == ids[1]
    assert bills[0] == bills[1]
    run = ("run", "--rm", "--network", "none", "--entrypoint", "python3", f"{NAME}-executor:two", "-c", RECOGNIZES)
    assert docker.run(*run).splitlines() == ["[True]"]
    docker.run("image", "rm", f"{NAME}-executor:one", f"{NAME}-executor:two")


def test_a_pushed_image_is_named_by_the_digest_of_its_registry() -> None:
    docker = containers.docker()
    base = debian_image.image(platforms.need("docker"))
    with image_registry.running() as registry:
        image = f"{registry.host}/acme/terracrew-runner:0.1.0-rc.1"
        docker.run("tag", base, image)
        done = subprocess.run(
            [sys.executable, "-c", PUSH, image],
            cwd=ROOT / "scripts",
            env=os.environ | docker.environment,
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
        )
        docker.run("image", "rm", image)
    assert done.returncode == 0, done.stderr
    manifest = registry.manifests["acme/terracrew-runner:0.1.0-rc.1"]
    assert done.stdout.strip() == f"{image}@sha256:{hashlib.sha256(manifest).hexdigest()}"
