"""Of the jobs of a module, only the one that was created first is claimed, whichever of them was queued last."""

import pytest

from terracrew.protocol.messages import AttemptRef
from terracrew.server.db.seam import Database
from terracrew.server.db.topics import FreedKey
from terracrew.server.jobs import decide, service
from tests.builders.job_rows import JobRows, change_jobs
from tests.server.scheduling.recorded_claims import ClaimRecorder

pytestmark = pytest.mark.feature("J10.order")


async def test_a_job_that_is_queued_again_is_claimed_before_the_later_jobs_of_its_module(database: Database) -> None:
    """The module counted as free before its job was read, so that the later job was chosen, too."""
    recorder = ClaimRecorder(await JobRows.make(database))
    rows, scheduler = recorder.rows, recorder.scheduler
    runner, module = await rows.runner(), await rows.module()
    first, second = [await rows.job(module) for _ in range(2)]
    _, socket = recorder.connect(runner)
    await scheduler.sweep()
    await runner.claimed(first)
    scheduler.claimed(first)
    await service.settle(
        database,
        AttemptRef(first, 1),
        lambda job, attempt, now: decide.hand_back(job, attempt, "it drains", now),
    )
    await scheduler.step({("queue", first), ("freed", FreedKey(first, module, runner.id).encode())})
    assert socket.claims == [first, first]
    await runner.claimed(first, 2)
    scheduler.claimed(first)
    await scheduler.step({("freed", FreedKey(first, module, runner.id).encode())})
    assert socket.claims == [first, first, second]


async def test_a_slot_that_a_refused_claim_held_goes_to_the_job_that_comes_first(database: Database) -> None:
    recorder = ClaimRecorder(await JobRows.make(database))
    rows, scheduler = recorder.rows, recorder.scheduler
    runner, module = await rows.runner(slots=1), await rows.module()
    first, second = [await rows.job(module) for _ in range(2)]
    await change_jobs(rows.db, first, status="AWAITING_APPROVAL")
    session, socket = recorder.connect(runner, slots=1)
    await scheduler.sweep()
    assert socket.claims == [second]
    await change_jobs(rows.db, first, status="QUEUED", attempt=2)  # it is approved
    await scheduler.step({("queue", first)})
    assert (socket.claims, session.reserved) == ([second], {second}), "the slot is kept until the claim is decided"
    assert await runner.claim(second) is None
    scheduler.unclaimed(second)
    await scheduler.step({("queue", second)})
    assert (socket.claims, session.reserved) == ([second, first], {first})
    await database.write(lambda tx: change_jobs(tx, first, status="CANCELED", finished_at=tx.now))
    scheduler.unclaimed(first)
    await scheduler.sweep()
    assert socket.claims == [second, first, second]
