"""Fixtures that every test may use: an open, migrated and empty database of each kind."""

import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from terracrew.server.db import Database, open_database
from tests import cgroup
from tests.needs import need
from tests.postgres_server import PostgresServer, missing

DATABASES = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


def pytest_configure(config: pytest.Config) -> None:
    """A run that was started in the background ignores Ctrl-C, and would hand that down to every process of a test."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput") and (path := cgroup.enter()):
        config.add_cleanup(lambda: cgroup.leave(path))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL of our own, on loopback and thrown away afterwards."""
    need(missing())
    with PostgresServer.running() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """An empty, migrated database on that server."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database of each kind, to be opened by the test or by a process that it starts."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'terracrew.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """An open database of each kind, migrated and empty."""
    db = await open_database(database_url)
    yield db
    await db.close()
