"""A server on each database, with a runner whose executors the tests play."""

import pytest

from tests.server.app.fixtures import world
from tests.server.app.world import World
from tests.server.logs.crew import Crew

__all__ = ["world"]


@pytest.fixture
async def crew(world: World) -> Crew:
    return await Crew.make(world)
