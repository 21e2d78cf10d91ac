import pytest

from terracrew.server.db.seam import Database
from tests.machine import platforms
from tests.server.policies.looking import Looking


@pytest.fixture
async def looking(database: Database) -> Looking:
    platforms.need("opa")
    return await Looking.make(database)
