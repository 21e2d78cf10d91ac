"""The page of a job that was cut short shows what it lost, and queues an apply that imports it."""

import pytest

from terracrew.protocol import events
from terracrew.protocol.events import Kind, PlanSummary, ResourceChange, Stream
from terracrew.protocol.spec import Step
from tests.builders.clock import ShiftedClock
from tests.builders.deliveries import RUNNING, fact
from tests.builders.job_rows import change_jobs, change_organizations
from tests.server.application import on_one
from tests.server.dashboard.visitor import logged_in
from tests.server.jobs.lost_resources.cut_short_attempts import lose_contact
from tests.server.simulated_runner import SimulatedRunner

LINES = (
    "a.x: Creation complete after 0s [id=<b>x</b>-1]\n"
    'a.k["${file(1)}"]: Creation complete after 0s [id=k]\n'
    "a.z: Creating...\n"
)


@on_one
@pytest.mark.feature("J15.lost", "U5.page")
async def test_the_page_lists_what_was_lost_and_imports_it(runner: SimulatedRunner) -> None:
    attempt = await runner.begun()
    record = next(events.unpack(events.pack(Kind.LOG, Stream.OUTPUT, Step.APPLY, 1.0, LINES.encode())))
    await attempt.deliver(record)
    await attempt.lose()
    await change_organizations(runner.rows.db, next_job_number=1000)
    someone, path = await logged_in(runner.app), f"/dashboard/jobs/{attempt.ref.job_id}"
    page = await someone.see(path)
    assert "Lost resources" in page
    assert "&lt;b&gt;x&lt;/b&gt;-1" in page
    assert "<b>x</b>" not in page
    assert page.count("import {") == 1
    assert "Look for it" in page
    made = await someone.submit(f"{path}/import-lost")
    assert made.status_code == 303
    job_id = made.headers["location"].rpartition("/")[2]
    job = (await runner.app.admin.get(f"/api/v1/jobs/{job_id}")).json()
    assert (job["type"], job["needs_approval"]) == ("APPLY", True)
    viewer = await runner.app.person("vera", "viewer")
    seen = await (await logged_in(runner.app, viewer.principal.name)).see(path)
    assert 'id="import-lost"' not in seen


@on_one
@pytest.mark.feature("J15.lost", "U5.page")
async def test_the_page_of_a_lost_attempt_says_what_is_not_known_and_what_to_look_for(
    runner: SimulatedRunner, clock: ShiftedClock
) -> None:
    attempt = await runner.run(kind="APPLY")
    await attempt.deliver(RUNNING, fact(PlanSummary(add=1, resources=[ResourceChange("a.planned", "create")])))
    await attempt.begin()
    await lose_contact(attempt, clock, after=4.0)
    someone, path = await logged_in(runner.app), f"/dashboard/jobs/{attempt.ref.job_id}"
    page = await someone.see(path)
    assert page.count("The log of attempt 1 ends 4 s before the last contact with it") == 2, "beside both lists"
    assert "a.planned" in page
    assert "was to create" in page
    await change_jobs(runner.rows.db, plan=None)
    page = await someone.see(path)
    assert "Lost resources" in page
    assert "The log reports no change that the module's state does not record" in page
