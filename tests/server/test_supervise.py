"""A loop or a task in the background that ends because the database is away is not logged as an error."""

import asyncio

import pytest

from terracrew.errors import Unavailable
from terracrew.server.supervise import Tasks, supervise

AWAY = Unavailable("the database does not answer")


@pytest.mark.parametrize(("error", "level"), [(AWAY, "WARNING"), (ValueError("odd"), "ERROR")])
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


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (AWAY, "WARNING"),
        (ExceptionGroup("of two tasks", [AWAY]), "WARNING"),
        (ExceptionGroup("of two tasks", [ExceptionGroup("of two more", [AWAY])]), "WARNING"),
        (ExceptionGroup("of two tasks", [AWAY, ValueError("odd")]), "ERROR"),
        (ValueError("odd"), "ERROR"),
    ],
)
async def test_a_loop_that_a_database_outage_ended_waits_for_the_database(
    error: Exception, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A loop of two tasks was logged as failed, with a traceback, whenever the database was away."""
    is_over = asyncio.Event()
    waited: list[str] = []

    async def loop() -> None:
        is_over.set()
        raise error

    async def ready() -> None:
        waited.append("for the database")

    await supervise("odd jobs", loop, until=is_over, ready=ready)
    assert [record.levelname for record in caplog.records] == [level]
    assert bool(waited) == (level == "WARNING")
