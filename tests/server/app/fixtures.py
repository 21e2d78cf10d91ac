"""The fixture of the rooms whose tests speak HTTP."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from terracrew.testing.clock import ShiftedClock
from tests.server.app.world import World, open_world

on_one = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
"""For what is refused before any database is asked: one of the two is enough."""


@pytest.fixture
async def world(database_url: str, memory_path: Path, database_clock: ShiftedClock | None) -> AsyncIterator[World]:
    """A server on each database, with an administrator; sources may lie under /srv/sources."""
    roots = (Path("/srv/sources"),)
    async with open_world(database_url, memory_path / "data", clock=database_clock, local_roots=roots) as world:
        yield world
