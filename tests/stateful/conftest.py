"""What the stateful tests share: nobody waits by the clock on the wall, and each example has a database of its own."""

import asyncio
import logging
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import structlog

from terracrew.server.db import availability, open_database
from terracrew.server.hub import runners, takeover
from tests.stateful.machine import Machine
from tests.stateful.site import copied


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Time is the machine's own; and nobody reads the log."""
    monkeypatch.setattr(availability, "RETRY_PAUSES_SECONDS", (0.0,) * 5)
    monkeypatch.setattr(runners, "LEAVING_SECONDS", 0.1)
    monkeypatch.setattr(takeover, "ANSWER_TIMEOUT_SECONDS", 0.0)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def template() -> Iterator[Path]:
    """A migrated SQLite file, in memory where there is some."""
    with TemporaryDirectory(prefix="stateful-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        file = Path(folder) / "template.db"

        async def make() -> None:
            await (await open_database(str(file))).close()

        asyncio.run(make())
        yield file


@pytest.fixture
def on_sqlite(template: Path, impatient: None) -> type[Machine]:
    @contextmanager
    def copy() -> Generator[str]:
        with TemporaryDirectory(dir=template.parent) as folder:
            yield copied(template, Path(folder))

    class OnSqlite(Machine):
        fresh = staticmethod(copy)

    return OnSqlite
