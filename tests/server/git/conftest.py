"""A real git server on loopback, which these mirrors may fetch from as from any other."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from terracrew.server.git.mirrors import FetchedRefs, RepositoryMirrors
from terracrew.server.git.program import GitProgram
from terracrew.server.git.remotes import RemoteLogin
from terracrew.server.outgoing.client import OutgoingClient
from terracrew.server.outgoing.destinations import Destinations
from tests.machine import git_https
from tests.machine.git_https import GitHttps
from tests.machine.repositories import MODULE, Repository

KEY = "rep_1"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitHttps]:
    with git_https.running(tmp_path / "served") as server:
        yield server


@pytest.fixture
def repository(server: GitHttps) -> Repository:
    made = Repository(server.root / "network")
    made.commit("first", main=MODULE)
    return made


class WatchedRepository:
    """A mirror of one repository, as a server that watches it uses it."""

    def __init__(self, folder: Path, server: GitHttps, repository: Repository) -> None:
        self.folder, self.url = folder, server.of(repository.name)
        self.program = GitProgram(folder / "home", dict(os.environ) | server.environment)
        self.mirrors = RepositoryMirrors(
            folder / "repositories", OutgoingClient(Destinations(hosts=frozenset(("localhost",)))), self.program
        )
        self.login: RemoteLogin | None = None

    async def fetch(self, *refs: str) -> FetchedRefs:
        return await self.mirrors.fetch(KEY, "org_1", self.url, self.login, refs or ("refs/heads/main",))

    @property
    def mirror(self) -> Path:
        return self.mirrors.folder(KEY)


@pytest.fixture
def watched(tmp_path: Path, server: GitHttps, repository: Repository) -> WatchedRepository:
    return WatchedRepository(tmp_path, server, repository)
