"""Tasks that nobody waits for."""

import asyncio

import pytest
from structlog.testing import capture_logs

from terracrew.errors import Unavailable
from terracrew.server.supervise import Tasks


@pytest.mark.feature("O6")
@pytest.mark.parametrize(
    ("error", "level"), [(Unavailable("the database does not answer"), "warning"), (ValueError("odd"), "error")]
)
async def test_a_task_that_a_database_outage_ended_is_no_error(error: Exception, level: str) -> None:
    async def work() -> None:
        raise error

    tasks = Tasks()
    with capture_logs() as logged:
        tasks.start(work())
        async with asyncio.timeout(10):
            while not logged:
                await asyncio.sleep(0)
    assert [entry["log_level"] for entry in logged] == [level]
