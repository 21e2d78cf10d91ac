"""Schedules and drift of the company: what starts by itself, a module that differs, and one whose check has failed."""

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from terracrew import ids
from terracrew.api.drift import DriftChange, DriftItem, DriftMute, DriftResult
from terracrew.api.schedules import Schedule
from terracrew.server.drift import store as drift
from terracrew.server.drift.model import DriftModule
from terracrew.server.schedules import model as schedule_times
from terracrew.server.schedules import store as schedules
from tests.server.dashboard.company.rows import Company

HASH = "0" * 64


async def moments(made: Company, differing: str, failing: str) -> None:
    """`differing` is a module with drift, a mute and a schedule of its own; the last check of `failing` has failed."""
    now = datetime.fromtimestamp(made.now, UTC)
    await _schedules(made, differing, now)
    job, monday = ids.new("job"), now - timedelta(days=3)
    row = DriftModule(
        module_id=differing,
        organization_id=made.organization_id,
        checked_at=now - timedelta(hours=7),
        checked_job_id=job,
        drifted=3,
        drifted_since=monday,
    )
    gone = DriftModule(
        module_id=failing,
        organization_id=made.organization_id,
        problem="job #431 is FAILED: the plan failed: Invalid function argument on main.tf line 7",
        problem_at=now - timedelta(hours=7),
    )
    await drift.ask(made.tx, [row, gone])
    for each in (row, gone):
        await drift.save(made.tx, each)
    tuesday = monday + timedelta(days=1)
    items = [
        DriftItem(differing, 'aws_security_group_rule.ssh["office"]', "delete", HASH, tuesday, tuesday),
        DriftItem(differing, "aws_vpc.main", "update", HASH, monday, tuesday),
        DriftItem(differing, "module.cache.aws_autoscaling_group.workers", "update", HASH, monday, monday),
    ]
    await drift.replace_items(made.tx, differing, {}, items)
    differences = [DriftChange(items[0].address, "new", "delete"), DriftChange(items[1].address, "changed", "update")]
    results = [
        DriftResult(
            job_id=job,
            module_id=differing,
            checked_at=now - timedelta(hours=7),
            is_refresh_only=True,
            drifted=3,
            muted=1,
        ),
        DriftResult(
            job_id=ids.new("job"),
            module_id=differing,
            checked_at=tuesday,
            is_refresh_only=True,
            drifted=3,
            muted=1,
            differences=differences,
        ),
    ]
    for result in results:
        await drift.insert_result(made.tx, result, 20)
    for address, reason in (
        (items[2].address, "the autoscaler chooses the size"),
        ("aws_s3_bucket.logs", "tags are set by the cost team"),
    ):
        mute = DriftMute(
            id=ids.new("mut"),
            organization_id=made.organization_id,
            module_id=differing,
            address=address,
            reason=reason,
            until=now + timedelta(days=25),
            created_by=made.user_id,
            created_by_name="priya",
            created_at=monday,
        )
        await drift.mute(made.tx, mute)


async def _schedules(made: Company, module: str, now: datetime) -> None:
    nightly = Schedule(
        id=ids.new("sch"),
        organization_id=made.organization_id,
        group_id=await made.group("payments/prod"),
        module_id=None,
        name="nightly drift",
        kind="DRIFT",
        cron="0 3 * * *",
        time_zone="Europe/Berlin",
        created_at=now - timedelta(days=30),
        changed_by=made.user_id,
        changed_by_name="priya",
        changed_at=now - timedelta(days=30),
        jitter_minutes=360,
        last_at=now - timedelta(hours=7),
        last_outcome="asked for 12 drift checks, spread over 360 minutes",
    )
    evening = Schedule(
        id=ids.new("sch"),
        organization_id=made.organization_id,
        group_id=None,
        module_id=module,
        name="evening destroy",
        kind="DESTROY",
        cron="0 20 * * 1-5",
        created_at=now - timedelta(days=9),
        changed_by=made.user_id,
        changed_by_name="elena",
        changed_at=now - timedelta(days=9),
        last_at=now - timedelta(hours=21),
        last_outcome="nothing was started: elena, who changed the schedule last, may not run jobs any more. "
        "Somebody who may has to change it",
        is_last_problem=True,
    )
    for each in (nightly, evening):
        await schedules.insert(made.tx, replace(each, next_at=schedule_times.start_after(each, made.now)))
