"""The two sources keep the contract of a source."""

from pathlib import Path
from typing import Any

from terracrew import archive
from terracrew.executor.sources.contract import FetchContext
from terracrew.protocol.spec import ArchiveSource, LocalSource
from terracrew.testing.source_contract import SourceContract, no_transfer


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
