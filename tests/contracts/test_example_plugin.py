"""The engine and the source of the example package keep their contracts: authors of plug-ins test theirs like this."""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from terracrew import plugins
from terracrew.executor.sources.contract import FetchContext
from terracrew.protocol.spec import PluginSource
from terracrew.testing.engine_contract import EngineContract
from terracrew.testing.source_contract import SourceContract, no_transfer
from tests import example_plugin


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", [str(example_plugin.DIRECTORY), *sys.path])
    plugins.forget()
    yield
    plugins.forget()
    for name in [name for name in sys.modules if name.startswith("terracrew_notes")]:
        del sys.modules[name]


def notes(**found: Mapping[str, str]) -> dict[str, str]:
    return {"notes.json": json.dumps({"notes": found, "outputs": {"answer": "42"}})}


class TestNotes(EngineContract):
    name = "notes"
    source = notes(one={"text": "1"})
    before_source = source
    changed_source = notes(two={"text": "2"}, three={"text": "3"})
    changed_counts = {"add": 2, "destroy": 1}  # noqa: RUF012  # the suite declares it as a class variable
    invalid_source = {"notes.json": "{"}  # noqa: RUF012
    invalid_reason = "notes.json is not JSON"
    failing_source = notes(one={"text": "1"}, two={"fail": "the pen is empty"})
    failing_reason = "the pen is empty"

    def held_source(self, pipe: Path) -> Mapping[str, str]:
        return notes(one={"text": "1"}, two={"pipe": str(pipe)})


class TestText(SourceContract):
    kind = "text"

    def publish(self, tree: Path) -> tuple[Any, FetchContext]:
        files: dict[str, dict[str, object]] = {}
        for path in sorted(tree.rglob("*")):
            name = str(path.relative_to(tree))
            if path.is_symlink():
                files[name] = {"link": str(path.readlink())}
            elif path.is_file():
                files[name] = {"text": path.read_text(), "is_executable": bool(path.stat().st_mode & 0o100)}
        return PluginSource("text", {"files": files}), FetchContext(tree.parent, [], no_transfer())

    def unusable(self, tree: Path) -> tuple[Any, FetchContext]:
        return PluginSource("text", {"folder": str(tree)}), FetchContext(tree.parent, [], no_transfer())
