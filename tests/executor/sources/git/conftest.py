"""A real git server on loopback, and a way to fetch from it as an executor does."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from terracrew.executor.isolation.source_rules import SourceConfinement
from terracrew.executor.sources.contract import FetchContext, FetchLimits
from terracrew.executor.sources.git.fetcher import GitFetcher
from terracrew.protocol.events import SourceResolved
from terracrew.protocol.spec import GitSource
from terracrew.protocol.start import IsolationSettings
from terracrew.testing.source_contract import no_transfer
from tests.machine import git_https
from tests.machine.git_https import GitHttps
from tests.machine.repositories import MODULE, Repository


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitHttps]:
    with git_https.running(tmp_path / "served") as server:
        yield server


@pytest.fixture
def repository(server: GitHttps) -> Repository:
    made = Repository(server.root / "network")
    made.commit("first", main=MODULE)
    return made


class Fetches:
    """Fetches sources, each into a workspace of its own, and keeps what was said meanwhile."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.limits = FetchLimits()
        self.isolation = IsolationSettings(private_paths=[str(folder / "private")])
        home = folder / "home"
        home.mkdir()
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("GIT_", "SSH_"))}
        self.context = FetchContext(
            cache=folder / "cache",
            roots=[],
            transfer=no_transfer(),
            environment=kept | {"HOME": str(home)} | environment,
            owner="org_1",
            say=self.said.append,
        )
        self.workspace = folder
        self._count = 0

    async def __call__(self, source: GitSource, **changes: Any) -> SourceResolved:
        self._count += 1
        self.workspace = self.folder / f"workspace-{self._count}"
        self.workspace.mkdir()
        context = msgspec.structs.replace(self.context, **changes)
        confinement = SourceConfinement(self.isolation, context.environment)
        context = msgspec.structs.replace(context, confinement=confinement)
        try:
            return await GitFetcher(self.limits).fetch(source, self.workspace, context)
        finally:
            confinement.close()

    @property
    def files(self) -> dict[str, str]:
        """The files of the last workspace, by their paths."""
        found = (path for path in self.workspace.rglob("*") if path.is_file())
        return {str(path.relative_to(self.workspace)): path.read_text() for path in found}

    @property
    def mirrors(self) -> list[Path]:
        return [path for path in (self.context.cache / "git").iterdir() if path.is_dir()]


@pytest.fixture
def fetch(tmp_path: Path, server: GitHttps) -> Fetches:
    return Fetches(tmp_path, server.environment)
