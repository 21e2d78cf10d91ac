"""A viewer of a live log sees every line once and in order, whenever the viewer comes and returns."""

import asyncio
import json
import time
from typing import Any, LiteralString

import pytest

from terracrew.client.sse import Event
from terracrew.protocol.messages import AttemptRef, LogSettings
from terracrew.server.connections.registry import ExecutorSession
from terracrew.server.db.seam import Param
from terracrew.server.logs.tail import Position, TailBatch
from terracrew.server.runs.follow import Watchers, follow
from tests.builders.clock import ShiftedClock
from tests.builders.deliveries import DONE, RUNNING, log
from tests.server.hub.statement_counts import RecordingTx, on_each_unit
from tests.server.simulated_runner import TIMEOUT_SECONDS, SimulatedRunner, watching


def texts(events: list[Event]) -> list[str]:
    return [each["text"] for event in events if event.name == "log" for each in json.loads(event.data)]


@pytest.mark.feature("L2.watched", "L4.live")
async def test_a_viewer_sees_each_line_as_it_is_stored_and_the_end(runner: SimulatedRunner) -> None:
    attempt = await runner.run()
    async with attempt.watched() as viewer:
        first = await viewer.next()
        assert (first.name, json.loads(first.data)["status"]) == ("job", "CLAIMED")
        for n in range(1, 6):
            await attempt.deliver(log(f"{n}\n"))
            event = await viewer.next("log")
            assert (event.id, texts([event])) == (f"1.{n}", [f"{n}\n"])
        await attempt.deliver(RUNNING)
        assert json.loads((await viewer.next("job")).data)["status"] == "PROCESSING"
        await attempt.deliver(log("last\n"), DONE)
        rest = await viewer.rest()
        assert texts(rest) == ["last\n"]
        assert [event.name for event in rest] == ["log", "job", "end"]
        assert json.loads(rest[1].data)["status"] == "SUCCEEDED"


@pytest.mark.feature("L4.late")
async def test_a_late_viewer_gets_the_whole_log_and_then_the_end(runner: SimulatedRunner) -> None:
    attempt = await runner.run()
    await attempt.deliver(RUNNING, *(log(f"{n}:{'x' * 1000}\n") for n in range(1000)), DONE)
    async with attempt.watched() as viewer:
        rest = await viewer.rest()
        assert "".join(texts(rest)) == "".join(f"{n}:{'x' * 1000}\n" for n in range(1000))
        assert rest[-1].name == "end"
        # Large enough to be quick, small enough to be taken in without a stutter.
        assert 5 < len(rest) < 20


@pytest.mark.feature("L3.complete")
@pytest.mark.parametrize("taken", [0, 1, 2, 3])
async def test_a_viewer_that_comes_back_goes_on_exactly_where_it_was(runner: SimulatedRunner, taken: int) -> None:
    attempt = await runner.run()
    path, last = f"/api/v1/jobs/{attempt.ref.job_id}/log/stream", ""
    seen: list[str] = []
    async with runner.listening() as url:
        async with watching(url, runner.app.admin, path) as viewer:
            for n in range(taken):
                await attempt.deliver(log(f"{n}\n"), RUNNING)
                event = await viewer.next("log")
                seen, last = seen + texts([event]), event.id
        await attempt.deliver(log("while away\n"))
        await attempt.deliver(log("end\n"), DONE)
        async with watching(url, runner.app.admin, path, last) as viewer:
            seen += texts(await viewer.rest())
        assert seen == [*(f"{n}\n" for n in range(taken)), "while away\n", "end\n"]
        async with watching(url, runner.app.admin, f"{path}?last_event_id={last}") as viewer:
            assert texts(await viewer.rest()) == seen[taken:]
        if taken:
            async with watching(url, runner.app.admin, path, f"1.{2 * taken - 2}") as viewer:
                assert texts(await viewer.rest()) == seen[taken - 1 :]


async def test_the_stream_goes_on_to_the_next_attempt(runner: SimulatedRunner) -> None:
    attempt = await runner.run()
    path = f"/api/v1/jobs/{attempt.ref.job_id}/log/stream"
    async with runner.listening() as url:
        async with (
            watching(url, runner.app.admin, path) as viewer,
            watching(url, runner.app.admin, f"{path}?attempt=1") as one,
        ):
            await attempt.deliver(RUNNING, log("first\n"))
            assert (await viewer.next("log")).id == "1.2"
            await attempt.lose()
            assert texts(await one.rest()) == ["first\n"]
            second = await runner.again(attempt.ref.job_id, 2)
            await second.deliver(log("second\n"), RUNNING)
            between = await viewer.next("log")
            assert (between.id, "was lost" in between.data) == ("2.0,1.2", True)
            assert (await viewer.next("log")).id == "2.1,1.2"
            await second.deliver(DONE)
            assert texts(await viewer.rest()) == []
        whole = ["first\n", "Attempt 1 was lost", "second\n"]
        for asked, last, expected in (
            (path, "1.1", whole),
            (path, "", whole),
            (path, "2.0,1.2", whole[2:]),
            (f"{path}?attempt=2", "", whole[2:]),
        ):
            async with watching(url, runner.app.admin, asked, last) as viewer:
                assert [each.partition(" after")[0] for each in texts(await viewer.rest())] == expected


async def test_lines_that_a_lost_attempt_delivers_late_reach_who_follows(runner: SimulatedRunner) -> None:
    """A viewer who had gone on to the next attempt never got what the lost one delivered afterwards."""
    first = await runner.run()
    path = f"/api/v1/jobs/{first.ref.job_id}/log/stream"
    async with runner.listening() as url, watching(url, runner.app.admin, path) as viewer:
        await first.deliver(RUNNING, log("first\n"))
        assert (await viewer.next("log")).id == "1.2"
        await first.lose()
        assert (await viewer.next("log")).id == "2.0,1.2"
        second = await runner.again(first.ref.job_id, 2)
        await second.deliver(log("second\n"), RUNNING)
        assert (await viewer.next("log")).id == "2.1,1.2"
        await first.deliver(log("late\n"))
        late = await viewer.next("log")
        assert (late.id, "late" in late.data) == ("2.1,1.3", True)
        async with watching(url, runner.app.admin, path, "2.1,1.2") as again:
            assert (await again.next("log")).id == "2.1,1.3"
        await second.deliver(DONE)
        assert texts(await viewer.rest()) == []


async def test_what_is_no_id_of_the_stream_is_refused(runner: SimulatedRunner) -> None:
    attempt = await runner.run()
    await runner.app.admin.refused(
        "GET", f"/api/v1/jobs/{attempt.ref.job_id}/log/stream", 400, headers={"Last-Event-ID": "x"}
    )


async def test_a_stream_ends_at_once_when_the_server_stops(runner: SimulatedRunner) -> None:
    attempt = await runner.run()
    async with attempt.watched() as viewer:
        await attempt.deliver(RUNNING, log("one\n"))
        await viewer.next("log")
        runner.server.closing.set()
        async with asyncio.timeout(10):
            assert "end" not in [event.name for event in await viewer.rest()]


async def test_a_quiet_stream_shows_that_it_is_alive(runner: SimulatedRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("terracrew.server.runs.follow.QUIET_SECONDS", 0.01)
    attempt = await runner.run()
    async with attempt.watched() as viewer:
        assert (await viewer.next()).name == "job"
        assert (await viewer.next()).name == "ping"


class Socket:
    """Takes down what an executor is told."""

    def __init__(self) -> None:
        self.told: list[bool] = []
        self.is_left = asyncio.Event()

    def post(self, message: Any) -> None:
        log_settings: LogSettings = message.log_settings
        self.told.append(log_settings.is_watched)
        if not log_settings.is_watched:
            self.is_left.set()


@pytest.mark.feature("L2.watched")
async def test_the_executor_ships_at_once_while_anybody_watches(runner: SimulatedRunner) -> None:
    attempt, socket, other = await runner.run(), Socket(), Socket()
    registry, watchers = runner.server.registry, runner.server.watchers
    registry.add_executor(ExecutorSession(socket, attempt.ref))  # pyright: ignore[reportArgumentType]
    registry.add_executor(ExecutorSession(other, AttemptRef("job_x", 1)))  # pyright: ignore[reportArgumentType]
    with watchers.watching(attempt.ref.job_id):
        assert watchers.is_watched(attempt.ref.job_id)
        with watchers.watching(attempt.ref.job_id):
            assert socket.told == [True]
        assert socket.told == [True]
    assert socket.told == [True, False]
    assert not watchers.is_watched(attempt.ref.job_id)
    assert other.told == []


@pytest.mark.feature("L2.watched")
async def test_when_the_last_viewer_has_left_the_executor_goes_back_to_its_own_pace(runner: SimulatedRunner) -> None:
    attempt, executor = await runner.run(), Socket()
    runner.server.registry.add_executor(ExecutorSession(executor, attempt.ref))  # pyright: ignore[reportArgumentType]
    async with attempt.watched() as viewer:
        await viewer.next("job")
        assert runner.server.watchers.is_watched(attempt.ref.job_id)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await executor.is_left.wait()
    assert executor.told == [True, False]
    assert not runner.server.watchers.is_watched(attempt.ref.job_id)


@pytest.mark.feature("L3.complete", "L4.live")
async def test_many_viewers_at_once_all_see_everything_in_order(runner: SimulatedRunner) -> None:
    """Whoever reads joins whoever is reading: no wake-up may be lost in that."""
    attempt, viewers = await runner.run(), 40
    db, closing = runner.server.db, asyncio.Event()
    watchers = Watchers(runner.server.registry, runner.server.objects)

    async def view(started: asyncio.Event) -> list[int]:
        seen: list[int] = []
        async for news in follow(db, watchers, closing, attempt.ref.job_id, Position(1, 0)):
            started.set()
            if isinstance(news, TailBatch):
                seen += [each["n"] for each in json.loads(news.data)]
        return seen

    async with asyncio.timeout(TIMEOUT_SECONDS), asyncio.TaskGroup() as group:
        started = [asyncio.Event() for _ in range(viewers)]
        tasks = [group.create_task(view(one)) for one in started]
        await asyncio.gather(*(one.wait() for one in started))
        await attempt.deliver(RUNNING)
        for n in range(200):
            await attempt.deliver(log(f"{n}\n"))
        await attempt.deliver(log("end\n"), DONE)
    assert [task.result() for task in tasks] == [list(range(2, 203))] * viewers


async def test_a_viewer_reads_the_log_once_for_each_wake_up(
    runner: SimulatedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt, server = await runner.run(), runner.server
    if server.db.kind != "sqlite":
        pytest.skip("PostgreSQL may report the topics of one transaction one by one")
    said: list[tuple[LiteralString, dict[str, Param]]] = []
    on_each_unit(server.db, monkeypatch, lambda tx: RecordingTx(tx, said))
    news = follow(server.db, server.watchers, asyncio.Event(), attempt.ref.job_id, Position(1, 0))

    def reads() -> tuple[int, int]:
        """Return how often the progress of the job was read, and its chunks."""
        return sum("AS is_terminal" in sql for sql, _ in said), sum("FROM log_chunks" in sql for sql, _ in said)

    async with asyncio.timeout(TIMEOUT_SECONDS):
        assert await anext(news) == "changed"
        coming = asyncio.ensure_future(anext(news))
        while not said:  # until it has seen that there is no log yet
            await asyncio.sleep(0.001)
        for n in range(1, 4):
            await attempt.deliver(log(f"{n}\n"))
            assert isinstance(await coming, TailBatch)
            assert reads() == (1 + n, n)
            coming = asyncio.ensure_future(anext(news))
        await attempt.deliver(log("end\n"), DONE)
        assert isinstance(await coming, TailBatch)
        assert [each async for each in news] == ["changed", "end"]
    assert reads() == (6, 5)  # the last one finds only events that are no output


@pytest.mark.feature("S6.words")
async def test_a_job_that_falls_silent_says_so_to_whoever_follows_it(
    runner: SimulatedRunner, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("terracrew.server.runs.follow.QUIET_SECONDS", 0.1)
    job = await runner.run()
    await job.deliver(RUNNING)
    async with job.watched() as viewer:
        assert json.loads((await viewer.next("job")).data)["reason"] is None
        await viewer.next("ping")
        runner.server.registry.now = lambda: time.monotonic() + 500
        clock.advance(300)  # nobody is woken by this
        while (told := json.loads((await viewer.next("job")).data)["reason"]) is None:
            pass
        assert told["code"] == "silent"
        await viewer.next("ping")
