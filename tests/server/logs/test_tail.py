"""Viewers of one log share their reads, and none of them misses an event because of that."""

import asyncio
from typing import Any

import pytest

from terracrew.server.db.seam import Database, T, Work
from terracrew.server.logs import tail
from terracrew.server.logs.reads import LogProgress
from terracrew.server.logs.tail import Position, TailBatch, Tails
from tests.builders.deliveries import DONE, RUNNING, log
from tests.server.simulated_runner import SimulatedRunner


class SlowToAnswer:
    """A database whose readings are done at once, but told only when it is let go."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.is_read, self.go = asyncio.Event(), asyncio.Event()
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    async def read(self, work: "Work[T]") -> T:
        self.reads += 1
        result = await self._db.read(work)
        self.is_read.set()
        await self.go.wait()
        return result


async def test_who_joins_a_reading_that_began_too_early_reads_again(runner: SimulatedRunner) -> None:
    attempt, tails = await runner.run(), Tails(runner.server.objects)
    db: Any = SlowToAnswer(runner.server.db)
    await attempt.deliver(RUNNING)
    early = asyncio.create_task(tails.next(db, attempt.ref.job_id, Position(1, 0)))
    await db.is_read.wait()
    await attempt.deliver(log("printed meanwhile\n"))
    late = [asyncio.create_task(tails.next(db, attempt.ref.job_id, Position(1, 0))) for _ in range(5)]
    await asyncio.sleep(0)  # each has joined
    db.go.set()
    assert await early == LogProgress(1, is_terminal=False)
    for found in await asyncio.gather(*late):
        assert isinstance(found, TailBatch)
        assert found.position == Position(1, 2)
    assert db.reads == 2


async def test_only_a_read_of_its_own_tells_a_viewer_that_nothing_follows(runner: SimulatedRunner) -> None:
    """A batch in memory may be older than the last wake-up of the viewer that gets it."""
    attempt, tails, db = await runner.run(), Tails(runner.server.objects), runner.server.db
    await attempt.deliver(RUNNING, log("one\n"))
    own = await tails.next(db, attempt.ref.job_id, Position(1, 0))
    await attempt.deliver(log("two\n"), DONE)
    other = await tails.next(db, attempt.ref.job_id, Position(1, 0))
    last = await tails.next(db, attempt.ref.job_id, Position(1, 2))
    assert isinstance(own, TailBatch)
    assert isinstance(other, TailBatch)
    assert isinstance(last, TailBatch)
    assert (own.data, own.position) == (other.data, other.position)
    assert [each.progress for each in (own, other, last)] == [LogProgress(1, False), None, LogProgress(1, True)]


async def test_a_viewer_that_gives_up_takes_nobody_along(runner: SimulatedRunner) -> None:
    attempt, tails = await runner.run(), Tails(runner.server.objects)
    db: Any = SlowToAnswer(runner.server.db)
    await attempt.deliver(log("one\n"))
    first = asyncio.create_task(tails.next(db, attempt.ref.job_id, Position(1, 0)))
    await db.is_read.wait()
    second = asyncio.create_task(tails.next(db, attempt.ref.job_id, Position(1, 0)))
    await asyncio.sleep(0)
    first.cancel()
    db.go.set()
    assert isinstance(await second, TailBatch)
    assert db.reads == 1


async def test_what_is_kept_in_memory_is_bounded_and_what_was_let_go_is_read_again(
    runner: SimulatedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "CACHE_BYTES", 50_000)
    attempt, tails = await runner.run(), Tails(runner.server.objects)
    text = "\x1b" * 10_000  # six times as much in JSON, so that even one batch is more than there is room for
    await attempt.deliver(*(log(text) for _ in range(50)))
    for _ in range(2):
        position, seen = Position(1, 0), 0
        while isinstance(found := await tails.next(runner.server.db, attempt.ref.job_id, position), TailBatch):
            position, seen = found.position, seen + found.data.count(b'"n"')
            assert tails.used <= 50_000
        assert seen == 50
