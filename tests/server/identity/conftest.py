"""The world that tests of identity and of the audit log act in."""

import pytest

from terracrew.server.db import Database
from tests.server.identity.world import World, build


@pytest.fixture
async def world(database: Database) -> World:
    return await build(database)
