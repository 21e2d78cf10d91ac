"""The timeline of a job has five parts whatever happened, and says how long each took, what lasts now, and what follows."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from terracrew.api.job_views import JobView, Placement
from terracrew.api.jobs import CHOSEN, Attempt, GivenApproval, JobStatus, Plan, StepRow
from terracrew.protocol.spec import JobType, LocalSource, Step
from terracrew.server.dashboard.jobs import timeline
from terracrew.server.dashboard.jobs.timeline import TimelinePart, TimelineSource
from tests.server.application import Application, on_one
from tests.server.dashboard.jobs.timelines import shown
from tests.server.dashboard.visitor import Visitor, logged_in

pytestmark = pytest.mark.feature("U5.page", "U5.timeline")
ZERO = datetime(2026, 1, 1, tzinfo=UTC)
PLAN_STEPS = [(Step.FETCH, 2.0, 3.0), (Step.INIT, 3.0, 5.0), (Step.PLAN, 5.0, 9.5)]


def at(seconds: float) -> datetime:
    return ZERO + timedelta(seconds=seconds)


def attempt(number: int, claimed: float, **more: Any) -> Attempt:
    return Attempt("job_1", number, "rnr_1", "ins_1", at(claimed), **more)


def plan(number: int = 1, *, made: float = 10, decided: float | None = None, **more: Any) -> Plan:
    decided_at = None if decided is None else at(decided)
    return Plan("job_1", number, 1, "", "", "", 1, at(made), at(9_999), decided_at=decided_at, **more)


def steps(*found: tuple[Step, float, float]) -> list[StepRow]:
    return [StepRow(name, "SUCCEEDED", at(start), at(end)) for name, start, end in found]


def parts(
    status: str, *attempts: Attempt, of: dict[int, list[StepRow]] | None = None, **job: Any
) -> list[TimelinePart]:
    """The timeline of a job that was created at 0, was claimed at 1 and, if it has ended, took 100 seconds."""
    shared: dict[str, Any] = {"type": JobType.APPLY, "attempt": len(attempts) or 1, "queued_at": ZERO} | job
    view = JobView(
        id="job_1",
        organization_id="org_1",
        module_id="mod_1",
        number=7,
        status=JobStatus(status),
        priority=0,
        source=LocalSource("/x"),
        created_by="usr_1",
        created_at=ZERO,
        module_path="m",
        runner_path=None,
        instance_name=None,
        engine="tofu",
        attempts=list(attempts),
        steps=[],
        notes=[],
        lock=None,
        placement=Placement(None, None, [], []),
        finished_at=at(100) if status in ("SUCCEEDED", "FAILED", "CANCELED", "DECLINED") else None,
        **shared,
    )
    found = timeline.parts(TimelineSource(view, "ada", {each.number: "crew" for each in attempts}, of or {}))
    assert len(found) == 5
    lasting = [each.title for each in found if each.since]
    assert len(lasting) == (0 if view.is_terminal else 1), lasting
    if view.is_terminal:
        assert sum(each.seconds or 0.0 for each in found) == pytest.approx(100)
    return found


def titles(found: list[TimelinePart]) -> list[str]:
    return [each.title for each in found]


APPLIED = steps((Step.FETCH, 71, 72), (Step.APPLY, 73, 90), (Step.OUTPUT, 90, 94))
GIVEN = [GivenApproval("usr_2", "grace", at(60))]


def test_the_parts_of_an_approved_job_last_as_long_as_the_job() -> None:
    """The page said "Succeeded after 0.3 s" of a job that had waited 36 minutes for its approval, in eight cells."""
    lost, made, done = attempt(1, 1, outcome="lost"), attempt(2, 2, outcome="waiting"), attempt(3, 70, begun_at=at(73))
    decided = plan(2, decided=60, decision="approved", approvals=GIVEN)
    of = {2: steps(*PLAN_STEPS), 3: APPLIED}
    found = parts("SUCCEEDED", lost, made, done, of=of, plan_attempt=2, kept_plan=decided)
    assert titles(found) == ["Queued", "Planned", "Approved", "Applied", "Outputs read"]
    assert [each.seconds for each in found] == [1, 9, 50, 36, 4]
    assert [each.note for each in found] == ["by ada", "attempt 2 on crew", "by grace", "attempt 3 on crew", ""]
    waiting = parts("QUEUED", lost, made, of={2: of[2]}, attempt=3, plan_attempt=2, kept_plan=decided)
    assert titles(waiting)[3:] == ["Waiting to apply", "Outputs"]
    begins = attempt(3, 70)
    starting = parts("CLAIMED", lost, made, begins, of={2: of[2]}, plan_attempt=2, kept_plan=decided)
    assert titles(starting)[3] == "Starting"
    canceled = parts("CANCELED", lost, made, of={2: of[2]}, attempt=3, plan_attempt=2, kept_plan=decided)
    assert (titles(canceled)[3:], canceled[3].mark, canceled[4].mark) == (
        ["Apply canceled", "Outputs"],
        "CANCELED",
        "SKIPPED",
    )


def test_a_job_that_nobody_has_to_approve() -> None:
    one = attempt(1, 1, begun_at=at(10))
    found = parts("SUCCEEDED", one, of={1: steps(*PLAN_STEPS, (Step.APPLY, 10, 90), (Step.OUTPUT, 90, 94))})
    assert titles(found) == ["Queued", "Planned", "Approval", "Applied", "Outputs read"]
    assert (found[2].mark, found[2].note) == ("SKIPPED", "not needed")
    nothing = parts("SUCCEEDED", attempt(1, 1), of={1: steps(*PLAN_STEPS, (Step.OUTPUT, 90, 94))})
    assert [(each.title, each.note) for each in nothing[3:]] == [("Apply", "nothing to apply"), ("Outputs read", "")]
    destroyed = parts("SUCCEEDED", one, of={1: steps(*PLAN_STEPS, (Step.DESTROY, 10, 90))}, type=JobType.DESTROY)
    assert titles(destroyed)[3:] == ["Destroyed", "Outputs"]


def test_a_job_that_applies_the_plan_of_another() -> None:
    chosen = plan(CHOSEN, made=-500, decided=40, decision="approved", approvals=GIVEN)
    found = parts(
        "SUCCEEDED", attempt(1, 50), of={1: APPLIED}, plan_attempt=CHOSEN, kept_plan=chosen, plan_job_number=6
    )
    assert titles(found) == ["Planned", "Approved", "Queued", "Applied", "Outputs read"]
    assert [each.seconds for each in found] == [None, 40, 10, 46, 4]
    assert found[0].note == "by job #6"
    taken = plan(CHOSEN, made=-500, decided=0, decision="approved")
    quick = parts("SUCCEEDED", attempt(1, 50), of={1: APPLIED}, plan_attempt=CHOSEN, kept_plan=taken)
    assert [(each.title, each.seconds) for each in quick[1:3]] == [("Approval", None), ("Queued", 50)]
    asked = parts("AWAITING_APPROVAL", plan_attempt=CHOSEN, kept_plan=plan(CHOSEN, made=-500))
    assert titles(asked) == ["Planned", "Waiting for approval", "Start", "Apply", "Outputs"]


@pytest.mark.parametrize(
    ("status", "ended", "names"),
    [
        ("FAILED", "FAILED", ["Queued", "Init failed", "Approval", "Apply", "Outputs"]),
        ("CANCELED", "CANCELED", ["Queued", "Init canceled", "Approval", "Apply", "Outputs"]),
    ],
)
def test_a_job_that_ends_before_its_plan(status: str, ended: Any, names: list[str]) -> None:
    stopped = [*steps((Step.FETCH, 2, 3)), StepRow(Step.INIT, ended, at(3), at(5))]
    found = parts(status, attempt(1, 1, ended_at=at(100), outcome="failed"), of={1: stopped})
    assert titles(found) == names
    assert [each.mark for each in found] == ["SUCCEEDED", ended, "SKIPPED", "SKIPPED", "SKIPPED"]
    lost = parts(status, attempt(1, 1, ended_at=at(100), outcome="lost"), of={1: steps((Step.FETCH, 2, 3))})
    assert lost[1].title == f"Plan {status.lower()}"
    never = parts(status, attempt=1)
    assert (never[0].title, never[0].seconds) == (f"Start {status.lower()}", 100)


def test_a_change_whose_end_is_not_known() -> None:
    begun = [*steps(*PLAN_STEPS), StepRow(Step.APPLY, "RUNNING", at(10))]
    one = attempt(1, 1, begun_at=at(10))
    lost = parts("PROCESSING", msgspec.structs.replace(one, lost_at=at(60)), of={1: begun})
    assert [(each.mark, each.title) for each in lost[3:]] == [("OUT_OF_CONTACT", "Lost"), ("PENDING", "Outputs")]
    gone = msgspec.structs.replace(one, ended_at=at(99), outcome="lost")
    again = parts("QUEUED", gone, attempt=2)
    assert titles(again)[:2] == ["Queued", "Waiting to start again"]
    assert again[1].note == "attempt 1: runner lost"
    ended = parts("CANCELED", gone, of={1: begun})
    assert titles(ended)[3:] == ["Apply has no known end", "Outputs"]


def test_a_plan_says_what_becomes_of_it() -> None:
    of = {1: steps(*PLAN_STEPS)}
    found = parts("SUCCEEDED", attempt(1, 1), of=of, type=JobType.PLAN, is_plan_applicable=True, kept_plan=plan())
    assert titles(found) == ["Queued", "Planned", "Approval", "Apply", "Outputs"]
    assert (found[3].mark, found[3].note) == ("PENDING", "if somebody applies this plan"), "it is not skipped yet"
    taken = parts("SUCCEEDED", attempt(1, 1), of=of, type=JobType.PLAN, taken_by_number=8)
    assert taken[3].note == "by job #8"
    assert parts("SUCCEEDED", attempt(1, 1), of=of, type=JobType.PLAN)[3].note == "nothing to apply"


@on_one
async def test_the_timeline_of_jobs_in_every_condition(application: Application, jobs: dict[str, str]) -> None:
    someone: Visitor = await logged_in(application)
    seen = await someone.see_job(jobs["done"])
    assert "took 21 s, " in seen
    done = shown(seen)
    assert [each.title for each in done] == ["Queued", "Planned", "Approval", "Applied", "Outputs read"]
    assert not any(each.is_now for each in done)

    asking = shown(await someone.see_job(jobs["asking"]))
    assert [each.title for each in asking] == ["Queued", "Planned", "Waiting for approval", "Apply", "Outputs"]
    assert [each.mark for each in asking][-3:] == ["waiting", "pending", "pending"]
    assert asking[2].is_now

    failed = shown(await someone.see_job(jobs["failed"]))
    assert [(each.mark, each.title) for each in failed][1] == ("failed", "Plan failed")

    lost = shown(await someone.see_job(jobs["lost"]))
    assert [(each.mark, each.title) for each in lost][3] == ("out_of_contact", "Lost")

    planning = shown(await someone.see_job(jobs["planning"]))
    assert [each.title for each in planning] == ["Queued", "Planning", "Approval", "Apply", "Outputs"]
    assert planning[1].note.startswith("attempt 2 on ")


@on_one
async def test_a_job_that_waits_and_one_that_was_canceled(application: Application) -> None:
    admin = application.admin
    await admin.made("/api/v1/modules", {"path": "m", "source": {"kind": "local", "path": "/srv/sources"}})
    job = await admin.made("/api/v1/modules/m/jobs", {"type": "APPLY", "needs_approval": True})
    someone = await logged_in(application)
    page = await someone.see_job(job["id"])
    assert [each.title for each in shown(page)] == ["Waiting to start", "Plan", "Approval", "Apply", "Outputs"]
    assert '<dt>Attempts</dt><dd class="num">0</dd>' in page, "no runner has begun with it"
    await admin.post(f"/api/v1/jobs/{job['id']}/cancel", json={})
    found = [each.title for each in shown(await someone.see_job(job["id"]))]
    assert found == ["Start canceled", "Plan", "Approval", "Apply", "Outputs"]
