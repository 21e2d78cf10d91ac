"""A registry that really runs, and a way to fetch from it as an executor does."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from terracrew.executor.isolation.source_rules import SourceConfinement
from terracrew.executor.sources.contract import FetchContext
from terracrew.executor.sources.fetch import folder_in
from terracrew.executor.sources.registry.fetcher import RegistryFetcher
from terracrew.protocol.events import SourceResolved
from terracrew.protocol.spec import RegistrySource
from terracrew.protocol.start import IsolationSettings
from terracrew.testing.source_contract import no_transfer
from tests.machine import module_registry
from tests.machine.module_registry import ModuleRegistry


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[ModuleRegistry]:
    with module_registry.running(tmp_path / "registry") as registry:
        yield registry


class Fetches:
    """Fetches modules, each into a workspace of its own."""

    def __init__(self, folder: Path, registry: ModuleRegistry) -> None:
        self._folder, self._count = folder, 0
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "SSL_CERT_FILE": str(registry.ca)}
        self.context = FetchContext(folder / "cache", [], no_transfer(), environment=self.environment, owner="org_1")
        self.workspace = self.ran_in = folder

    async def __call__(self, source: RegistrySource, **changes: Any) -> SourceResolved:
        self._count += 1
        self.workspace = self._folder / f"workspace-{self._count}"
        self.workspace.mkdir()
        confinement = SourceConfinement(IsolationSettings(), self.environment)
        context = msgspec.structs.replace(
            self.context, environment=self.environment, confinement=confinement, **changes
        )
        try:
            resolved = await RegistryFetcher().fetch(source, self.workspace, context)
        finally:
            confinement.close()
        self.ran_in = folder_in(self.workspace, source, resolved.digest)
        return resolved


@pytest.fixture
def fetch(tmp_path: Path, registry: ModuleRegistry) -> Fetches:
    return Fetches(tmp_path, registry)
