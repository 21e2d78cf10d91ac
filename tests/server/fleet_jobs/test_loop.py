"""The loop of a server: each job runs once at a time, late events change nothing, and a job ends once, whatever is lost."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import timedelta

import pytest
from msgspec.structs import replace

from terracrew.clouds.contract import CloudRefused
from terracrew.errors import Conflict, Superseded, Unavailable
from terracrew.fleet.messages import DestroyWork, LinePrinted, RunJob, StepBegun, StepDone, StepFailed
from terracrew.server.db.seam import Tx
from terracrew.server.fleet_jobs import decide, reads, running, service, store
from terracrew.server.fleet_jobs.handlers import ServerReporter
from terracrew.server.fleet_jobs.loop import FleetJobs
from terracrew.server.fleet_jobs.model import (
    MAX_LINES_PER_ATTEMPT,
    MAX_STEPS_PER_ATTEMPT,
    MAX_TEXT_CHARACTERS,
    FleetJob,
    FleetJobStatus,
    FleetJobType,
    FleetStep,
)
from terracrew.server.history import store as history
from terracrew.server.principals.model import SYSTEM
from terracrew.testing.clock import ShiftedClock
from tests.server.fleet_jobs.fleet_rows import FleetRows
from tests.server.fleet_jobs.simulated_fleet import PlayedHandler, PlayedRunner

pytestmark = pytest.mark.feature("W4.fleet", "J1.fleet")


class Server:
    """One server of the database, whose steps the tests take."""

    def __init__(self, fleet: FleetRows, name: str) -> None:
        self.fleet, self.runner, self.handler = fleet, PlayedRunner(), PlayedHandler()
        self.handlers = dict.fromkeys(FleetJobType, self.handler)
        self.loop = FleetJobs(fleet.db, name, self.runner, self.handlers)

    async def cancel(self, job: FleetJob) -> FleetJob:
        return await self.fleet.db.write(lambda tx: service.cancel(tx, SYSTEM, job.id, self.handlers))


@pytest.fixture
async def servers(fleet: FleetRows) -> AsyncGenerator[Callable[[str], Server]]:
    made: list[Server] = []

    def make(name: str) -> Server:
        made.append(Server(fleet, name))
        return made[-1]

    yield make
    for each in made:
        await each.loop.stop()


async def eventually(fleet: FleetRows, job: FleetJob, *statuses: str) -> FleetJob:
    async with asyncio.timeout(20):
        while (found := await fleet.load(job)).status not in statuses:
            await asyncio.sleep(0.01)
    return found


async def steps_of(fleet: FleetRows, job: FleetJob, attempt: int = 1) -> list[FleetStep]:
    return await fleet.db.read(lambda tx: reads.steps(tx, job.id, attempt))


async def log_of(fleet: FleetRows, job: FleetJob) -> list[str]:
    return [each.text for each in await fleet.db.read(lambda tx: reads.lines(tx, job.id, 0, 0, 20_000))]


async def begun(fleet: FleetRows, server: Server, count: int = 1) -> tuple[FleetJob, RunJob]:
    job = await fleet.job()
    await server.loop.step()
    return job, await server.runner.given(count)


async def test_a_database_that_is_away_for_a_moment_fails_no_job(
    fleet: FleetRows, servers: Callable[[str], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise what the job made would be left in the account, because nobody unwinds it."""
    monkeypatch.setattr(running, "RETRY_SECONDS", 0.01)
    server, answers = servers("srv_1"), [Unavailable("the database is away"), Unavailable("the database is away")]

    async def work(tx: Tx) -> str:
        del tx
        if answers:
            raise answers.pop()
        return "stored"

    async def part(reporter: ServerReporter) -> None:
        reporter.line(await reporter.write(work))

    server.handler.part = part
    job, given = await begun(fleet, server)
    server.runner.end(given, role="arn:role")
    ended = await eventually(fleet, job, "SUCCEEDED", "FAILED")
    assert (ended.status, ended.error) == ("SUCCEEDED", "")
    assert await log_of(fleet, job) == ["stored"]


async def test_a_job_runs_to_its_end_with_its_steps_and_its_facts(
    fleet: FleetRows, servers: Callable[[str], Server]
) -> None:
    server = servers("srv_1")
    server.handler.later_steps = (("hello", "Says hello"),)
    job, work = await begun(fleet, server)
    key = job.id, 1
    assert [(each.name, each.status) for each in await steps_of(fleet, job)] == [("hello", "pending")]
    server.runner.report(work, StepBegun(*key, "role", "Task role"), StepDone(*key, "role", "arn:role", "new"))
    server.runner.report(work, LinePrinted(*key, f"a line with tcw_{'x' * 43}"), StepBegun(*key, "logs", "Log group"))
    processing = await eventually(fleet, job, "PROCESSING")
    assert (processing.server_id, processing.started_at is not None) == ("srv_1", True)

    async def part(reporter: ServerReporter) -> None:
        reporter.begin("hello", "Says hello")
        reporter.done("hello", words="2 s")

    server.handler.part = part
    server.runner.report(work, StepDone(*key, "logs", "arn:logs", ""))
    server.runner.end(work, role="arn:role")
    ended = await eventually(fleet, job, "SUCCEEDED")
    assert ended.server_id is None
    assert server.handler.ends == [("SUCCEEDED", {"role": "arn:role", "hello": "yes"})]
    found = [(each.name, each.status, each.reference, each.detail) for each in await steps_of(fleet, job)]
    assert found == [
        ("role", "done", "arn:role", "new"),
        ("logs", "done", "arn:logs", ""),
        ("hello", "done", "", "2 s"),
    ]
    assert await log_of(fleet, job) == [
        "Task role",
        "Task role: new (arn:role)",
        "a line with (secret)",
        "Log group",
        "Log group: done (arn:logs)",
        "Says hello",
        "Says hello: 2 s",
    ]


async def test_two_servers_run_each_job_once(fleet: FleetRows, servers: Callable[[str], Server]) -> None:
    both = [servers("srv_1"), servers("srv_2")]
    jobs = [await fleet.job() for _ in range(8)]
    await asyncio.gather(*(server.loop.step() for server in both for _ in range(3)))
    given = [each.job_id for server in both for each in server.runner.jobs]
    assert sorted(given) == sorted(each.id for each in jobs)


async def test_a_target_has_one_running_job_on_two_servers(fleet: FleetRows, servers: Callable[[str], Server]) -> None:
    both = [servers("srv_1"), servers("srv_2")]
    first = await fleet.job(FleetJobType.DEPLOY_WORKER, "rnr_1")
    second = await fleet.job(FleetJobType.DESTROY_WORKER, "rnr_1")
    await asyncio.gather(*(server.loop.step() for server in both for _ in range(3)))
    [(server, work)] = [(server, each) for server in both for each in server.runner.jobs]
    assert work.job_id == first.id
    server.runner.end(work)
    await eventually(fleet, first, "SUCCEEDED")
    await asyncio.gather(*(server.loop.step() for server in both))
    assert (await fleet.load(second)).is_active


async def test_a_lost_server_gives_the_job_to_another_one_and_its_late_events_change_nothing(
    fleet: FleetRows, servers: Callable[[str], Server], clock: ShiftedClock
) -> None:
    old, new = servers("srv_1"), servers("srv_2")
    job, work = await begun(fleet, old)
    clock.advance(29)
    await new.loop.step()
    assert (await fleet.load(job)).server_id == "srv_1", "the lease has not ended"
    clock.advance(2)
    await new.loop.step()
    queued = await fleet.load(job)
    assert (queued.status, queued.attempt, queued.losses) == ("QUEUED", 2, ["the server that ran it was lost"])
    clock.advance(2)
    await new.loop.step()
    again = await new.runner.given(1)
    assert again.attempt == 2
    old.runner.report(work, StepBegun(job.id, 1, "role", "Late"), LinePrinted(job.id, 1, "late"))
    old.runner.end(work, "failed", "late")
    async with asyncio.timeout(20):
        while old.loop.running:
            await asyncio.sleep(0.01)
    assert old.handler.ends == []
    assert (await fleet.load(job)).server_id == "srv_2"
    assert [each.name for each in await steps_of(fleet, job)] == []
    assert await log_of(fleet, job) == ["Attempt 1 has ended: the server that ran it was lost."]
    new.runner.end(again)
    await eventually(fleet, job, "SUCCEEDED")


async def test_a_server_that_has_lost_a_job_stops_its_process(
    fleet: FleetRows, servers: Callable[[str], Server], clock: ShiftedClock
) -> None:
    old, new = servers("srv_1"), servers("srv_2")
    job, _ = await begun(fleet, old)
    clock.advance(31)
    await new.loop.step()
    await old.loop.step()
    async with asyncio.timeout(20):
        while old.loop.running:
            await asyncio.sleep(0.01)
    assert old.runner.aborted == [(job.id, 1)]
    assert old.runner.canceled == [], "the process must not undo what the next attempt uses"


async def test_leases_are_renewed_and_a_stopped_clock_of_the_database_loses_nothing(
    fleet: FleetRows, servers: Callable[[str], Server], clock: ShiftedClock
) -> None:
    server, other = servers("srv_1"), servers("srv_2")
    job, _ = await begun(fleet, server)
    for _ in range(5):
        clock.advance(20)
        await server.loop.step()
        await other.loop.step()
    assert server.runner.renewals >= 5
    clock.advance(-60)
    await server.loop.step()
    await other.loop.step()
    found = await fleet.load(job)
    assert (found.server_id, found.attempt) == ("srv_1", 1)


async def test_a_crash_of_the_process_is_another_attempt_until_the_fifth_and_then_the_history_is_the_error(
    fleet: FleetRows, servers: Callable[[str], Server], clock: ShiftedClock
) -> None:
    server = servers("srv_1")
    job = await fleet.job()
    for number in range(1, 6):
        await server.loop.step()
        work = await server.runner.given(number)
        server.runner.report(work, StepBegun(job.id, number, "role", "Task role"))
        server.runner.crash(work)
        await eventually(fleet, job, "QUEUED", "FAILED")
        clock.advance(60)
    failed = await fleet.load(job)
    assert failed.status is FleetJobStatus.FAILED
    assert failed.error.startswith("it was given up after 5 attempts (1: the fleet process has ended: signal 9; 2:")
    assert server.handler.ends == [("FAILED", {})]
    assert [each.status for each in await steps_of(fleet, job, 5)] == ["failed"]


async def test_a_cancel_reaches_the_process_and_the_job_ends_after_it_has_unwound(
    fleet: FleetRows, servers: Callable[[str], Server]
) -> None:
    server = servers("srv_1")
    job, work = await begun(fleet, server)
    asked = await server.cancel(job)
    assert asked.is_active
    assert asked.canceled_at is not None
    await server.loop.step()
    assert server.runner.canceled == [(job.id, 1)]
    assert (await server.cancel(job)).canceled_at == asked.canceled_at, "a repetition changes nothing"
    await server.loop.step()
    assert server.runner.canceled == [(job.id, 1)] * 2, "the process may not have had the job at the first time"
    server.runner.report(work, LinePrinted(job.id, 1, "removed role"))
    server.runner.end(work, "canceled")
    ended = await eventually(fleet, job, "CANCELED")
    assert ended.error == "Terracrew canceled it"
    assert await log_of(fleet, job) == ["removed role"]
    with pytest.raises(Conflict, match="has ended already"):
        await server.cancel(job)


async def test_a_cancel_while_the_server_waits_ends_the_job_before_the_process_has_it(
    fleet: FleetRows, servers: Callable[[str], Server]
) -> None:
    server = servers("srv_1")
    server.handler.wait_seconds = 60.0
    job = await fleet.job(FleetJobType.DESTROY_WORKER)
    await server.loop.step()
    await eventually(fleet, job, "PROCESSING")
    await server.cancel(job)
    await server.loop.step()
    await eventually(fleet, job, "CANCELED")
    assert server.runner.jobs == []
    assert [(each.name, each.status) for each in await steps_of(fleet, job)] == [("drain", "failed")]


async def test_a_cancel_that_comes_too_late_changes_nothing(fleet: FleetRows, servers: Callable[[str], Server]) -> None:
    server = servers("srv_1")
    job, work = await begun(fleet, server)
    await server.cancel(job)
    server.runner.end(work, role="arn:role")
    assert (await eventually(fleet, job, "SUCCEEDED")).error == ""
    assert server.handler.ends[0][0] == "SUCCEEDED"


async def test_a_queued_job_is_canceled_at_once(fleet: FleetRows, servers: Callable[[str], Server]) -> None:
    server = servers("srv_1")
    job = await fleet.job()
    assert (await server.cancel(job)).status is FleetJobStatus.CANCELED
    assert server.handler.ends == [("CANCELED", {})]
    await server.loop.step()
    assert server.runner.jobs == []


async def test_a_canceled_job_whose_attempt_was_lost_is_given_once_more_to_remove_what_it_left(
    fleet: FleetRows, servers: Callable[[str], Server], clock: ShiftedClock
) -> None:
    server = servers("srv_1")
    job, work = await begun(fleet, server)
    await server.cancel(job)
    server.runner.crash(work)
    await eventually(fleet, job, "QUEUED")
    clock.advance(2)
    await server.loop.step()
    again = await server.runner.given(2)
    assert isinstance(again.work, DestroyWork)
    await server.loop.step()
    assert server.runner.canceled in ([], [(job.id, 1)]), "the attempt that removes is not canceled itself"
    server.runner.end(again)
    await eventually(fleet, job, "CANCELED")
    assert server.handler.ends == [("CANCELED", {})]


async def test_what_the_process_reports_is_bounded(fleet: FleetRows, servers: Callable[[str], Server]) -> None:
    server = servers("srv_1")
    job, work = await begun(fleet, server)
    key = job.id, 1
    server.runner.report(work, LinePrinted(*key, "x" * 1_000_000), LinePrinted(*key, "\0\x1b[31mred"))
    for number in range(MAX_STEPS_PER_ATTEMPT + 50):
        server.runner.report(work, StepBegun(*key, f"step {number} {'n' * 500}", "w" * 10_000))
    for number in range(MAX_LINES_PER_ATTEMPT):
        server.runner.report(work, LinePrinted(*key, f"{number}"))
    server.runner.report(work, StepDone(*key, "never begun", "", ""), StepFailed(*key, "nor this", "", ""))
    server.runner.end(work, "failed", "e" * 100_000, **{f"fact {number}": "f" * 10_000 for number in range(500)})
    failed = await eventually(fleet, job, "FAILED")
    assert len(failed.error) == MAX_TEXT_CHARACTERS
    lines = await log_of(fleet, job)
    assert len(lines) == MAX_LINES_PER_ATTEMPT
    assert len(lines[0]) == MAX_TEXT_CHARACTERS
    assert "\x1b" not in lines[1]
    assert "\0" not in lines[1]
    assert lines[-1].endswith("no further ones are kept.")
    steps = await steps_of(fleet, job)
    assert len(steps) == MAX_STEPS_PER_ATTEMPT
    assert max(len(each.words) for each in steps) == MAX_TEXT_CHARACTERS


async def test_a_job_that_cannot_be_given_fails_with_the_reason(
    fleet: FleetRows, servers: Callable[[str], Server]
) -> None:
    server = servers("srv_1")
    server.handler.refusal = "the cloud identity was deleted"
    job = await fleet.job()
    await server.loop.step()
    assert (await fleet.load(job)).error == "the cloud identity was deleted"
    assert server.handler.ends == [("FAILED", {})]


async def test_the_part_of_the_server_is_fenced_and_can_have_things_removed(
    fleet: FleetRows, servers: Callable[[str], Server], clock: ShiftedClock
) -> None:
    server, other = servers("srv_1"), servers("srv_2")
    written: list[str] = []

    async def part(reporter: ServerReporter) -> None:
        reporter.begin("task", "First task")
        await reporter.write(_note(written, "stored"))
        try:
            await reporter.wait(60)
        except Exception:
            await reporter.run(DestroyWork(work.work.deployment))  # pyright: ignore[reportArgumentType]
            raise

    server.handler.part = part
    job, work = await begun(fleet, server)
    server.runner.end(work, role="arn:role")
    async with asyncio.timeout(20):
        while not written:
            await asyncio.sleep(0.01)
    await server.cancel(job)
    await server.loop.step()
    removal = await server.runner.given(2)
    assert isinstance(removal.work, DestroyWork)
    await server.loop.step()
    assert server.runner.canceled == [], "what is removed because of a cancel is not canceled itself"
    server.runner.end(removal)
    await eventually(fleet, job, "CANCELED")

    async def late(reporter: ServerReporter) -> None:
        clock.advance(31)
        await other.loop.step()
        with pytest.raises(Superseded):
            await reporter.write(_note(written, "late"))
        raise CloudRefused("late")

    server.handler.part = late
    second, work = await begun(fleet, server, 3)
    server.runner.end(work)
    async with asyncio.timeout(20):
        while server.loop.running:
            await asyncio.sleep(0.01)
    assert written == ["stored"]
    assert (await fleet.load(second)).attempt == 2


def _note(written: list[str], text: str) -> Callable[[Tx], Awaitable[None]]:
    async def work(tx: Tx) -> None:
        tx.on_commit(lambda: written.append(text))

    return work


async def test_a_server_that_stops_hands_its_jobs_back(fleet: FleetRows, servers: Callable[[str], Server]) -> None:
    server = servers("srv_1")
    job, _ = await begun(fleet, server)
    running = asyncio.create_task(server.loop.run())
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    found = await fleet.load(job)
    assert (found.status, found.attempt, found.losses) == ("QUEUED", 2, ["its server was stopped"])


async def test_a_held_server_only_tests_connections(fleet: FleetRows, servers: Callable[[str], Server]) -> None:
    server = servers("srv_1")
    await fleet.db.write(lambda tx: history.start(tx, "a test", is_set_back=False, set_back_to=None))
    job = await fleet.job()
    check = await fleet.job(FleetJobType.CONNECTION_TEST, "cid_1")
    await server.loop.step()
    assert (await fleet.load(job)).status is FleetJobStatus.QUEUED
    assert (await fleet.load(check)).is_active


async def test_the_statement_that_renews_agrees_with_the_function(fleet: FleetRows) -> None:
    job = await fleet.job()
    claimed = decide.claim(job, 1, "srv_1", job.created_at, is_target_busy=False)
    assert claimed is not None
    await fleet.save(job, claimed)
    until = (job.created_at + timedelta(seconds=90)).timestamp()
    for server_id, attempt in (("srv_1", 1), ("srv_1", 2), ("srv_2", 1)):
        expected = decide.renew(claimed, attempt, server_id, job.created_at) is not None
        found = await fleet.db.write(
            lambda tx, server_id=server_id, attempt=attempt: store.renew(tx, server_id, [(job.id, attempt)], until)
        )
        assert (job.id in found) is expected
    ended = replace(claimed, status=FleetJobStatus.FAILED)
    assert decide.renew(ended, 1, "srv_1", job.created_at) is None
