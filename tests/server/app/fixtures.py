"""The fixture of the rooms whose tests speak HTTP."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.server.app.world import World, open_world

on_one = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
"""For what is refused before any database is asked: one of the two is enough."""


@pytest.fixture
async def world(database_url: str, memory_path: Path) -> AsyncIterator[World]:
    """A server on each database, with an administrator; sources may lie under /srv/sources."""
    async with open_world(database_url, memory_path / "data", local_roots=(Path("/srv/sources"),)) as world:
        yield world
