"""A task in the background that ends because the database is away is not logged as an error."""

import asyncio

import pytest

from terracrew.errors import Unavailable
from terracrew.server.supervise import Tasks


@pytest.mark.parametrize(
    ("error", "level"), [(Unavailable("the database does not answer"), "WARNING"), (ValueError("odd"), "ERROR")]
)
async def test_a_task_that_a_database_outage_ended_is_no_error(
    error: Exception, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        raise error

    tasks = Tasks()
    tasks.start(work())
    async with asyncio.timeout(10):
        while not caplog.records:
            await asyncio.sleep(0)
    assert [record.levelname for record in caplog.records] == [level]
