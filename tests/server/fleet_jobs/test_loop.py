"""The loop of a server: each job runs once at a time, late events change nothing, and a job ends once, whatever is lost."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest
from msgspec.structs import replace

from terracrew.api.fleet_jobs import (
    MAX_LINES_PER_ATTEMPT,
    MAX_STEPS_PER_ATTEMPT,
    MAX_TEXT_CHARACTERS,
    FleetJobStatus,
    FleetJobType,
)
from terracrew.errors import Unavailable
from terracrew.fleet.messages import LinePrinted, StepBegun, StepDone, StepFailed
from terracrew.server.db.seam import Tx
from terracrew.server.fleet_jobs import decide, running, store
from terracrew.server.fleet_jobs.handlers import ServerReporter
from terracrew.server.history import store as history
from tests.builders.clock import ShiftedClock
from tests.server.fleet_jobs.fleet_rows import FleetRows
from tests.server.fleet_jobs.fleet_servers import FleetServer, begun, eventually, log_of, steps_of

pytestmark = pytest.mark.feature("W4.fleet", "J1.fleet")


async def test_a_job_runs_to_its_end_with_its_steps_and_its_facts(
    fleet: FleetRows, servers: Callable[[str], FleetServer]
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


async def test_two_servers_run_each_job_once(fleet: FleetRows, servers: Callable[[str], FleetServer]) -> None:
    both = [servers("srv_1"), servers("srv_2")]
    jobs = [await fleet.job() for _ in range(8)]
    await asyncio.gather(*(server.loop.step() for server in both for _ in range(3)))
    given = [each.job_id for server in both for each in server.runner.jobs]
    assert sorted(given) == sorted(each.id for each in jobs)


async def test_a_target_has_one_running_job_on_two_servers(
    fleet: FleetRows, servers: Callable[[str], FleetServer]
) -> None:
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
    fleet: FleetRows, servers: Callable[[str], FleetServer], clock: ShiftedClock
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
    fleet: FleetRows, servers: Callable[[str], FleetServer], clock: ShiftedClock
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
    fleet: FleetRows, servers: Callable[[str], FleetServer], clock: ShiftedClock
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
    fleet: FleetRows, servers: Callable[[str], FleetServer], clock: ShiftedClock
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


async def test_what_the_process_reports_is_bounded(fleet: FleetRows, servers: Callable[[str], FleetServer]) -> None:
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
    fleet: FleetRows, servers: Callable[[str], FleetServer]
) -> None:
    server = servers("srv_1")
    server.handler.refusal = "the cloud identity was deleted"
    job = await fleet.job()
    await server.loop.step()
    assert (await fleet.load(job)).error == "the cloud identity was deleted"
    assert server.handler.ends == [("FAILED", {})]


async def test_a_server_that_stops_hands_its_jobs_back(fleet: FleetRows, servers: Callable[[str], FleetServer]) -> None:
    server = servers("srv_1")
    job, _ = await begun(fleet, server)
    running = asyncio.create_task(server.loop.run())
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    found = await fleet.load(job)
    assert (found.status, found.attempt, found.losses) == ("QUEUED", 2, ["its server was stopped"])


async def test_a_held_server_only_tests_connections(fleet: FleetRows, servers: Callable[[str], FleetServer]) -> None:
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


async def test_a_database_that_is_away_for_a_moment_fails_no_job(
    fleet: FleetRows, servers: Callable[[str], FleetServer], monkeypatch: pytest.MonkeyPatch
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
