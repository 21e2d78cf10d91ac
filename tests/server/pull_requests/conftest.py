from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.builders.clock import ShiftedClock
from tests.server.application import Application
from tests.server.pull_requests.world import World
from tests.server.simulated_runner import SimulatedRunner


@pytest.fixture
async def world(application: Application, clock: ShiftedClock, tmp_path: Path) -> AsyncIterator[World]:
    runner = await SimulatedRunner.make(application, knows_merge_results=True)
    async with World.open(runner, clock, tmp_path) as found:
        yield found
