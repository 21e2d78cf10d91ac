"""The state machine of a job allows exactly the transitions of its table, and the database enforces the same rules."""

from datetime import UTC, datetime
from itertools import product

import msgspec
import pytest

from terracrew import ids
from terracrew.api.jobs import ACTIVE, TERMINAL, TRANSITIONS, Job, JobStatus
from terracrew.errors import Conflict, Invalid, Superseded
from terracrew.protocol.spec import JobLimits, JobType
from terracrew.server.jobs import store
from tests.builders.job_rows import JobRows

pytestmark = pytest.mark.feature("J2.terminal", "J2.transitions")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
PAIRS = [pytest.param(a, b, id=f"{a.value}-{b.value}") for a, b in product(JobStatus, repeat=2)]


async def _job_in(rows: JobRows, status: JobStatus) -> Job:
    """A job that came to its status by the database's own rules."""
    job_id = await rows.job(await rows.module())
    job = await rows.load(job_id)
    path = {
        "QUEUED": [],
        "CLAIMED": ["CLAIMED"],
        "PROCESSING": ["CLAIMED", "PROCESSING"],
        "AWAITING_APPROVAL": ["CLAIMED", "PROCESSING", "AWAITING_APPROVAL"],
        "SUCCEEDED": ["CLAIMED", "PROCESSING", "SUCCEEDED"],
        "FAILED": ["FAILED"],
        "CANCELED": ["CANCELED"],
        "DECLINED": ["CLAIMED", "PROCESSING", "AWAITING_APPROVAL", "DECLINED"],
    }[status]
    for name in path:
        after = job.to(JobStatus(name), NOW, **({"runner_id": "r", "instance_id": "i"} if name == "CLAIMED" else {}))
        await rows.db.write(lambda tx, job=job, after=after: store.save_transition(tx, job, after))
        job = after
    return await rows.load(job_id)


@pytest.mark.parametrize(("before", "after"), PAIRS)
async def test_every_pair_of_statuses_goes_by_the_table(rows: JobRows, before: JobStatus, after: JobStatus) -> None:
    job = await _job_in(rows, before)
    changes = {"runner_id": "r", "instance_id": "i"} if after in ACTIVE else {}
    if after in TRANSITIONS[before]:
        moved = job.to(after, NOW, **changes)
        await rows.db.write(lambda tx: store.save_transition(tx, job, moved))
        assert (await rows.load(job.id)).status is after
    else:
        with pytest.raises(Conflict):
            job.to(after, NOW, **changes)
        assert (await rows.load(job.id)).status is before


def test_terminal_is_terminal() -> None:
    assert all(not TRANSITIONS[status] for status in TERMINAL)


async def test_saving_over_a_job_that_has_moved_is_refused(rows: JobRows) -> None:
    job = await _job_in(rows, JobStatus.QUEUED)
    await rows.db.write(lambda tx: store.save_transition(tx, job, job.to(JobStatus.CANCELED, NOW)))
    with pytest.raises(Superseded):
        await rows.db.write(lambda tx: store.save_transition(tx, job, job.to(JobStatus.FAILED, NOW)))


@pytest.mark.parametrize(
    "rubbish",
    [
        "UPDATE jobs SET status = 'DONE'",
        "UPDATE jobs SET status = 'PROCESSING'",
        "UPDATE jobs SET status = 'SUCCEEDED'",
        "UPDATE jobs SET instance_id = 'i'",
        "UPDATE jobs SET attempt = 0",
        "UPDATE jobs SET finished_at = 1",
    ],
)
async def test_the_database_itself_refuses_what_the_table_excludes(rows: JobRows, rubbish: str) -> None:
    await _job_in(rows, JobStatus.QUEUED)
    with pytest.raises((Invalid, Conflict)):
        await rows.db.write(lambda tx: tx.run(rubbish))  # pyright: ignore[reportArgumentType]


async def test_a_new_job_is_read_back_as_it_was_written(rows: JobRows) -> None:
    """What is decided later is not written, so the defaults of the table must be those of the struct."""
    like = await rows.load(await rows.job(await rows.module()))
    new = Job(
        ids.new("job"),
        like.organization_id,
        like.module_id,
        number=9_999,
        type=JobType.PLAN,
        status=JobStatus.QUEUED,
        attempt=1,
        priority=3,
        source=like.source,
        created_by="somebody",
        created_at=NOW,
        queued_at=NOW,
        needs_approval=True,
        approval_seconds=5,
        interrupted="retry",
        is_destroy_plan=True,
        is_fresh=True,
        has_own_source=True,
        limits=JobLimits(job_seconds=60),
        cause_job_id=like.id,
        group_run_id="run",
    )
    plain = msgspec.structs.replace(like, id=ids.new("job"), number=10_000)
    await rows.db.write(lambda tx: store.insert(tx, [(new, "key"), (plain, None)]))
    assert await rows.load(new.id) == new
    assert await rows.load(plain.id) == plain
