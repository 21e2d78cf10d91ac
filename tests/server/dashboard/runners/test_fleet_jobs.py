"""The page of a fleet job: steps with what they made, what failed and how to mend it, and a cancel that says what it removes."""

import html

import pytest

from terracrew.api.fleet_jobs import FleetJobType
from terracrew.fleet.messages import StepBegun
from tests.server.application import Application
from tests.server.dashboard.company.fleet import ROLE, TASK, FleetCompany, report
from tests.server.dashboard.visitor import logged_in

pytestmark = pytest.mark.feature("W4.fleet", "U3.deploy")
HERE = "/dashboard/fleet-jobs"
HOSTILE = "<script>alert(1)</script>"


def made(application: Application) -> FleetCompany:
    return FleetCompany(application.server.db, application.server.organization_id)


async def test_a_running_deployment_shows_its_steps_and_what_a_cancel_removes(application: Application) -> None:
    job, _ = await made(application).running()
    someone = await logged_in(application)
    page = html.unescape(await someone.see(f"{HERE}/{job.number}"))
    assert f"Deployment #{job.number}" in page
    assert "Deploying" in page
    assert ROLE in page
    assert TASK in page
    assert "needs 4" in page
    assert "pulling the image, 21 s of about 40 s" in page
    assert 'class="todo"' in page, "the last step is shown before it begins"
    assert "2 of 4" in page
    assert "Cancel and remove 1 resource…" in page
    answer = await someone.submit(f"{HERE}/{job.id}/cancel")
    assert answer.status_code == 303
    page = html.unescape(await someone.see(f"{HERE}/{job.id}"))
    assert "Canceling" in page
    assert "admin has canceled it." in page
    assert "cancel-fleet-job" not in page


async def test_a_failed_job_says_what_failed_how_to_mend_it_and_what_was_lost_before(application: Application) -> None:
    job = await made(application).failed()
    someone = await logged_in(application)
    page = html.unescape(await someone.see(f"{HERE}/{job.id}"))
    assert "iam:PassRole is missing" in page
    assert "Paste the policy of the identity again" in page
    assert "An earlier attempt was cut off: the fleet process has ended: signal 9." in page
    assert "IAM does not know the role yet" in page, "the log has the lines of all attempts"
    listed = html.unescape(await someone.see(HERE))
    assert f"deployment #{job.number} · attempt 2" in listed
    assert "payments/prod/burst" in await someone.see(f"{HERE}?status=FAILED")
    assert "payments/prod/burst" not in await someone.see(f"{HERE}?status=SUCCEEDED")


async def test_who_may_not_change_runners_sees_the_job_and_cannot_cancel_it(application: Application) -> None:
    job = await made(application).waiting()
    await application.person("vera", "viewer")
    viewer = await logged_in(application, "vera")
    page = await viewer.see(f"{HERE}/{job.id}")
    assert "It waits for its turn." in page
    assert "cancel-fleet-job" not in page
    assert (await viewer.submit(f"{HERE}/{job.id}/cancel")).status_code == 403
    await application.person("nora")
    nobody = await logged_in(application, "nora")
    await nobody.see(f"{HERE}/{job.id}", 404)
    assert "burst" not in await nobody.see(HERE)


async def test_what_clouds_and_names_say_is_text_and_nothing_else(application: Application) -> None:
    company = made(application)
    job = await company.queued(FleetJobType.CONNECTION_TEST, "cid_1", HOSTILE)
    log = await company.claimed(job)
    await report(log, StepBegun(job.id, 1, HOSTILE, HOSTILE))
    log.describe(HOSTILE, HOSTILE, HOSTILE)
    await log.flush()
    someone = await logged_in(application)
    for path in (HERE, f"{HERE}/{job.id}"):
        page = await someone.see(path)
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert(1)" in page
