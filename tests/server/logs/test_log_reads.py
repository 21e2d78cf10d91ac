"""Any part of a log is read without the rest, whatever pieces the log arrived in."""

import asyncio
import random
import time

import pytest

from terracrew.api.job_views import LogEvent
from terracrew.server.db.seam import Database
from terracrew.server.logs import reads
from tests.builders.deliveries import DONE, RUNNING, log
from tests.server.simulated_runner import SimulatedAttempt, SimulatedRunner


async def whole(db: Database, attempt: SimulatedAttempt) -> bytes:
    return b"".join(
        [piece async for piece in reads.text(db, attempt.crew.server.objects, attempt.ref.job_id, attempt.ref.attempt)]
    )


async def events(db: Database, attempt: SimulatedAttempt, after: int = 0, limit: int | None = None) -> list[LogEvent]:
    found = reads.events(db, attempt.crew.server.objects, attempt.ref.job_id, attempt.ref.attempt, after, limit)
    return [event async for events in found for event in events]


async def lines(db: Database, attempt: SimulatedAttempt, start: int, count: int) -> bytes:
    job_id = attempt.ref.job_id
    extent = await db.read(lambda tx: reads.extent(tx, job_id))
    return await reads.lines(db, attempt.crew.server.objects, job_id, extent, start, count)


@pytest.mark.feature("L3.spool", "L4.finished")
async def test_a_log_that_was_resumed_in_the_middle_of_a_batch_is_whole_and_in_order(runner: SimulatedRunner) -> None:
    attempt, db = await runner.run(), runner.server.db
    records = [RUNNING, *(log(f"{n}\n") for n in range(20)), RUNNING, *(log(f"{n}\n") for n in range(20, 40)), DONE]
    await attempt.deliver(*records[:15])
    await attempt.deliver(*records[:15], first=1)
    await attempt.deliver(*records[7:30], first=8)
    await attempt.deliver(*records[30:])
    assert (await whole(db, attempt)).split() == [b"%d" % n for n in range(40)]
    found = await events(db, attempt)
    assert [event.text for event in found] == [f"{n}\n" for n in range(40)]
    assert [event.n for event in found] == [*range(2, 22), *range(23, 43)]
    for after, limit in ((0, 3), (14, 5), (15, 1), (21, 100), (22, 2), (43, 1)):
        assert await events(db, attempt, after, limit) == [event for event in found if event.n > after][:limit]


async def test_lines_are_found_whatever_pieces_they_came_in(runner: SimulatedRunner) -> None:
    attempt, dice = await runner.run(), random.Random(7)
    text = b"".join(b"line %d%s\n" % (n, b"." * dice.randrange(60)) for n in range(300)) + b"an open end"
    at = 0
    while at < len(text):
        pieces: list[bytes] = []
        for _ in range(dice.randrange(1, 6)):
            size = dice.choice((1, 7, 300))
            pieces.append(text[at : at + size])
            at += size
        await attempt.deliver(*(log(piece) for piece in pieces if piece), RUNNING)
    expected = text.splitlines(keepends=True)
    for start, count in (
        (0, 1),
        (0, 5),
        (1, 1),
        (17, 30),
        (150, 1),
        (298, 2),
        (299, 5),
        (300, 1),
        (301, 4),
        (900, 3),
        (0, 900),
    ):
        assert await lines(runner.server.db, attempt, start, count) == b"".join(expected[start : start + count])
    for start in range(0, 300, 11):
        assert await lines(runner.server.db, attempt, start, 1) == expected[start]


async def test_an_attempt_without_a_log_has_an_empty_one(runner: SimulatedRunner) -> None:
    attempt = await runner.run()
    assert await whole(runner.server.db, attempt) == b""
    assert await events(runner.server.db, attempt) == []
    assert await lines(runner.server.db, attempt, 5, 5) == b""


@pytest.mark.feature("L4.finished")
async def test_a_range_of_a_log_of_a_million_lines_is_read_at_once(runner: SimulatedRunner) -> None:
    attempt, db = await runner.run(), runner.server.db
    block = 1_000
    for start in range(0, 1_000_000, 50 * block):
        await attempt.deliver(
            *(
                log("".join(f"line {n}\n" for n in range(at, at + block)))
                for at in range(start, start + 50 * block, block)
            )
        )
    extent = await db.read(lambda tx: reads.extent(tx, attempt.ref.job_id))
    assert (extent.lines, extent.mark) == (1_000_000, 1_000)
    took: list[float] = []
    for line in (0, 123_456, 500_000, 999_990):
        began = time.perf_counter()
        assert (await lines(db, attempt, line, 5)).split(b"\n")[0] == b"line %d" % line
        assert (await events(db, attempt, after=line // block, limit=1))[0].n == line // block + 1
        took.append(time.perf_counter() - began)
    # It takes ten milliseconds. Decoding all of it would take more than this even where the machine is busy.
    assert min(took) < 0.2
    began = time.perf_counter()
    assert (await whole(db, attempt)).count(b"\n") == 1_000_000
    assert time.perf_counter() - began < 10


async def test_many_small_chunks_are_found_by_their_number_and_read_in_one_go(runner: SimulatedRunner) -> None:
    attempt, db = await runner.run(), runner.server.db
    for n in range(1, 701):
        await attempt.deliver(log(f"{n}\n"))
    assert [event.n for event in await events(db, attempt, 600)] == list(range(601, 701))
    page = await db.read(lambda tx: reads.page(tx, attempt.ref.job_id, 1, 0))
    assert (len(page.stored), page.is_last) == (500, False)
    small = await db.read(lambda tx: reads.page(tx, attempt.ref.job_id, 1, 10, size=1))
    assert ([chunk.last for chunk in small.stored], small.is_last) == ([11], False)
    rest = await db.read(lambda tx: reads.page(tx, attempt.ref.job_id, 1, 600))
    assert (len(rest.stored), rest.is_last) == (100, True)
    assert (await whole(db, attempt)).split() == [b"%d" % n for n in range(1, 701)]


async def test_the_log_of_a_fenced_attempt_stays_its_own(runner: SimulatedRunner) -> None:
    first = await runner.run()
    await first.deliver(RUNNING, log("of the first\n"))
    await first.lose()
    second = await runner.again(first.ref.job_id, 2)
    await asyncio.gather(second.deliver(RUNNING, log("of the second\n")), first.deliver(log("late\n")))
    assert await whole(runner.server.db, first) == b"of the first\nlate\n"
    assert await whole(runner.server.db, second) == b"of the second\n"
