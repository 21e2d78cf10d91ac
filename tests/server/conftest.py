"""Provides the servers that the tests of several packages use, on each database."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from terracrew.server.db import Database
from terracrew.server.identity.people import passwords
from tests.builders.clock import ShiftedClock
from tests.builders.job_rows import JobRows
from tests.server.application import Application, open_application
from tests.server.hub.hub_clients import Hub, listening
from tests.server.identity.identity_server import IdentityServer, build
from tests.server.simulated_runner import SimulatedRunner


@pytest.fixture(scope="session", autouse=True)
def cheap_passwords() -> Iterator[None]:
    """Hash passwords with the real algorithm at its lowest cost: most tests log in, and a hash takes a fifth of a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "hasher", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
        yield


@pytest.fixture
async def application(
    database_url: str, memory_path: Path, database_clock: ShiftedClock | None
) -> AsyncIterator[Application]:
    """A server without a socket, with an administrator; sources may lie under /srv/sources."""
    roots = (Path("/srv/sources"),)
    async with open_application(database_url, memory_path / "data", clock=database_clock, local_roots=roots) as opened:
        yield opened


@pytest.fixture
async def runner(application: Application) -> SimulatedRunner:
    """That server, with a runner whose executors the tests play."""
    return await SimulatedRunner.make(application)


@pytest.fixture
async def hub(runner: SimulatedRunner) -> AsyncIterator[Hub]:
    """That server with its hub on a socket; its loops do not run, so that the tests take each of their steps."""
    async with listening(runner) as found:
        yield found


@pytest.fixture
async def rows(database: Database) -> JobRows:
    """A database with an organization, in which the tests build rows."""
    return await JobRows.make(database)


@pytest.fixture
async def server(database: Database) -> IdentityServer:
    """The routes of identity and the audit log only."""
    return await build(database)
