"""A wake-up arrives after its commit, once, and on every server."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from terracrew.errors import Unavailable
from terracrew.server.db import Database, Tx, Work, open_database
from tests.machine.postgres_server import PostgresServer

Add = Callable[..., Work[None]]


def waking(key: str, topic: str = "jobs") -> Work[None]:
    async def work(tx: Tx) -> None:
        tx.wake(topic, key)

    return work


async def test_only_what_was_committed_wakes_and_only_those_who_listen_to_it(db: Database) -> None:
    async def failing(tx: Tx) -> None:
        tx.wake("jobs", "lost")
        raise KeyError

    with db.listen("jobs") as jobs, db.listen("jobs", "runners") as both:
        with pytest.raises(KeyError):
            await db.write(failing)
        await db.write(waking("a"))
        await db.write(waking("r", "runners"))
        assert await jobs.get(10) == {("jobs", "a")}
        assert await both.get(10) == {("jobs", "a"), ("runners", "r")}
        assert await jobs.get(0) == set()


async def test_whoever_is_woken_sees_what_it_was_woken_for(
    db: Database, add: Add, contents: Work[dict[str, int]]
) -> None:
    def adding(name: str) -> Work[None]:
        async def work(tx: Tx) -> None:
            tx.wake("things", name)
            await add(name)(tx)

        return work

    names = {f"{n:03}" for n in range(200)}
    with db.listen("things") as wakeups:
        writes = asyncio.gather(*(db.write(adding(name)) for name in names))
        heard: set[str] = set()
        while heard != names:
            woken = {key for _, key in await wakeups.get(10)}
            assert woken
            assert woken <= set(await db.read(contents))
            heard |= woken
        await writes


async def test_a_burst_that_nobody_has_read_is_one_wake_up(db: Database) -> None:
    with db.listen("jobs") as wakeups:
        await asyncio.gather(*(db.write(waking(f"{n % 2}")) for n in range(100)))
        assert await wakeups.get(10) == {("jobs", "0"), ("jobs", "1")}
        assert await wakeups.get(0) == set()


async def test_behind_a_reader_that_is_stuck_only_so_many_wake_ups_wait(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser that stopped reading once made its server keep the id of everything that happened since."""
    monkeypatch.setattr("terracrew.server.db.wakeups.MAX_PENDING_WAKEUPS", 20)
    with db.listen("jobs", "runners") as stuck, db.listen("jobs", "runners") as reading:
        await db.write(waking("r", "runners"))
        for n in range(100):
            await db.write(waking(f"{n}"))
            assert await reading.get(10) >= {("jobs", f"{n}")}
        woken = await stuck.get(10)
        assert len(woken) <= 20
        assert {("jobs", ""), ("runners", "")} <= woken, "look at all of it again"


async def test_closing_ends_those_who_listen(db: Database) -> None:
    async def follow() -> list[tuple[str, str]]:
        with db.listen("jobs") as wakeups:
            await db.write(waking("a"))
            return [wake async for wake in wakeups]

    following = asyncio.ensure_future(follow())
    with db.listen("jobs") as wakeups:
        assert await wakeups.get(10) == {("jobs", "a")}
        await db.close()
        with pytest.raises(Unavailable):
            await wakeups.get(10)
    assert await asyncio.wait_for(following, 10) == [("jobs", "a")]


@pytest.mark.postgres
async def test_another_server_is_woken_and_nobody_hears_himself_twice(postgres_url: str) -> None:
    here, there = await open_database(postgres_url), await open_database(postgres_url)
    with here.listen("jobs") as at_home, there.listen("jobs") as abroad:
        await here.write(waking("a"))
        assert await at_home.get(10) == {("jobs", "a")}
        assert await abroad.get(10) == {("jobs", "a")}
        await there.write(waking("b"))
        assert await at_home.get(10) == {("jobs", "b")}  # an echo of "a" would have come before it
    await here.close()
    await there.close()


@pytest.mark.postgres
async def test_many_wake_ups_cross_whole_in_few_messages(postgres_url: str) -> None:
    here, there = await open_database(postgres_url), await open_database(postgres_url)

    async def work(tx: Tx) -> None:
        for n in range(2000):
            tx.wake("jobs", f"job_{n:032}")

    with there.listen("jobs") as abroad:
        await here.write(work)
        heard: set[tuple[str, str]] = set()
        while len(heard) < 2000:
            heard |= (more := await abroad.get(10))
            assert more
    await here.close()
    await there.close()


@pytest.mark.postgres
async def test_a_server_that_closes_first_tells_what_it_has_committed(postgres_url: str) -> None:
    here, there = await open_database(postgres_url), await open_database(postgres_url)
    with there.listen("jobs") as abroad:
        await here.write(waking("last"))
        await here.close()
        assert await abroad.get(10) == {("jobs", "last")}
    await there.close()


@pytest.mark.postgres
async def test_a_listener_that_lost_its_connection_comes_back_and_wakes_everybody(
    postgres_url: str, postgres_server: PostgresServer
) -> None:
    here, there = await open_database(postgres_url), await open_database(postgres_url)
    name = postgres_url.rpartition("/")[2]
    with there.listen("jobs", "runners") as wakeups:
        postgres_server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
        heard: set[tuple[str, str]] = set()
        while heard != {("jobs", ""), ("runners", "")}:
            heard |= (more := await wakeups.get(20))
            assert more
        await here.write(waking("a"))
        while ("jobs", "a") not in heard:  # `here` comes back on its own, and then tells what it could not tell before
            heard |= (more := await wakeups.get(20))
            assert more
    await here.close()
    await there.close()


@pytest.mark.postgres
def test_a_payload_stays_below_the_limit_of_postgresql() -> None:
    from terracrew.server.db.postgres.notify import payloads

    wakes = [("jobs", f"job_{n:032}ä") for n in range(1000)]
    packed = list(payloads("srv_x", wakes))
    assert max(len(payload.encode()) for payload in packed) < 8000
    assert len(packed) < 10
    assert [tuple(wake) for payload in packed for wake in msgspec.json.decode(payload)[1]] == wakes
    assert list(payloads("srv_x", [("jobs", "x" * 8000)])) == ['["srv_x",[["jobs",""]]]']
