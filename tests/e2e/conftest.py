"""Whole systems for the end-to-end tests, and the real OpenTofu that they run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from terracrew.toolchains import discovery, install
from tests.e2e.gate import Gate
from tests.e2e.system import System, running


@pytest.fixture(scope="session", autouse=True)
def tofu() -> str:
    """OpenTofu as a user would get it; built once, kept in the cache."""
    found = discovery.find("tofu") or install.install("tofu", report=lambda _: None)
    return found.path


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    """A server on SQLite with its built-in runner, not yet started."""
    with running(tmp_path) as found:
        yield found


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate.closed() as found:
        yield found
