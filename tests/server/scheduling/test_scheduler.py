"""The scheduler offers a job at once to the right runners, and a stale view offers nothing wrong."""

import asyncio
from typing import Any

import pytest

from terracrew.server.db.seam import Database, Tx
from terracrew.server.scheduling import reads
from terracrew.testing.job_rows import JobRows
from tests.server.hub.hub_clients import on_postgres
from tests.server.scheduling.recorded_offers import OfferRecorder

pytestmark = pytest.mark.feature("S3.offers")


async def test_a_slot_that_another_ones_claim_has_freed_takes_the_next_job_at_once(database: Database) -> None:
    """The loser of an offer had a free slot and a job in line for it, and both waited for the next sweep."""
    recorder = OfferRecorder(await JobRows.make(database))
    rows = recorder.rows
    (one, its), (_, theirs) = [recorder.connect(await rows.runner(slots=1), slots=1) for _ in range(2)]
    modules = [await rows.module() for _ in range(2)]
    first = await rows.job(modules[0])
    await recorder.scheduler.sweep()
    async with asyncio.timeout(10):
        while not its.offers == theirs.offers == [first]:  # the ring widens
            await asyncio.sleep(0.01)
    second = await rows.job(modules[1])
    await recorder.scheduler.step({("queue", second)})
    assert second not in its.offers + theirs.offers, "one slot each, and both are kept for the first job"
    recorder.scheduler.claimed(first, modules[0], one)
    assert theirs.offers == [first, second]


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
async def test_a_job_that_was_claimed_while_the_sweep_was_reading_is_not_offered_again(database: Database) -> None:
    recorder = OfferRecorder(await JobRows.make(database))
    rows = recorder.rows
    session, socket = recorder.connect(await rows.runner())
    module = await rows.module()
    job = await rows.job(module)
    await recorder.scheduler.sweep()
    assert socket.offers == [job]
    sweeping = asyncio.create_task(recorder.scheduler.sweep())
    await asyncio.sleep(0)
    recorder.scheduler.claimed(job, module, session)  # what is being read still has it in the queue
    await sweeping
    assert socket.offers == [job]
    assert session.active_jobs == {job}


@pytest.mark.feature("S2.online")
@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.parametrize(
    "closing",
    [
        "UPDATE runners SET is_disabled = true WHERE id = :id",
        "UPDATE runners SET is_draining = true WHERE id = :id",
        "UPDATE instances SET is_connected = false WHERE runner_id = :id",
    ],
)
async def test_a_closer_runner_on_another_server_that_takes_nothing_holds_nothing_up(
    rows: JobRows, closing: Any, is_told: bool
) -> None:
    """Its tier counted as online for ever, and the job waited for a runner that was disabled, or long dead."""
    recorder = OfferRecorder(rows)
    near, far = await rows.runner(), await rows.runner()
    module = await rows.module()
    await rows.db.write(
        lambda tx: tx.run(
            "UPDATE assignments SET kind = 'module', place_id = :module WHERE runner_id = :id",
            module=module,
            id=near.runner_id,
        )
    )
    _, socket = recorder.connect(far)
    job = await rows.job(module)
    await recorder.scheduler.sweep()
    assert socket.offers == [], "the nearer one is online, elsewhere"
    await rows.db.write(lambda tx: tx.run(closing, id=near.runner_id))
    await recorder.scheduler.step({("assignments", near.runner_id) if is_told else ("queue", "")})
    assert socket.offers == [job]


async def test_jobs_of_a_busy_module_are_not_offered(database: Database) -> None:
    recorder = OfferRecorder(await JobRows.make(database))
    rows = recorder.rows
    module = await rows.module()
    first, second = [await rows.job(module) for _ in range(2)]
    session, socket = recorder.connect(await rows.runner())
    await recorder.scheduler.sweep()
    assert socket.offers == [first]
    recorder.scheduler.claimed(first, module, session)
    await recorder.scheduler.step({("queue", second)})
    assert socket.offers == [first]


async def test_a_job_that_overtakes_another_one_of_its_module_is_offered_alone(database: Database) -> None:
    """Both were offered when two slots became free, and the claims of one transaction are decided by the ids of their jobs."""
    rows = await JobRows.make(database)
    recorder = OfferRecorder(rows)
    runner, module = await rows.runner(), await rows.module()
    overtaken = await rows.job(module)
    await recorder.scheduler.sweep()
    urgent = await rows.job(module)
    await rows.run("UPDATE jobs SET priority = 5 WHERE id = :id", id=urgent)
    await recorder.scheduler.step({("queue", urgent)})
    session, socket = recorder.connect(runner)
    recorder.scheduler.serve(session)
    assert socket.offers == [urgent]
    sql = "UPDATE jobs SET status = 'CANCELED', finished_at = :now WHERE id = :id"
    await database.write(lambda tx: tx.run(sql, now=tx.now, id=urgent))
    await recorder.scheduler.step({("queue", urgent)})
    assert socket.offers == [urgent, overtaken]


async def test_an_edit_of_one_module_leaves_the_offers_of_the_others_alone(database: Database) -> None:
    """Every edit of a module or group took all offers back and read the whole queue again."""
    recorder = OfferRecorder(await JobRows.make(database))
    rows = recorder.rows
    session, socket = recorder.connect(await rows.runner())
    modules = [await rows.module() for _ in range(3)]
    jobs = [await rows.job(module) for module in modules]
    await recorder.scheduler.sweep()
    assert sorted(socket.offers) == sorted(jobs)
    later = await rows.job(await rows.module())  # queued, and nobody was woken for it
    await recorder.scheduler.step({("tree", modules[0]), ("tree", rows.root)})
    assert session.offered == set(jobs)
    assert later not in socket.offers, "the rest of the queue was not read"
    await recorder.scheduler.step({("queue", "")})
    assert later in socket.offers


@pytest.mark.feature("S4.runner")
async def test_an_edit_that_names_another_runner_moves_the_modules_jobs_to_it(database: Database) -> None:
    recorder = OfferRecorder(await JobRows.make(database))
    rows = recorder.rows
    one, other = [await rows.runner() for _ in range(2)]
    (_, its), (_, theirs) = recorder.connect(one), recorder.connect(other)
    module = await rows.module()
    await database.write(
        lambda tx: tx.run("UPDATE modules SET runner_id = :runner WHERE id = :id", runner=one.runner_id, id=module)
    )
    job = await rows.job(module)
    await recorder.scheduler.sweep()
    assert (its.offers, theirs.offers) == ([job], [])
    await database.write(
        lambda tx: tx.run("UPDATE modules SET runner_id = :runner WHERE id = :id", runner=other.runner_id, id=module)
    )
    await recorder.scheduler.step({("tree", module)})
    assert theirs.offers == [job]
    assert recorder.registry.runners[one.id].offered == set()


@pytest.mark.feature("S2.order")
async def test_a_group_that_comes_back_under_its_old_path_has_not_its_old_runners(database: Database) -> None:
    recorder = OfferRecorder(await JobRows.make(database))
    rows = recorder.rows
    near, far = await rows.runner(), await rows.runner()
    (_, its), (_, theirs) = recorder.connect(near), recorder.connect(far)
    group = await rows.group("network")
    await database.write(
        lambda tx: tx.run(
            "UPDATE assignments SET place_id = :group, path = 'network' WHERE runner_id = :id",
            group=group,
            id=near.runner_id,
        )
    )
    module = await rows.module("network/vpc", group)
    job = await rows.job(module)
    await recorder.scheduler.sweep()
    assert (its.offers, theirs.offers) == ([job], [])

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
    assert (its.offers, theirs.offers[-1]) == ([job], second)
