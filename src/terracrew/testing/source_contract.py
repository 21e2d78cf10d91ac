"""The contract of a source as tests: inherit `SourceContract` in a pytest file, and say how a tree becomes a source."""

import asyncio
import os
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from terracrew.errors import TerracrewError
from terracrew.executor.delivery.transfer import Transfer
from terracrew.executor.sources.contract import FetchContext
from terracrew.executor.sources.fetch import fetcher
from terracrew.protocol.events import SourceResolved


class SourceContract:
    kind: ClassVar[str]
    """The kind under which the fetcher is registered."""

    def publish(self, tree: Path) -> tuple[Any, FetchContext]:
        """Make a source of this tree, and a context in which it can be fetched."""
        raise NotImplementedError

    def unusable(self, tree: Path) -> tuple[Any, FetchContext]:
        """Make a source that cannot be fetched: it does not exist, it is damaged, or its settings make no sense."""
        raise NotImplementedError

    def fetched(self, tree: Path, workspace: Path) -> SourceResolved:
        source, context = self.publish(tree)
        workspace.mkdir()
        return asyncio.run(fetcher(self.kind).fetch(source, workspace, context))

    @pytest.fixture
    def tree(self, tmp_path: Path) -> Path:
        tree = tmp_path / "tree"
        (tree / "modules").mkdir(parents=True)
        (tree / "main.tf").write_text("# the root\n")
        (tree / "modules" / "run.sh").write_text("#!/bin/sh\n")
        (tree / "modules" / "run.sh").chmod(0o755)
        (tree / "link.tf").symlink_to("main.tf")
        return tree

    def test_files_folders_links_and_executable_bits_arrive(self, tree: Path, tmp_path: Path) -> None:
        workspace = tmp_path / "workspace"
        self.fetched(tree, workspace)
        assert (workspace / "main.tf").read_text() == "# the root\n"
        assert os.readlink(workspace / "link.tf") == "main.tf"
        assert os.access(workspace / "modules" / "run.sh", os.X_OK)
        assert not os.access(workspace / "main.tf", os.X_OK)

    def test_the_same_content_has_the_same_digest(self, tree: Path, tmp_path: Path) -> None:
        first, second = (self.fetched(tree, tmp_path / name) for name in ("one", "two"))
        assert first == second
        assert first.digest
        assert first.description

    def test_other_content_has_another_digest(self, tree: Path, tmp_path: Path) -> None:
        before = self.fetched(tree, tmp_path / "one")
        (tree / "main.tf").write_text("# another root\n")
        assert self.fetched(tree, tmp_path / "two").digest != before.digest

    def test_a_source_that_cannot_be_fetched_is_refused_in_words(self, tree: Path, tmp_path: Path) -> None:
        source, context = self.unusable(tree)
        workspace = tmp_path / "workspace"
        workspace.mkdir()
        with pytest.raises((TerracrewError, OSError)) as caught:
            asyncio.run(fetcher(self.kind).fetch(source, workspace, context))
        assert str(caught.value)


def no_transfer() -> Transfer:
    """The transfer of a source that needs nothing from the server: every use of it fails."""
    return cast("Transfer", None)
