"""An executor that runs and never connects: its job is queued again, and given up in the end."""

import pytest

from terracrew.protocol.messages import AttemptRef
from terracrew.server.jobs import decide, service
from terracrew.server.jobs.decide import Decision
from tests.builders.job_rows import JobRows

REASON = "its executor did not connect within 10 minutes: can it reach http://wrong?"


async def unconnected(rows: JobRows, ref: AttemptRef) -> Decision | None:
    return await service.settle(rows.db, ref, lambda job, attempt, now: decide.unconnected(job, attempt, REASON, now))


@pytest.mark.feature("O3.requeued")
async def test_a_job_whose_executors_never_connect_is_given_up_after_some_attempts(rows: JobRows) -> None:
    instance, job_id = await rows.runner(), await rows.job(await rows.module(), kind="APPLY")
    for number in range(1, decide.MAX_LOSSES):
        assert await unconnected(rows, await instance.claimed(job_id, number))
        assert (await rows.load(job_id)).status == "QUEUED"
    assert await unconnected(rows, await instance.claimed(job_id, decide.MAX_LOSSES))
    job = await rows.load(job_id)
    assert (job.status, job.message) == ("FAILED", f"given up after 5 lost attempts; the last one: {REASON}")
    attempts = await rows.attempts(job_id)
    assert {(each.outcome, each.is_in_doubt, each.may_hold_lock) for each in attempts} == {("lost", False, False)}


async def test_an_executor_that_has_connected_keeps_its_job(rows: JobRows) -> None:
    ref = await (await rows.runner()).start(await rows.job(await rows.module(), kind="APPLY"))
    assert await unconnected(rows, ref) is None
    assert (await rows.load(ref.job_id)).status == "PROCESSING"
