"""The Compose file, started with its own script for the first start: a server on PostgreSQL, and a runner."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from terracrew.client.http import Api
from tests.deploy import containers
from tests.deploy.containers import NAME, ROOT, TAG, Docker
from tests.e2e import modules
from tests.e2e.system import System, eventually
from tests.machine import platforms
from tests.machine.platforms import debian_image

pytestmark = [pytest.mark.platform("docker"), pytest.mark.engine, pytest.mark.timeout(1800)]
TOKEN = """
import asyncio, os
from terracrew.server.db import open_database
from terracrew.server.identity.people import service, store
from terracrew.server.identity.people.sessions import person

async def main():
    db = await open_database(os.environ["TERRACREW_SERVER_DATABASE_URL"])
    admin = await db.read(lambda tx: store.user(tx, service.ADMINISTRATOR))
    _, secret = await service.create_token(db, person(admin, None), "for a test", None)
    print(secret.text)
    await db.close()

asyncio.run(main())
"""
"""Makes a token as the dashboard does after the first login."""


class Composed(System):
    """What `docker-compose up` has started in a folder."""

    def __init__(self, folder: Path, docker: Docker, postgres: str) -> None:
        super().__init__(folder)
        self._environment = docker.environment | {
            "IMAGE": NAME,
            "TAG": TAG,
            "POSTGRES_IMAGE": postgres,
            "LISTEN": f"127.0.0.1:{self.port}",
            "COMPOSE_PROJECT_NAME": f"terracrew-test-{os.getpid()}",
        }
        self._token = ""

    def compose(self, *arguments: str) -> str:
        return self.command("docker-compose", "--file", "compose.yaml", *arguments)

    def command(self, *command: str) -> str:
        done = subprocess.run(
            command, cwd=self.directory, env=self._environment, capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    @property
    def api(self) -> Api:
        self._token = self._token or self.compose("exec", "-T", "server", "python3", "-c", TOKEN).strip()
        return Api(self.url, self._token)


@pytest.fixture
def composed(tmp_path: Path) -> Iterator[Composed]:
    docker = containers.docker()
    for target in ("server", "runner"):
        containers.image(target)
    base = debian_image.image(platforms.need("docker"))
    postgres = containers.built(Path(__file__).parent / "postgres" / "Dockerfile", f"BASE={base}")
    folder = shutil.copytree(ROOT / "deploy" / "compose", tmp_path / "compose")
    system = Composed(folder, docker, postgres)
    system.command("./prepare")
    try:
        yield system
    finally:
        system.compose("down", "--volumes", "--timeout", "5")


@pytest.mark.feature("D8.compose")
def test_the_compose_file_starts_everything_and_the_runner_applies_a_module(composed: Composed) -> None:
    assert {path.name: path.stat().st_mode & 0o777 for path in composed.directory.glob("*.env")} == {
        "postgres.env": 0o600,
        "server.env": 0o600,
        "runner.env": 0o600,
    }
    composed.compose("up", "-d")
    eventually(
        lambda: "/login/" in composed.compose("logs", "--no-color", "server"), within=180, what="the link to log in"
    )
    composed.module("a", modules.quick())
    done = composed.wait(composed.run("a", "APPLY"), within=180)
    assert (done["status"], done["runner_path"]) == ("SUCCEEDED", "crew"), composed.compose("logs", "--no-color")

    composed.compose("restart", "--timeout", "30", "server")
    # Docker accepts connections for a container before its server listens, and resets them.
    eventually(lambda: composed.api.get("/modules/a"), within=180, what="the answer of the server after its restart")
    again = composed.wait(composed.run("a", "DESTROY"), within=180)
    assert again["status"] == "SUCCEEDED", composed.compose("logs", "--no-color")
