"""People are told when a job wants an approval, fails, or loses an attempt in the middle of a change."""

from datetime import timedelta

import pytest

from terracrew.protocol.events import Result
from terracrew.server.db.seam import Database
from terracrew.server.jobs import decide, service
from tests.builders.deliveries import delivery, fact
from tests.builders.job_rows import JobRows
from tests.server.announcements.channels import add, outbox
from tests.server.jobs.changes import Change
from tests.server.jobs.waiting_jobs import Waiting

pytestmark = pytest.mark.feature("M3.jobs")


async def test_a_plan_that_waits_for_a_person_is_told_once(database: Database) -> None:
    rows = await JobRows.make(database)
    channel = await add(rows)
    job = await Waiting.make(database, rows)
    [found] = await outbox(database, channel)
    assert (found.event, found.subject_id, found.content.link) == (
        "approval_wanted",
        job.id,
        f"/dashboard/jobs/{job.id}",
    )
    assert found.content.title == "APPLY #1 wants an approval"
    await job.approve()
    assert len(await outbox(database, channel)) == 1


async def test_a_job_that_fails_is_told_with_its_error(database: Database) -> None:
    rows = await JobRows.make(database)
    module, runner = await rows.module("network"), await rows.runner()
    channel, ended = await add(rows, module, "network"), await rows.job(module)
    await runner.finish(ended)
    ref = await runner.start(await rows.job(module))
    await rows.take(delivery(ref, 2, fact(Result("FAILED", "Error: no such region", failure_kind="time_limit"))))
    [found] = await outbox(database, channel)
    assert (found.event, found.path, found.content.title) == ("job_failed", "network", "PLAN #2 failed")
    assert found.content.text == "Error: no such region"
    assert found.content.facts == {"Job": "#2 PLAN", "Failure": "time_limit"}


async def test_an_attempt_that_is_lost_in_a_change_is_told_and_so_is_its_doubt(change: Change) -> None:
    channel = await add(change.rows)

    async def lose(silent_minutes: float) -> None:
        await service.settle(
            change.rows.db,
            change.ref,
            lambda job, attempt, now: decide.lost(
                job,
                attempt,
                decide.LastContact(now - timedelta(minutes=5), is_closed=True),
                now + timedelta(minutes=silent_minutes),
            ),
        )

    await lose(0)
    await lose(1)  # nothing new
    assert [each.content.title for each in await outbox(change.rows.db, channel)] == [
        "APPLY #1 has lost contact in the middle of a change"
    ]
    await lose(60)
    [doubt, lost] = await outbox(change.rows.db, channel)
    assert {doubt.event, lost.event} == {"job_lost"}
    assert doubt.content.title == "APPLY #1 was cut short: its module is in doubt"
    assert doubt.subject_id == lost.subject_id == change.job_id


async def test_an_engine_that_was_killed_is_told_as_a_doubt(change: Change) -> None:
    channel = await add(change.rows, events=("job_lost",))
    await change.tell(fact(Result("FAILED", "killed")))
    assert [each.content.title for each in await outbox(change.rows.db, channel)] == [
        "APPLY #1 was cut short: its module is in doubt"
    ]


async def test_a_job_that_is_queued_again_before_a_change_is_not_told(database: Database) -> None:
    rows = await JobRows.make(database)
    channel, runner = await add(rows), await rows.runner()
    await rows.gone(await runner.start(await rows.job(await rows.module())))
    assert await outbox(database, channel) == []
