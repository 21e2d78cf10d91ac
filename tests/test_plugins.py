"""Plug-ins of other packages, found through their entry points."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from terracrew import plugins
from terracrew.errors import Invalid

ENTRY_POINTS = """[terracrew.engines]
theirs = their_engine:ENGINE
broken = their_engine:MISSING
tofu = their_engine:ENGINE
"""


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package of somebody else, as an installer leaves it."""
    metadata = tmp_path / "their_engine-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: their-engine\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    (tmp_path / "their_engine.py").write_text("ENGINE = 'an engine'\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    plugins.forget()
    yield
    sys.modules.pop("their_engine", None)
    plugins.forget()


def test_a_plug_in_of_another_package_is_loaded_by_its_name() -> None:
    assert plugins.has(plugins.ENGINES, "theirs")
    assert plugins.names(plugins.ENGINES)[0] == "tofu"
    assert plugins.load(plugins.ENGINES, "theirs") == "an engine"


def test_a_plug_in_never_replaces_a_built_in_one() -> None:
    assert plugins.load(plugins.ENGINES, "tofu") != "an engine"
    assert plugins.names(plugins.ENGINES).count("tofu") == 1


def test_only_built_in_plug_ins_are_imported_ahead_of_time() -> None:
    """A plug-in that started a thread while it was imported would have started it in the process that forks executors."""
    plugins.preload(plugins.ENGINES)
    assert "their_engine" not in sys.modules
    assert plugins.load.cache_info().currsize == len(plugins.BUILT_IN[plugins.ENGINES])


@pytest.mark.parametrize("name", ["broken", "absent"])
def test_a_plug_in_that_cannot_be_loaded_is_named(name: str) -> None:
    with pytest.raises(Invalid, match=name):
        plugins.load(plugins.ENGINES, name)
