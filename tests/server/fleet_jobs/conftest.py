from collections.abc import AsyncGenerator, Callable

import pytest

from tests.builders.job_rows import JobRows
from tests.server.fleet_jobs.fleet_rows import FleetRows
from tests.server.fleet_jobs.fleet_servers import FleetServer


@pytest.fixture
async def fleet(rows: JobRows) -> FleetRows:
    return FleetRows(rows)


@pytest.fixture
async def servers(fleet: FleetRows) -> AsyncGenerator[Callable[[str], FleetServer]]:
    made: list[FleetServer] = []

    def make(name: str) -> FleetServer:
        made.append(FleetServer(fleet, name))
        return made[-1]

    yield make
    for each in made:
        await each.loop.stop()
