import pytest

from terracrew.testing.job_rows import JobRows
from tests.server.fleet_jobs.fleet_rows import FleetRows


@pytest.fixture
async def fleet(rows: JobRows) -> FleetRows:
    return FleetRows(rows)
