"""A wall clock that jumps neither ends a lease nor hides a loss, because all servers share one steady time."""

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import asyncpg
import pytest

from terracrew.server.db.clock import SLEW_RATE, SteadyClock
from terracrew.server.db.postgres.clock import FRESH_SECONDS, Clock
from terracrew.server.db.sqlite.database import open_sqlite
from tests.builders.job_rows import JobRows

HOUR = 3600.0


class Machine:
    """Its steady clock, and its wall clock, which can be set."""

    def __init__(self) -> None:
        self.steady = 1000.0
        self.shift = 1_790_000_000.0

    def wall(self) -> float:
        return self.steady + self.shift

    def clock(self) -> SteadyClock:
        return SteadyClock(self.wall, lambda: self.steady)


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_wall_clock_that_jumps_an_hour_moves_the_time_by_a_twentieth_of_what_passes(jump: float) -> None:
    """A step forward expired leases and approvals; a step back stopped the detection of losses for as long."""
    machine = Machine()
    clock = machine.clock()
    before = clock()
    machine.shift += jump
    machine.steady += 60
    assert 60 * (1 - SLEW_RATE) <= clock() - before <= 60 * (1 + SLEW_RATE)
    readings: list[float] = []
    for _ in range(25 * 60):
        machine.steady += 60
        readings.append(clock())
    assert readings == sorted(readings)
    assert abs(clock() - machine.wall()) < 0.001, "after a day it is the wall clock's time again"


def test_a_clock_that_is_slewed_by_ntp_is_followed() -> None:
    machine = Machine()
    clock = machine.clock()
    for _ in range(100):
        machine.steady += 1
        machine.shift += 0.0005
        assert abs(clock() - machine.wall()) < 0.001


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
async def test_a_restart_after_a_jump_goes_on_with_the_same_time(tmp_path: Path, jump: float) -> None:
    """A new process would have taken the wall clock's time, and with it ended every lease."""
    machine = Machine()
    db = await open_sqlite(tmp_path / "t.db", machine.clock())
    rows = await JobRows.make(db)
    await rows.job(await rows.module(), status="AWAITING_APPROVAL")
    machine.shift += jump
    machine.steady += 1
    module = await rows.module()
    before = await db.read(_now)
    await db.close()
    machine.steady += 10
    db = await open_sqlite(tmp_path / "t.db", machine.clock())
    assert 9 <= await db.read(_now) - before <= 11
    assert module
    await db.close()


async def test_a_wall_clock_that_was_set_back_while_no_server_ran_is_not_believed(tmp_path: Path) -> None:
    machine = Machine()
    db = await open_sqlite(tmp_path / "t.db", machine.clock())
    rows = await JobRows.make(db)
    await rows.job(await rows.module())
    before = await db.read(_now)
    await db.close()
    machine.shift -= HOUR
    db = await open_sqlite(tmp_path / "t.db", machine.clock())
    assert await db.read(_now) >= before
    await db.close()


async def test_a_start_without_anything_that_has_a_deadline_takes_the_wall_clocks_time(tmp_path: Path) -> None:
    """A machine that boots with a clock in the past shows right times again soon."""
    machine = Machine()
    db = await open_sqlite(tmp_path / "t.db", machine.clock())
    machine.shift += HOUR
    machine.steady += 1
    await JobRows.make(db)
    await db.close()
    db = await open_sqlite(tmp_path / "t.db", machine.clock())
    assert abs(await db.read(_now) - machine.wall()) < 1
    await db.close()


async def _now(tx: Any) -> float:
    return tx.now


# ---- PostgreSQL: the clock of its host


class Shifted:
    """A connection to a database whose host's clock was set by `shift`."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.shift = 0.0
        self.asked = 0

    async def fetchrow(self, query: str, /, *args: object) -> Any:
        self.asked += 1
        row = dict(await self.connection.fetchrow(query, *args))
        return row | {"wall": row["wall"] + self.shift}

    async def fetchval(self, query: str, /, *args: object) -> Any:
        return await self.connection.fetchval(query, *args)


class Servers:
    """Two servers on one database."""

    def __init__(self, connection: Shifted) -> None:
        self.connection = connection
        self.passed = 0.0
        self.one, self.other = [Clock(steady=self.steady) for _ in range(2)]

    def steady(self) -> float:
        return time.monotonic() + self.passed

    def pass_(self, seconds: float) -> None:
        self.passed += seconds
        self.connection.shift += seconds

    async def read(self, clock: Clock, *, is_writer: bool = True) -> float:
        return await clock.read(self.connection, is_writer=is_writer)


@pytest.fixture
async def servers(postgres_url: str) -> AsyncIterator[Servers]:
    from terracrew.server.db import open_database

    await (await open_database(postgres_url)).close()  # its tables
    connection = await cast("Any", asyncpg).connect(postgres_url)
    yield Servers(Shifted(connection))
    await connection.close()


@pytest.mark.postgres
async def test_the_clock_goes_by_the_database_and_asks_it_seldom(servers: Servers) -> None:
    servers.connection.shift = HOUR
    readings = [await servers.read(servers.one) for _ in range(100)]
    assert all(abs(reading - time.time() - HOUR) < 5 for reading in readings)
    assert readings == sorted(readings)
    assert servers.connection.asked == 1


@pytest.mark.postgres
@pytest.mark.parametrize("jump", [HOUR, -HOUR])
async def test_a_jump_of_the_database_hosts_clock_is_corrected_once_and_for_every_server(
    servers: Servers, jump: float
) -> None:
    """Every lease and approval expired, or no loss was found for an hour."""
    before = await servers.read(servers.one)
    await servers.read(servers.other)
    servers.connection.shift += jump
    servers.pass_(2 * FRESH_SECONDS)
    assert 9 < await servers.read(servers.one, is_writer=False) - before < 12, "a reader cannot store a correction"
    assert 9 < await servers.read(servers.one) - before < 12
    assert 9 < await servers.read(servers.other) - before < 12
    new = Clock(steady=servers.steady)
    assert 9 < await servers.read(new) - before < 12, "a server that starts now has the same time"
    servers.pass_(30 * HOUR)
    wall = time.time() + servers.connection.shift
    assert abs(await servers.read(new) - wall) < 5, "the correction has become nothing by itself"


@pytest.mark.postgres
async def test_a_server_whose_machine_was_stopped_for_an_hour_follows_the_others(servers: Servers) -> None:
    before = await servers.read(servers.one)
    servers.connection.shift += HOUR  # for the database and everybody else an hour has passed
    servers.passed += FRESH_SECONDS + 1
    await servers.connection.connection.execute(
        """INSERT INTO runners (id, name, path, type, max_jobs, created_at) VALUES ('rnr_1', 'a', 'a', 'self-hosted', 1, 0)"""
    )
    await servers.connection.connection.execute(
        """INSERT INTO instances (id, runner_id, name, key_sha256, epoch, version, capacity, is_connected, is_draining,
            connected_at, heard_at) VALUES ('ins_1', 'rnr_1', 'one', '', 1, '0', 4, true, false, $1, $1)""",
        before + HOUR,
    )
    assert await servers.read(servers.one) - before > HOUR - 1
