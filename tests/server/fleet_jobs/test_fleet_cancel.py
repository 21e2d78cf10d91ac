"""A cancel is a request: an attempt unwinds, whichever part of it runs, and a job ends as canceled once, or not at all."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from terracrew.api.fleet_jobs import FleetJobStatus, FleetJobType
from terracrew.clouds.contract import CloudRefused
from terracrew.errors import Conflict, Superseded
from terracrew.fleet.messages import DestroyWork, LinePrinted
from terracrew.server.db.seam import Tx
from terracrew.server.fleet_jobs import running
from terracrew.server.fleet_jobs.handlers import ServerReporter
from tests.builders.clock import ShiftedClock
from tests.server.fleet_jobs.fleet_rows import FleetRows
from tests.server.fleet_jobs.fleet_servers import FleetServer, begun, eventually, log_of, steps_of

pytestmark = pytest.mark.feature("W4.fleet", "J1.fleet")


async def test_a_cancel_reaches_the_process_and_the_job_ends_after_it_has_unwound(
    fleet: FleetRows, servers: Callable[[str], FleetServer]
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
    fleet: FleetRows, servers: Callable[[str], FleetServer]
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


async def test_an_attempt_that_hangs_after_a_cancel_is_cut_off(
    fleet: FleetRows, servers: Callable[[str], FleetServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "MAX_UNWIND_SECONDS", 0.0)
    server = servers("srv_1")
    job, _ = await begun(fleet, server)
    await server.cancel(job)
    await server.loop.step()
    await server.loop.step()
    found = await eventually(fleet, job, "QUEUED")
    assert found.losses == ["it did not end after it was canceled"]
    assert server.runner.aborted == [(job.id, 1)]


async def test_work_that_never_ends_is_cut_off(
    fleet: FleetRows, servers: Callable[[str], FleetServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "MAX_WORK_SECONDS", 0.1)
    server = servers("srv_1")
    job, _ = await begun(fleet, server)
    found = await eventually(fleet, job, "QUEUED")
    assert found.losses == ["it has not ended within 0 minutes"]


async def test_a_cancel_that_comes_too_late_changes_nothing(
    fleet: FleetRows, servers: Callable[[str], FleetServer]
) -> None:
    server = servers("srv_1")
    job, work = await begun(fleet, server)
    await server.cancel(job)
    server.runner.end(work, role="arn:role")
    assert (await eventually(fleet, job, "SUCCEEDED")).error == ""
    assert server.handler.ends[0][0] == "SUCCEEDED"


async def test_a_queued_job_is_canceled_at_once(fleet: FleetRows, servers: Callable[[str], FleetServer]) -> None:
    server = servers("srv_1")
    job = await fleet.job()
    assert (await server.cancel(job)).status is FleetJobStatus.CANCELED
    assert server.handler.ends == [("CANCELED", {})]
    await server.loop.step()
    assert server.runner.jobs == []


async def test_a_canceled_job_whose_attempt_was_lost_is_given_once_more_to_remove_what_it_left(
    fleet: FleetRows, servers: Callable[[str], FleetServer], clock: ShiftedClock
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


async def test_the_part_of_the_server_is_fenced_and_can_have_things_removed(
    fleet: FleetRows, servers: Callable[[str], FleetServer], clock: ShiftedClock
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
