"""Of the jobs of a module, only the one that was created first is offered, whichever of them was queued last."""

import pytest

from terracrew.protocol.messages import AttemptRef
from terracrew.server.db.seam import Database
from terracrew.server.jobs import decide, service
from terracrew.testing.job_rows import JobRows
from tests.server.scheduling.recorded_offers import OfferRecorder

pytestmark = pytest.mark.feature("J10.order")


async def test_a_job_that_is_queued_again_is_offered_before_the_later_jobs_of_its_module(database: Database) -> None:
    """The module counted as free before its job was read, so that the later job was offered, too."""
    recorder = OfferRecorder(await JobRows.make(database))
    rows, scheduler = recorder.rows, recorder.scheduler
    runner, module = await rows.runner(), await rows.module()
    first, second = [await rows.job(module) for _ in range(2)]
    session, socket = recorder.connect(runner)
    await scheduler.sweep()
    await runner.claimed(first)
    scheduler.claimed(first, module, session)
    await service.settle(
        database,
        AttemptRef(first, 1),
        lambda job, attempt, now: decide.hand_back(job, attempt, "it drains", now),
    )
    await scheduler.step({("queue", first), ("freed", f"{first} {module} {runner.id}")})
    assert socket.offers == [first, first]
    await runner.claimed(first, 2)
    scheduler.claimed(first, module, session)
    await scheduler.step({("freed", f"{first} {module} {runner.id}")})
    assert socket.offers == [first, first, second]


async def test_an_offer_is_withdrawn_when_another_job_of_the_module_comes_first(database: Database) -> None:
    """The offer kept the only slot, although its claim would have been refused."""
    recorder = OfferRecorder(await JobRows.make(database))
    rows, scheduler = recorder.rows, recorder.scheduler
    runner, module = await rows.runner(slots=1), await rows.module()
    first, second = [await rows.job(module) for _ in range(2)]
    await rows.run("UPDATE jobs SET status = 'AWAITING_APPROVAL' WHERE id = :id", id=first)
    session, socket = recorder.connect(runner, slots=1)
    await scheduler.sweep()
    assert socket.offers == [second]
    await rows.run("UPDATE jobs SET status = 'QUEUED', attempt = 2 WHERE id = :id", id=first)  # it is approved
    await scheduler.step({("queue", first)})
    assert (socket.offers, session.offered) == ([second, first], {first})
    assert await runner.claim(second) is None
    scheduler.missed(second, session)
    await scheduler.step({("queue", second)})
    assert session.offered == {first}
    sql = "UPDATE jobs SET status = 'CANCELED', finished_at = :now WHERE id = :id"
    await database.write(lambda tx: tx.run(sql, now=tx.now, id=first))
    await scheduler.step({("queue", first)})
    assert socket.offers == [second, first, second]
