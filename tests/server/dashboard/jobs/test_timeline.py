"""The timeline of a job says in order what happened, how long it took, what lasts now, and what follows."""

import pytest

from tests.server.application import Application, on_one
from tests.server.dashboard.jobs.timelines import shown
from tests.server.dashboard.visitor import Visitor, logged_in

pytestmark = pytest.mark.feature("U5.page", "U5.timeline")


@on_one
async def test_the_timeline_of_jobs_in_every_condition(application: Application, jobs: dict[str, str]) -> None:
    someone: Visitor = await logged_in(application)
    done = shown(await someone.see_job(jobs["done"]))
    assert [each.title for each in done] == ["Queued", "Started", "Planned", "Applied", "Outputs read"]
    assert "init 0.9 s" in done[2].note
    assert not any(each.is_now for each in done)

    asking = shown(await someone.see_job(jobs["asking"]))
    assert [each.title for each in asking][-3:] == ["Waiting for approval", "Apply", "Outputs"]
    assert [each.mark for each in asking][-3:] == ["waiting", "pending", "pending"]
    assert asking[-3].is_now

    failed = shown(await someone.see_job(jobs["failed"]))
    assert (failed[-1].mark, failed[-1].title) == ("failed", "Plan failed")

    lost = shown(await someone.see_job(jobs["lost"]))
    assert ("failed", "Lost") in [(each.mark, each.title) for each in lost]
    assert ("out_of_contact", "Apply has no known end") in [(each.mark, each.title) for each in lost]

    planning = shown(await someone.see_job(jobs["planning"]))
    assert [each.title for each in planning] == ["Queued", "Offered and claimed", "Runner lost", "Started", "Planning"]


@on_one
async def test_a_job_that_waits_and_one_that_was_canceled(application: Application) -> None:
    admin = application.admin
    await admin.made("/api/v1/modules", {"path": "m", "source": {"kind": "local", "path": "/srv/sources"}})
    job = await admin.made("/api/v1/modules/m/jobs", {"type": "APPLY", "needs_approval": True})
    someone = await logged_in(application)
    titles = [each.title for each in shown(await someone.see_job(job["id"]))]
    assert titles == ["Waiting to start", "Plan", "Approval", "Apply", "Outputs"]
    await admin.post(f"/api/v1/jobs/{job['id']}/cancel", json={})
    titles = [each.title for each in shown(await someone.see_job(job["id"]))]
    assert titles == ["Queued", "Canceled"]
