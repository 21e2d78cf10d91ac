"""While a finished log moves to the object store, and after a crash, every event is read exactly once."""

import asyncio
import json
from typing import Any

import pytest

from terracrew.api.job_views import LogEvent
from terracrew.protocol.events import Result
from terracrew.server.logs import blocks, mover, reads
from terracrew.server.logs.mover import Mover
from tests.builders.deliveries import DONE, RUNNING, fact, log
from tests.builders.job_rows import change_attempts
from tests.server.simulated_runner import SimulatedAttempt, SimulatedRunner, watching


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small blocks, objects and batches, so that a short log has several of each; and nothing waits."""
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 400)
    monkeypatch.setattr(mover, "MAX_OBJECT_BYTES", 1500)
    monkeypatch.setattr(mover, "BATCH_ROWS", 7)
    monkeypatch.setattr(mover, "SETTLE_SECONDS", 0.0)


class Crashed(Exception):
    pass


class CrashAfter:
    """A database or an object store whose process ends after so many more operations, before or after the last one."""

    def __init__(self, target: Any, budget: list[int]) -> None:
        self._target, self._budget = target, budget

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if name not in ("read", "write", "put", "delete"):
            return found

        async def call(*args: Any) -> Any:
            if self._budget[0] == 0:
                raise Crashed
            result = await found(*args)
            self._budget[0] -= 1
            if self._budget[0] == 0:
                raise Crashed  # it was done, but the process did not live to know it
            return result

        return call


def mover_of(runner: SimulatedRunner, db: Any = None, objects: Any = None) -> Mover:
    server = runner.server
    return Mover(db or server.db, objects or server.objects, server.settings.uploads, server.id, 0.0)


async def events(attempt: SimulatedAttempt, after: int = 0, limit: int | None = None) -> list[LogEvent]:
    server = attempt.crew.server
    found = reads.events(server.db, server.objects, attempt.ref.job_id, attempt.ref.attempt, after, limit)
    return [event async for events in found for event in events]


async def text(attempt: SimulatedAttempt) -> bytes:
    server = attempt.crew.server
    found = reads.text(server.db, server.objects, attempt.ref.job_id, attempt.ref.attempt)
    return b"".join([piece async for piece in found])


async def lines(attempt: SimulatedAttempt, start: int, count: int) -> bytes:
    server = attempt.crew.server
    extent = await server.db.read(lambda tx: reads.extent(tx, attempt.ref.job_id, attempt.ref.attempt))
    return await reads.lines(server.db, server.objects, attempt.ref.job_id, extent, start, count)


async def finished(runner: SimulatedRunner, count: int = 60, end: bool = True) -> tuple[SimulatedAttempt, list[str]]:
    """An attempt with some lines, in uneven chunks with other events between them."""
    attempt = await runner.run()
    printed = [f"line {n} {'.' * (n % 70)}\n" for n in range(count)]
    for start in range(0, count, 5):
        await attempt.deliver(*(log(each) for each in printed[start : start + 5]), RUNNING)
    if end:
        await attempt.deliver(DONE)
    return attempt, printed


async def count(runner: SimulatedRunner, table: str) -> int:
    return await runner.app.scalar(f"SELECT count(*) FROM {table}")


@pytest.mark.feature("L4.finished")
async def test_a_moved_log_is_read_as_before_whole_in_ranges_and_by_lines(runner: SimulatedRunner) -> None:
    """Log chunks were never deleted, so the database grew for ever; nothing ever moved to the object store."""
    attempt, printed = await finished(runner)
    before = await events(attempt)
    assert await mover_of(runner).step() == 1
    assert await count(runner, "log_chunks") == 0
    assert 1 < await count(runner, "log_objects") < 10
    assert await events(attempt) == before
    assert [event.text for event in before] == printed
    assert await text(attempt) == "".join(printed).encode()
    for after, limit in ((0, 3), (14, 5), (21, 100), (71, 2)):
        assert await events(attempt, after, limit) == [event for event in before if event.n > after][:limit]
    for start in (0, 1, 7, 23, 59):
        assert await lines(attempt, start, 2) == "".join(printed[start : start + 2]).encode()
    assert await lines(attempt, 60, 1) == b""
    # Nothing is left to do, and the index does not offer it again.
    assert await mover_of(runner).step() == 0


@pytest.mark.feature("L4.finished")
async def test_a_line_of_a_large_moved_log_is_read_by_a_small_range(
    runner: SimulatedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 256 << 10)
    monkeypatch.setattr(mover, "MAX_OBJECT_BYTES", 128 << 20)
    monkeypatch.setattr(mover, "BATCH_ROWS", 200)
    attempt, block = await runner.run(), 1_000
    for start in range(0, 200_000, 10 * block):
        texts = [
            "".join(f"line {n} {n * 7919 % 1_000_003}\n" for n in range(at, at + block))
            for at in range(start, start + 10 * block, block)
        ]
        await attempt.deliver(*(log(each) for each in texts))
    await attempt.deliver(DONE)
    await mover_of(runner).step()
    assert await count(runner, "log_objects") == 1
    stored = await runner.app.scalar("SELECT stored_bytes FROM log_objects")
    read: list[int] = []
    get_range = runner.server.objects.get_range

    async def counted(name: str, start: int, length: int) -> bytes:
        read.append(length)
        return await get_range(name, start, length)

    monkeypatch.setattr(runner.server.objects, "get_range", counted)
    assert (await lines(attempt, 123_456, 1)).startswith(b"line 123456 ")
    assert 0 < sum(read) < stored / 2


async def test_a_crash_between_any_two_steps_of_a_move_loses_and_doubles_nothing(runner: SimulatedRunner) -> None:
    """The move is: write the object, switch in one transaction, delete chunks. The process may end before or after each."""
    operations = 0
    while True:
        attempt, printed = await finished(runner, 25)
        operations += 1
        budget = [operations]
        crashing = mover_of(
            runner,
            CrashAfter(runner.server.db, budget),
            CrashAfter(runner.server.objects, budget),
        )
        try:
            await crashing.move(attempt.ref.job_id, 1)
        except Crashed:
            pass
        else:
            break
        assert [event.text for event in await events(attempt)] == printed
        assert await text(attempt) == "".join(printed).encode()
        assert await lines(attempt, 11, 3) == "".join(printed[11:14]).encode()
        await mover_of(runner).move(attempt.ref.job_id, 1)
        assert [event.text for event in await events(attempt)] == printed
        assert await count(runner, "log_chunks") == 0
    assert operations > 8


async def test_a_reader_who_pauses_after_each_event_while_the_log_moves_gets_each_once(runner: SimulatedRunner) -> None:
    attempt, printed = await finished(runner, 30)
    at, seen = 0, list[str]()
    budget = 1
    while found := await events(attempt, at, 1):
        seen.append(found[0].text)
        at = found[0].n
        limit = [budget]
        try:  # a little further after each event
            await mover_of(runner, CrashAfter(runner.server.db, limit)).move(attempt.ref.job_id, 1)
        except Crashed:
            budget += 1
    assert seen == printed


async def test_two_servers_that_move_the_same_log_leave_one_copy_of_each_event(runner: SimulatedRunner) -> None:
    attempt, printed = await finished(runner)
    await asyncio.gather(*(mover_of(runner).move(attempt.ref.job_id, 1) for _ in range(4)))
    assert [event.text for event in await events(attempt)] == printed
    assert await count(runner, "log_chunks") == 0
    known = await runner.server.objects.names(f"logs/{attempt.ref.job_id}")
    assert len(known) == await count(runner, "log_objects")


async def test_what_is_delivered_after_the_move_stays_in_rows_and_is_read_behind_the_rest(
    runner: SimulatedRunner,
) -> None:
    attempt, printed = await finished(runner, 20, end=False)
    await attempt.lose()
    await mover_of(runner).move(attempt.ref.job_id, 1)
    await attempt.deliver(log("late one\n"), log("late two\n"))
    printed += ["late one\n", "late two\n"]
    assert await count(runner, "log_chunks") == 1
    assert [event.text for event in await events(attempt)] == printed
    for start in (0, 5, 19, 20, 21):
        assert await lines(attempt, start, 2) == "".join(printed[start : start + 2]).encode()
    await mover_of(runner).step()
    assert await count(runner, "log_chunks") == 0
    assert [event.text for event in await events(attempt)] == printed


async def test_a_log_stays_in_rows_while_its_attempt_may_deliver_more_or_is_in_doubt(runner: SimulatedRunner) -> None:
    running, _ = await finished(runner, 5, end=False)
    lost, _ = await finished(runner, 5, end=False)
    await lost.lose()
    server = runner.server
    patient = Mover(server.db, server.objects, server.settings.uploads, server.id, 3600.0)
    assert await patient.step() == 0
    assert await mover_of(runner).step() == 1  # its time to deliver is over
    await running.deliver(fact(Result("FAILED")))
    await change_attempts(runner.rows.db, running.ref.job_id, is_in_doubt=True)
    assert await mover_of(runner).step() == 0


async def test_a_stream_a_download_and_what_is_known_read_a_moved_log(runner: SimulatedRunner) -> None:
    attempt = await runner.begun()
    await attempt.deliver(*(log(f"a.x[{n}]: Creating...\n") for n in range(30)), log("the last line\n"))
    await attempt.deliver(fact(Result("FAILED")))
    path = f"/api/v1/jobs/{attempt.ref.job_id}"
    before = (await runner.app.admin.get(f"{path}/attempts/1")).json()
    assert (len(before["made"]), before["last_line"]) == (30, "the last line")
    await change_attempts(runner.server.db, is_in_doubt=False)
    expected = (await runner.app.admin.get(f"{path}/log")).text
    await mover_of(runner).step()
    assert await count(runner, "log_chunks") == 0
    after = (await runner.app.admin.get(f"{path}/attempts/1")).json()
    assert (after["made"], after["last_line"]) == (before["made"], before["last_line"])
    assert (await runner.app.admin.get(f"{path}/log?download=true")).text == expected
    async with runner.listening() as url, watching(url, runner.app.admin, f"{path}/log/stream") as viewer:
        found = [each for event in await viewer.rest() if event.name == "log" for each in json.loads(event.data)]
    assert "".join(each["text"] for each in found) == expected


async def test_a_log_whose_object_is_missing_says_so_in_its_place(runner: SimulatedRunner) -> None:
    attempt, _ = await finished(runner, 5)
    await mover_of(runner).step()
    (name,) = await runner.server.objects.names(f"logs/{attempt.ref.job_id}")
    await runner.server.objects.delete(name)
    assert await text(attempt) == (
        f"Events up to 5 of this log are missing: the object store has no object {name}.\n".encode()
    )
