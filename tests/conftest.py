"""Fixtures that every test may use: an open, migrated and empty database of each kind."""

import asyncio
import contextlib
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import hypothesis
import pytest

from terracrew.server.db import Database, open_database
from tests.builders.clock import ShiftedClock
from tests.machine import cgroup, platforms
from tests.machine.needs import need
from tests.machine.postgres_server import PostgresServer, missing
from tests.machine.sqlite_template import copy_template, memory
from tests.thoroughness import examples, thorough

# A machine that is busy for a fifth of a second says nothing about an example.
hypothesis.settings.register_profile("terracrew", deadline=None, max_examples=examples(100))
hypothesis.settings.load_profile("terracrew")
# The folders whose tests start processes and wait for them. A run that began with the many quick tests would end with one
# worker busy and the others idle.
SLOW_FOLDERS = (
    "chaos",
    "stateful",
    "e2e",
    "powercut",
    "toolchains",
    "demo",
    "explore",
    "runner",
    "executor",
    "cli",
    "contracts",
)
DATABASES = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
SQLITE_AT_LEAST = ["sqlite", pytest.param("postgres", marks=[pytest.mark.postgres, thorough])]
"""For long walks whose requests other tests try on both."""


def pytest_configure(config: pytest.Config) -> None:
    """A run that was started in the background ignores Ctrl-C, and would hand that down to every process of a test."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput") and (path := cgroup.enter()):
        config.add_cleanup(lambda: cgroup.leave(path))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slow folders first; within each, the order stays."""
    ranks = {folder: rank for rank, folder in enumerate(SLOW_FOLDERS)}
    root = Path(__file__).parent
    items.sort(key=lambda item: ranks.get(item.path.relative_to(root).parts[0], len(ranks)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out the tests of platforms that this run does not start, before their fixtures look for them."""
    names = [name for mark in item.iter_markers("platform") for name in mark.args]
    if why := platforms.why_left_out(names):
        pytest.skip(why)


def pytest_unconfigure() -> None:
    platforms.leave_all()


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


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """A directory in memory, where syncs cost nothing. A machine without /dev/shm gets one on its disk."""
    with tempfile.TemporaryDirectory(prefix="test-", dir=memory(), ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest) -> str:
    """The address of an empty, migrated database of each kind, which the test or a process that it starts opens."""
    if request.param == "sqlite":
        folder: Path = request.getfixturevalue("memory_path")
        return f"sqlite:///{copy_template(folder / 'terracrew.db')}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def clock() -> ShiftedClock:
    """The clock of the database, for a test that asks for it: `clock.advance(3600)` lets an hour pass."""
    return ShiftedClock()


@pytest.fixture
def database_clock(request: pytest.FixtureRequest) -> ShiftedClock | None:
    """The clock that the test moves; None, which is the database's own clock, for a test that moves none."""
    return request.getfixturevalue("clock") if "clock" in request.fixturenames else None


@pytest.fixture
async def database(database_url: str, database_clock: ShiftedClock | None) -> AsyncIterator[Database]:
    """An open database of each kind, migrated and empty."""
    db = await open_database(database_url, database_clock)
    yield db
    await db.close()


@pytest.fixture(scope="module", params=DATABASES)
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[asyncio.AbstractEventLoop, Database]]:
    """An open database of each kind and its event loop, for tests that try many examples on one database."""
    with contextlib.ExitStack() as stack:
        if request.param == "sqlite":
            url = str(copy_template(tmp_path_factory.mktemp("opened") / "terracrew.db"))
        else:
            server: PostgresServer = request.getfixturevalue("postgres_server")
            url = stack.enter_context(server.database())
        with asyncio.Runner() as runner:
            db = runner.run(open_database(url))
            yield runner.get_loop(), db
            runner.run(db.close())
