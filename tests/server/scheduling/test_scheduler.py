"""The scheduler claims a job at once for the right runners, and a stale view does no harm."""

import asyncio
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from terracrew.protocol.messages import Credits
from terracrew.server.connections.registry import RunnerSession
from terracrew.server.db.seam import Database, Tx
from terracrew.server.scheduling import reads
from terracrew.server.scheduling.assignment_view import Route
from terracrew.server.scheduling.candidates import MAX_REFUSED_CLAIMS, Candidates
from terracrew.server.scheduling.queue import Waiting
from terracrew.server.scheduling.scheduler import SERVICE_PAUSE_RATIO
from tests.builders.job_rows import (
    JobRows,
    change_assignments,
    change_instances,
    change_jobs,
    change_modules,
    change_runners,
)
from tests.server.hub.hub_clients import on_postgres
from tests.server.scheduling.recorded_claims import MANY_CREDITS, ClaimRecorder

pytestmark = pytest.mark.feature("S3.offers")


async def test_a_job_whose_claim_was_refused_is_read_and_then_claimed_for_somebody_else(database: Database) -> None:
    """A refused claim says that something in memory is stale. The same instance is not tried again before a sweep."""
    recorder = ClaimRecorder(await JobRows.make(database))
    rows, scheduler = recorder.rows, recorder.scheduler
    pairs = [recorder.connect(await rows.runner(slots=1), slots=1) for _ in range(2)]
    job = await rows.job(await rows.module())
    with database.listen("queue") as heard:
        await scheduler.sweep()
        ((tried, its),) = [each for each in pairs if each[1].claims]
        ((_, theirs),) = [each for each in pairs if not each[1].claims]
        scheduler.unclaimed(job)
        assert (tried.reserved, tried.credits, theirs.claims) == (set(), MANY_CREDITS, [])
        await scheduler.step(await heard.get(timeout=5))
    assert (its.claims, theirs.claims) == ([job], [job])
    scheduler.unclaimed(job)
    await scheduler.step({("queue", job)})
    assert (its.claims, theirs.claims) == ([job], [job]), "both were refused"
    await scheduler.sweep()
    assert len(its.claims + theirs.claims) == 3


async def test_a_job_that_is_always_refused_is_not_tried_with_a_whole_fleet(database: Database) -> None:
    recorder = ClaimRecorder(await JobRows.make(database))
    rows, scheduler = recorder.rows, recorder.scheduler
    pairs = [recorder.connect(await rows.runner()) for _ in range(2 * MAX_REFUSED_CLAIMS)]
    job = await rows.job(await rows.module())
    await scheduler.sweep()
    for _ in range(3 * MAX_REFUSED_CLAIMS):
        scheduler.unclaimed(job)
        await scheduler.step({("queue", job)})
    assert sum(len(socket.claims) for _, socket in pairs) == MAX_REFUSED_CLAIMS


async def test_a_slot_is_kept_until_the_claim_is_decided_whatever_becomes_of_the_job(database: Database) -> None:
    """Two claims that are decided at the same time count the same free slot."""
    recorder = ClaimRecorder(await JobRows.make(database))
    rows, scheduler = recorder.rows, recorder.scheduler
    session, socket = recorder.connect(await rows.runner(slots=1), slots=1)
    first, second = [await rows.job(await rows.module()) for _ in range(2)]
    await scheduler.sweep()
    (claimed,) = socket.claims
    (waiting,) = {first, second} - {claimed}
    await change_jobs(rows.db, claimed, priority=9)
    await scheduler.step({("queue", claimed)})
    await scheduler.step({("queue", "")})  # everything is read again
    assert (socket.claims, session.reserved, session.free) == ([claimed], {claimed}, 0)
    scheduler.claimed(claimed)
    assert (session.reserved, session.active_jobs, session.free) == (set(), {claimed}, 0)
    assert waiting not in socket.claims


async def test_nothing_is_claimed_for_an_instance_without_a_credit_or_without_a_slot(database: Database) -> None:
    recorder = ClaimRecorder(await JobRows.make(database))
    rows, scheduler = recorder.rows, recorder.scheduler
    session, socket = recorder.connect(await rows.runner(slots=2), slots=2)
    session.credits = 0
    jobs = [await rows.job(await rows.module()) for _ in range(3)]
    await scheduler.sweep()
    assert socket.claims == []
    recorder.registry.set_credits(session, Credits(1, received=0))
    scheduler.serve(session)
    assert len(socket.claims) == 1
    recorder.registry.set_credits(session, Credits(9, received=0))
    scheduler.serve(session)
    assert len(socket.claims) == 2, "its record says that it has two slots"
    assert set(socket.claims) < set(jobs)


async def test_news_of_runners_are_served_together_and_use_a_part_of_the_event_loop(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each message with credits searched all lines: with 1,000 of them, 50 messages a second blocked the server for everybody."""
    recorder = ClaimRecorder(await JobRows.make(database))
    rows, scheduler = recorder.rows, recorder.scheduler
    pairs = [recorder.connect(await rows.runner(slots=1), slots=1) for _ in range(3)]
    served: list[set[RunnerSession]] = []

    def serve(*sessions: RunnerSession) -> None:
        served.append(set(sessions))
        time.sleep(0.02)

    monkeypatch.setattr(scheduler, "serve", serve)
    everybody = {session for session, _ in pairs}
    begun = time.monotonic()
    while len(served) < 4:
        for session in everybody:
            scheduler.serve_soon(session)
        await asyncio.sleep(0)
    assert time.monotonic() - begun > 3 * 0.02 * (1 + SERVICE_PAUSE_RATIO)
    assert served[-1] == everybody
    scheduler.serve_soon(pairs[0][0])
    async with asyncio.timeout(5):
        while served[-1] != {pairs[0][0]}:
            await asyncio.sleep(0.01)


async def test_lines_that_an_instance_cannot_serve_cost_it_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One organization can make a line for each set of tags."""
    recorder = ClaimRecorder(await JobRows.make(database))
    rows, scheduler = recorder.rows, recorder.scheduler
    session, socket = recorder.connect(await rows.runner(slots=1), slots=1, tags=["a"])
    session.credits = 0
    for tags in (["a"], ["b"], ["a", "b"], ["c"]):
        await change_modules(database, module := await rows.module(), tags=tags)
        await rows.job(module)
    await scheduler.sweep()
    searched: list[Route] = []
    search = Candidates.of

    def count(candidates: Candidates, route: Route, job: Waiting | None = None) -> Iterator[RunnerSession]:
        searched.append(route)
        return search(candidates, route, job)

    monkeypatch.setattr(Candidates, "of", count)
    session.credits = 1
    scheduler.serve(session)
    assert len(socket.claims) == 1
    assert {route.tags for route in searched} == {frozenset("a")}


async def test_a_queue_of_several_pages_is_compared_as_a_whole(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "PAGE_ROWS", 2)
    rows = await JobRows.make(database)
    jobs = [await rows.job(await rows.module()) for _ in range(5)]
    known = dict.fromkeys(jobs[1:], 1) | {jobs[2]: 7, "job_gone": 1}
    assert await reads.changed(database, known) == {jobs[0], jobs[2], "job_gone"}
    here, *elsewhere = [await rows.runner() for _ in range(5)]
    expected = {each.runner_id: {"one"} for each in elsewhere}
    assert await reads.connected_elsewhere(database, {here.id}) == expected
    assert await reads.connected_of(database, [here.runner_id, *expected], {here.id}) == expected


@on_postgres
async def test_a_job_that_was_claimed_while_the_sweep_was_reading_is_not_claimed_again(database: Database) -> None:
    recorder = ClaimRecorder(await JobRows.make(database))
    rows = recorder.rows
    session, socket = recorder.connect(await rows.runner())
    module = await rows.module()
    job = await rows.job(module)
    await recorder.scheduler.sweep()
    assert socket.claims == [job]
    sweeping = asyncio.create_task(recorder.scheduler.sweep())
    await asyncio.sleep(0)
    recorder.scheduler.claimed(job)  # what is being read still has it in the queue
    await sweeping
    assert socket.claims == [job]
    assert session.active_jobs == {job}


@pytest.mark.feature("S2.online")
@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.parametrize(
    "closing",
    [
        partial(change_runners, is_disabled=True),
        partial(change_runners, is_draining=True),
        partial(change_instances, is_connected=False),
    ],
)
async def test_a_closer_runner_on_another_server_that_takes_nothing_holds_nothing_up(
    rows: JobRows, closing: Any, is_told: bool
) -> None:
    """Its tier counted as online for ever, and the job waited for a runner that was disabled, or long dead."""
    recorder = ClaimRecorder(rows)
    near, far = await rows.runner(), await rows.runner()
    module = await rows.module()
    await change_assignments(rows.db, near.runner_id, kind="module", place_id=module)
    _, socket = recorder.connect(far)
    job = await rows.job(module)
    await recorder.scheduler.sweep()
    assert socket.claims == [], "the nearer one is online, elsewhere"
    await closing(rows.db, near.runner_id)
    await recorder.scheduler.step({("assignments", near.runner_id) if is_told else ("queue", "")})
    assert socket.claims == [job]


async def test_jobs_of_a_busy_module_are_not_claimed(database: Database) -> None:
    recorder = ClaimRecorder(await JobRows.make(database))
    rows = recorder.rows
    module = await rows.module()
    first, second = [await rows.job(module) for _ in range(2)]
    _, socket = recorder.connect(await rows.runner())
    await recorder.scheduler.sweep()
    assert socket.claims == [first]
    recorder.scheduler.claimed(first)
    await recorder.scheduler.step({("queue", second)})
    assert socket.claims == [first]


async def test_a_job_that_overtakes_another_one_of_its_module_is_claimed_alone(database: Database) -> None:
    """Both were chosen when two slots became free, and the claims of one transaction are decided by the ids of their jobs."""
    rows = await JobRows.make(database)
    recorder = ClaimRecorder(rows)
    runner, module = await rows.runner(), await rows.module()
    overtaken = await rows.job(module)
    await recorder.scheduler.sweep()
    urgent = await rows.job(module)
    await change_jobs(rows.db, urgent, priority=5)
    await recorder.scheduler.step({("queue", urgent)})
    session, socket = recorder.connect(runner)
    recorder.scheduler.serve(session)
    assert socket.claims == [urgent]
    await database.write(lambda tx: change_jobs(tx, urgent, status="CANCELED", finished_at=tx.now))
    recorder.scheduler.unclaimed(urgent)
    await recorder.scheduler.step({("queue", urgent)})
    assert socket.claims == [urgent, overtaken]


async def test_an_edit_of_one_module_leaves_the_claims_of_the_others_alone(database: Database) -> None:
    """Every edit of a module or group read the whole queue again."""
    recorder = ClaimRecorder(await JobRows.make(database))
    rows = recorder.rows
    session, socket = recorder.connect(await rows.runner())
    modules = [await rows.module() for _ in range(3)]
    jobs = [await rows.job(module) for module in modules]
    await recorder.scheduler.sweep()
    assert sorted(socket.claims) == sorted(jobs)
    later = await rows.job(await rows.module())  # queued, and nobody was woken for it
    await recorder.scheduler.step({("tree", modules[0]), ("tree", rows.root)})
    assert session.reserved == set(jobs)
    assert later not in socket.claims, "the rest of the queue was not read"
    await recorder.scheduler.step({("queue", "")})
    assert later in socket.claims


@pytest.mark.feature("S4.runner")
async def test_an_edit_that_names_another_runner_moves_the_modules_jobs_to_it(database: Database) -> None:
    recorder = ClaimRecorder(await JobRows.make(database))
    rows = recorder.rows
    one, other = [await rows.runner() for _ in range(2)]
    (_, its), (_, theirs) = recorder.connect(one), recorder.connect(other)
    module = await rows.module()
    await change_modules(database, module, runner_id=one.runner_id)
    job = await rows.job(module)
    await recorder.scheduler.sweep()
    assert (its.claims, theirs.claims) == ([job], [])
    await change_modules(database, module, runner_id=other.runner_id)
    recorder.scheduler.unclaimed(job)  # the statement of the claim knows the new runner
    await recorder.scheduler.step({("tree", module)})
    assert theirs.claims == [job]
    assert recorder.registry.runners[one.id].reserved == set()


@pytest.mark.feature("S2.order")
async def test_a_group_that_comes_back_under_its_old_path_has_not_its_old_runners(database: Database) -> None:
    recorder = ClaimRecorder(await JobRows.make(database))
    rows = recorder.rows
    near, far = await rows.runner(), await rows.runner()
    (_, its), (_, theirs) = recorder.connect(near), recorder.connect(far)
    group = await rows.group("network")
    await change_assignments(database, near.runner_id, place_id=group, path="network")
    module = await rows.module("network/vpc", group)
    job = await rows.job(module)
    await recorder.scheduler.sweep()
    assert (its.claims, theirs.claims) == ([job], [])

    async def replace_group(tx: Tx) -> None:
        await tx.run("DELETE FROM jobs WHERE id = :id", id=job)
        await tx.run("DELETE FROM modules WHERE id = :id", id=module)
        await tx.run("DELETE FROM assignments WHERE place_id = :id", id=group)
        await tx.run("DELETE FROM groups WHERE id = :id", id=group)

    await database.write(replace_group)
    again = await rows.group("network")
    second = await rows.job(await rows.module("network/vpc", again))
    woken = {("tree", group), ("tree", module), ("tree", again), ("queue", job), ("queue", second)}
    await recorder.scheduler.step({*woken, ("assignments", near.runner_id)})
    assert (its.claims, theirs.claims[-1]) == ([job], second)
