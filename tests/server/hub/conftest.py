"""A server with its hub on a socket; its loops do not run, so that the tests take each of their steps."""

from collections.abc import AsyncIterator

import pytest

from tests.server.app.fixtures import world
from tests.server.app.world import World
from tests.server.hub.wire import Hub, listening
from tests.server.logs.crew import Crew

__all__ = ["world"]


@pytest.fixture
async def hub(world: World) -> AsyncIterator[Hub]:
    async with listening(await Crew.make(world)) as found:
        yield found
