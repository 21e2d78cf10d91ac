from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.builders.clock import ShiftedClock
from tests.server.application import Application
from tests.server.discovery.found import Found


@pytest.fixture
async def found(application: Application, clock: ShiftedClock, tmp_path: Path) -> AsyncIterator[Found]:
    async with Found.open(application, clock, tmp_path) as made:
        yield made
