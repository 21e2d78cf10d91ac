"""All sources keep the contract of a source."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from terracrew.executor.sources.contract import FetchContext
from terracrew.protocol.spec import ArchiveSource, GitSource, LocalSource, RegistrySource
from terracrew.source_rules import archive
from terracrew.testing.source_contract import SourceContract, no_transfer
from tests.machine import git_https, module_registry
from tests.machine.repositories import Repository


class TestArchive(SourceContract):
    kind = "archive"

    def publish(self, tree: Path) -> tuple[Any, FetchContext]:
        return ArchiveSource("arc_1"), FetchContext(tree.parent, [], no_transfer(), archive.pack(tree))

    def unusable(self, tree: Path) -> tuple[Any, FetchContext]:
        damaged = ArchiveSource("arc_1", sha256="0" * 64)
        return damaged, FetchContext(tree.parent, [], no_transfer(), archive.pack(tree))


class TestLocal(SourceContract):
    kind = "local"

    def publish(self, tree: Path) -> tuple[Any, FetchContext]:
        return LocalSource(str(tree)), FetchContext(tree.parent, [str(tree.parent)], no_transfer())

    def unusable(self, tree: Path) -> tuple[Any, FetchContext]:
        return LocalSource(str(tree / "absent")), FetchContext(tree.parent, [str(tree.parent)], no_transfer())


@pytest.mark.feature("J5.git")
class TestGit(SourceContract):
    kind = "git"

    @pytest.fixture(autouse=True)
    def served(self, tmp_path: Path) -> Iterator[None]:
        with git_https.running(tmp_path / "served") as self.server:
            yield

    def publish(self, tree: Path) -> tuple[Any, FetchContext]:
        folder = self.server.root / "published"
        repository = Repository(folder) if not folder.exists() else self.repository
        self.repository = repository
        subprocess.run(["cp", "-a", f"{tree}/.", str(folder)], check=True)
        if repository.git("status", "--porcelain"):
            repository.commit("published")
        return GitSource(self.server.of("published")), self.context(tree)

    def unusable(self, tree: Path) -> tuple[Any, FetchContext]:
        return GitSource(self.server.of("absent")), self.context(tree)

    def context(self, tree: Path) -> FetchContext:
        environment = {"PATH": os.environ["PATH"], "HOME": str(tree.parent)} | self.server.environment
        return FetchContext(tree.parent / "cache", [], no_transfer(), environment=environment)


@pytest.mark.feature("J5.registry")
class TestRegistry(SourceContract):
    kind = "registry"

    @pytest.fixture(autouse=True)
    def registry(self, tmp_path: Path) -> Iterator[None]:
        with module_registry.running(tmp_path / "registry") as self.served:
            yield

    def publish(self, tree: Path) -> tuple[Any, FetchContext]:
        self.served.files["/network.tar.gz"] = archive.pack(tree)
        self.served.versions["acme/network/aws"] = {"1.0.0": "/network.tar.gz"}
        return RegistrySource(self.served.address()), self.context(tree)

    def unusable(self, tree: Path) -> tuple[Any, FetchContext]:
        return RegistrySource(self.served.address()), self.context(tree)

    def context(self, tree: Path) -> FetchContext:
        environment = {"SSL_CERT_FILE": str(self.served.ca)}
        return FetchContext(tree.parent / "cache", [], no_transfer(), environment=environment)
