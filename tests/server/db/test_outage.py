"""While a database is away, callers are told at once and nothing is half done; work continues as soon as it is back."""

import asyncio
import contextlib
import signal
import sqlite3
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest

from terracrew.errors import Unavailable
from terracrew.server.db import Database, Tx, open_database
from terracrew.server.db.availability import Availability, retry_when_back
from terracrew.server.supervise import supervise
from tests.machine.needs import need
from tests.machine.postgres_server import OwnServer, missing
from tests.machine.small_disk import fill, mounted

AT_ONCE = 1.0


@pytest.fixture(scope="module")
def own_server() -> Iterator[OwnServer]:
    """One that may be stopped, since nobody else uses it."""
    need(missing())
    with OwnServer.making() as server:
        yield server


@pytest.fixture
async def postgres(own_server: OwnServer) -> AsyncGenerator[Database]:
    with own_server.database() as url:
        db = await open_database(url)
        await db.write(lambda tx: tx.run("CREATE TABLE things (id text PRIMARY KEY)"))
        yield db
        await db.close()


async def count(tx: Tx) -> int:
    return len(await tx.all("SELECT id FROM things"))


async def told(work: "asyncio.Future[Any]") -> float:
    """Seconds until whoever asks is told that it is away."""
    began = time.monotonic()
    with pytest.raises(Unavailable):
        await work
    return time.monotonic() - began


async def until_away(db: Database) -> None:
    async with asyncio.timeout(20):
        while await db.ready(0):
            with contextlib.suppress(Unavailable):
                await db.read(count)
            await asyncio.sleep(0)


@pytest.mark.postgres
@pytest.mark.feature("O6.database")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
async def test_a_postgresql_that_was_stopped_is_told_at_once_and_used_at_once_when_it_is_back(
    postgres: Database, own_server: OwnServer, how: signal.Signals
) -> None:
    async def slow(tx: Tx) -> None:
        await tx.run("INSERT INTO things (id) VALUES ('half')")
        await tx.run("SELECT pg_sleep(20)")

    under_way = [asyncio.ensure_future(postgres.write(slow)) for _ in range(3)]
    await asyncio.sleep(0)
    with postgres.listen("jobs") as wakeups:
        await asyncio.to_thread(own_server.stop, how)
        for work in under_way:
            assert await told(work) < 5
        await until_away(postgres)
        for _ in range(50):
            assert await told(asyncio.ensure_future(postgres.read(count))) < 0.1
            assert await told(asyncio.ensure_future(postgres.write(count))) < 0.1
        await asyncio.to_thread(own_server.start)
        began = time.monotonic()
        assert await postgres.ready(5)
        assert await postgres.read(count) == 0, "what was under way left nothing behind"
        await postgres.write(lambda tx: tx.run("INSERT INTO things (id) VALUES ('after')"))
        assert time.monotonic() - began < AT_ONCE
        assert await wakeups.get(5) == {("jobs", "")}, "and whoever listens looks again"


@pytest.mark.postgres
@pytest.mark.feature("O6.database")
async def test_a_postgresql_that_hangs_keeps_nobody_for_long(postgres: Database, own_server: OwnServer) -> None:
    """No connection is refused or closed: packets just go nowhere."""
    await asyncio.gather(*(postgres.read(count) for _ in range(5)))
    own_server.signal_all(signal.SIGSTOP)
    try:
        waiting = [asyncio.ensure_future(postgres.read(count)) for _ in range(20)]
        began = time.monotonic()
        results = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 15)
        assert {type(result) for result in results} == {Unavailable}
        assert time.monotonic() - began < 12
        assert await told(asyncio.ensure_future(postgres.read(count))) < 0.1
    finally:
        own_server.signal_all(signal.SIGCONT)
    assert await postgres.ready(10)
    assert await postgres.read(count) == 0


@pytest.mark.postgres
@pytest.mark.feature("O6.database")
async def test_a_unit_of_work_that_outlasts_the_outage_does_not_keep_the_database_away(
    postgres: Database, own_server: OwnServer
) -> None:
    """`cannot call Connection.terminate(): connection has been released back to the pool`: the task that waits for the
    return of the database ended with this error, and the server took the database for away until somebody restarted it."""
    held = asyncio.Event()

    async def hold(tx: Tx) -> None:
        await count(tx)
        await held.wait()

    holders = [asyncio.ensure_future(postgres.read(hold)) for _ in range(3)]
    await postgres.read(count)
    try:
        await asyncio.to_thread(own_server.stop, signal.SIGQUIT)
        await until_away(postgres)
    finally:
        await asyncio.to_thread(own_server.start)
    assert await postgres.ready(20)
    assert await retry_when_back(postgres, lambda: postgres.read(count)) == 0
    held.set()
    await asyncio.gather(*holders, return_exceptions=True)


@pytest.mark.postgres
@pytest.mark.feature("O6.database")
async def test_the_database_is_back_after_each_of_several_outages_under_load(
    postgres: Database, own_server: OwnServer
) -> None:
    stopping = asyncio.Event()

    async def work() -> None:
        while not stopping.is_set():
            with contextlib.suppress(Unavailable):
                await postgres.write(lambda tx: tx.run("INSERT INTO things (id) VALUES ('a') ON CONFLICT DO NOTHING"))
                await postgres.read(count)
            await asyncio.sleep(0)

    busy = [asyncio.create_task(work()) for _ in range(8)]
    for how in (signal.SIGQUIT, signal.SIGINT, signal.SIGQUIT):
        own_server.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'terracrew'"
        )
        try:
            await asyncio.to_thread(own_server.stop, how)
            await until_away(postgres)
        finally:
            await asyncio.to_thread(own_server.start)
        assert await postgres.ready(20)
        assert await retry_when_back(postgres, lambda: postgres.read(count)) in (0, 1)
    stopping.set()
    await asyncio.gather(*busy)


@pytest.mark.postgres
async def test_one_lost_connection_is_no_outage(postgres: Database, own_server: OwnServer) -> None:
    name = await postgres.read(lambda tx: tx.one("SELECT current_database() AS name"))
    assert name is not None
    own_server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name['name']}'")
    assert await retry_when_back(postgres, lambda: postgres.read(count)) == 0
    assert await postgres.ready(0)


@pytest.mark.postgres
@pytest.mark.feature("O6.database")
async def test_a_commit_whose_answer_was_lost_is_done_once_and_the_caller_knows_that_it_does_not_know(
    own_server: OwnServer,
) -> None:
    with own_server.database() as url:
        real = int(own_server.url.rpartition(":")[2])
        async with cutting(real) as (port, cut):
            db = await open_database(url.replace(f":{real}/", f":{port}/"))
            runs = 0

            async def work(tx: Tx) -> None:
                nonlocal runs
                runs += 1
                await tx.run("INSERT INTO leases (name, holder, expires_at) VALUES ('a', 'b', 1)")
                cut.set()  # from here on, requests pass and answers do not

            with pytest.raises(Unavailable) as caught:
                async with asyncio.timeout(30):
                    await db.write(work)
            assert not caught.value.details.get("rolled_back")
            assert runs == 1, "nobody runs it again who cannot know"
            assert await db.ready(10)
            assert await retry_when_back(db, lambda: db.read(lambda tx: tx.one("SELECT holder FROM leases"))) == {
                "holder": "b"
            }
            await db.close()


@contextlib.asynccontextmanager
async def cutting(target: int) -> AsyncGenerator[tuple[int, asyncio.Event]]:
    """A way to PostgreSQL on which, once the event is set, the connection ends with the first answer."""
    cut = asyncio.Event()

    async def carry(client: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_connection("127.0.0.1", target)

        async def answers() -> None:
            while data := await server.read(65536):
                if cut.is_set():
                    cut.clear()
                    break
                writer.write(data)

        async def requests() -> None:
            while data := await client.read(65536):
                to_server.write(data)

        both = [asyncio.create_task(answers()), asyncio.create_task(requests())]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for task in both:
            task.cancel()
        writer.close()
        to_server.close()

    listener = await asyncio.start_server(carry, "127.0.0.1", 0)
    try:
        yield listener.sockets[0].getsockname()[1], cut
    finally:
        listener.close()


@pytest.mark.postgres
async def test_more_work_than_connections_for_too_long_is_unavailable_and_no_outage(
    postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("terracrew.server.db.postgres.database.CONNECTION_WAIT_SECONDS", 0.2)
    held = asyncio.Event()

    async def hold(_: Tx) -> None:
        await held.wait()

    holders = [asyncio.ensure_future(postgres.read(hold)) for _ in range(5)]
    await asyncio.sleep(0)
    assert await told(asyncio.ensure_future(postgres.read(count))) < 2
    assert await postgres.ready(0)
    held.set()
    await asyncio.gather(*holders)
    assert await postgres.read(count) == 0


@pytest.mark.feature("O6.database")
async def test_a_loop_waits_for_the_database_and_starts_when_that_is_back() -> None:
    availability, runs, again = Availability(), 0, asyncio.Event()

    async def loop() -> None:
        nonlocal runs
        runs += 1
        availability.check()
        again.set()
        await asyncio.Event().wait()

    availability.lost("stopped")
    supervised = asyncio.create_task(supervise("test", loop, wait=0.01, ready=availability.wait))
    while not runs:
        await asyncio.sleep(0)
    assert not await availability.wait(0.3)
    assert runs == 1, "it does not knock at a door that is known to be shut"
    availability.found()
    async with asyncio.timeout(1):
        await again.wait()
    supervised.cancel()


# ---- SQLite


@pytest.mark.feature("O6.database")
async def test_a_sqlite_file_that_another_process_has_locked_stops_nobody_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It once made the server stand still, five seconds at a time, for as long as the lock was held."""
    monkeypatch.setattr("terracrew.server.db.sqlite.database.BUSY_TIMEOUT_SECONDS", 0.3)
    db = await open_database(str(tmp_path / "a.db"))
    await db.write(lambda tx: tx.run("CREATE TABLE things (id text PRIMARY KEY)"))
    shell = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    shell.execute("BEGIN IMMEDIATE")
    writing = [asyncio.ensure_future(db.write(count)) for _ in range(3)]
    turns, longest, last = 0, 0.0, time.monotonic()
    while not all(work.done() for work in writing):
        await asyncio.sleep(0.005)
        turns, longest, last = turns + 1, max(longest, time.monotonic() - last), time.monotonic()
        assert turns < 2000
    assert longest < 0.2, "the loop goes on"
    assert {type(work.exception()) for work in writing} == {Unavailable}
    assert await db.read(count) == 0, "reading is possible all the time"
    later = asyncio.ensure_future(db.write(lambda tx: tx.run("INSERT INTO things (id) VALUES ('a')")))
    await asyncio.sleep(0.05)
    shell.execute("ROLLBACK")
    assert await asyncio.wait_for(later, 5) == 1, "one that gives the file back in time costs nothing"
    shell.close()
    await db.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", "8m") as folder:
        yield folder


@pytest.mark.feature("O6.database")
async def test_a_full_disk_under_sqlite_is_unavailable_and_leaves_nothing_half_done(small_disk: Path) -> None:
    db = await open_database(str(small_disk / "a.db"))
    await db.write(lambda tx: tx.run("CREATE TABLE things (id text PRIMARY KEY)"))
    fill(small_disk / "ballast")

    async def two(tx: Tx) -> None:
        await tx.run("INSERT INTO things (id) VALUES ('first')")
        await tx.run("INSERT INTO things (id) VALUES (:id)", id="x" * 900_000)

    for _ in range(3):
        with pytest.raises(Unavailable):
            await db.write(two)
        assert await db.read(count) == 0
    (small_disk / "ballast").unlink()
    await db.write(two)
    assert await db.read(count) == 2
    await db.close()
