"""Builds the images that tests need, and starts containers that end with the test."""

import contextlib
import os
import subprocess
import sys
import uuid
from collections.abc import Generator
from pathlib import Path

from terracrew.client.http import Api
from terracrew.toolchains import cache
from tests.e2e.system import System
from tests.machine import platforms
from tests.machine.platforms import debian_image

ROOT = Path(__file__).parents[2]
NAME, TAG = "terracrew-test", "current"
BUILD_SECONDS = 1500


class Docker:
    """The commands of Docker that tests use, on the daemon of the registry of platforms."""

    def __init__(self, address: str) -> None:
        self.environment = {
            "DOCKER_HOST": address,
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin",
            "DOCKER_BUILDKIT": "0",
        }

    def run(self, *arguments: str, within: float = 120, code: int = 0) -> str:
        """Return what a command printed, standard error included if it failed as expected."""
        command = ["docker", *arguments]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=within, check=False
        )
        assert done.returncode == code, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout if code == 0 else done.stdout + done.stderr

    @contextlib.contextmanager
    def started(self, image: str, *options: str, command: tuple[str, ...] = ()) -> Generator[str]:
        """Start a container on the network of the machine and yield its name. It is removed afterwards."""
        name = f"terracrew-test-{uuid.uuid4().hex[:12]}"
        self.run("run", "--detach", "--name", name, "--network", "host", *options, image, *command)
        try:
            yield name
        finally:
            self.run("rm", "--force", "--volumes", name)

    def is_done(self, *arguments: str) -> bool:
        """Return whether a command succeeds."""
        command = ["docker", *arguments]
        return (
            subprocess.run(command, env=self.environment, capture_output=True, timeout=120, check=False).returncode == 0
        )

    def logs(self, name: str) -> str:
        done = subprocess.run(
            ["docker", "logs", name], env=self.environment, capture_output=True, text=True, check=False
        )
        return done.stdout + done.stderr


class ContainedServer(System):
    """A server in a container. What a person does with it is the same as with another."""

    def __init__(self, directory: Path, docker: Docker) -> None:
        super().__init__(directory)
        self._docker = docker
        self.name = ""
        """The container's name."""

    @property
    def api(self) -> Api:
        token = self._docker.run("exec", self.name, "cat", "/var/lib/terracrew/admin.token")
        return Api(self.url, token.strip())

    def is_healthy(self) -> bool:
        return self._docker.run("inspect", "--format", "{{.State.Health.Status}}", self.name).strip() == "healthy"


def docker() -> Docker:
    return Docker(platforms.need("docker"))


def image(target: str) -> str:
    """Return the name of an image of this checkout. Docker's cache makes a second build take seconds."""
    address = platforms.need("docker")
    base = debian_image.image(address)
    command = [sys.executable, "scripts/images.py", "--base", base, "--name", NAME, "--tag", TAG, "--network", "host"]
    with cache.locked("platforms-images", lambda: None):
        done = subprocess.run(
            [*command, "--target", target],
            cwd=ROOT,
            # The builder that every version of Docker has; the other one is a plug-in of the command.
            env={**os.environ, "DOCKER_HOST": address, "DOCKER_BUILDKIT": "0"},
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    return f"{NAME}-{target}:{TAG}"


def built(dockerfile: Path, *arguments: str) -> str:
    """Return the id of an image that only tests need, built from a Dockerfile with the folder that it is in."""
    made = docker()
    values = [word for argument in arguments for word in ("--build-arg", argument)]
    options = ("--quiet", "--network", "host", *values, "--file", str(dockerfile))
    with cache.locked("platforms-images", lambda: None):
        return made.run("build", *options, str(dockerfile.parent), within=BUILD_SECONDS).strip()
