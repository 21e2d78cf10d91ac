"""Jobs and modules ask for a fresh workspace, and a step that was kept from an earlier job says so."""

import pytest

from terracrew.protocol.events import StepStatus
from terracrew.protocol.spec import Step
from terracrew.server.jobs import metrics
from tests.builders.deliveries import fact
from tests.server.application import Application, on_one
from tests.server.dashboard.visitor import logged_in
from tests.server.metrics.counted import counted
from tests.server.simulated_runner import SimulatedRunner

pytestmark = pytest.mark.feature("J3.warm")


async def test_the_executor_is_told_that_a_job_or_its_module_asks_for_a_fresh_workspace(
    runner: SimulatedRunner,
) -> None:
    admin, module = runner.app.admin, await runner.rows.module()
    jobs = f"/api/v1/modules/{module}/jobs"
    for asked in (False, True):
        made = await admin.made(jobs, {"type": "PLAN", "is_fresh": asked})
        assert made["is_fresh"] is asked
        granted = await runner.instance.has(made["id"], 1)
        assert granted.spec.is_fresh is asked
        again = await admin.made(f"/api/v1/jobs/{made['id']}/rerun", None)
        assert again["is_fresh"] is asked
        module = await runner.rows.module()
        jobs = f"/api/v1/modules/{module}/jobs"
    assert (await admin.patch(f"/api/v1/modules/{module}", json={"is_fresh": True})).status_code == 200
    assert (await admin.made(jobs, {"type": "PLAN"}))["is_fresh"] is True


async def test_a_key_that_was_used_for_a_job_in_a_warm_workspace_is_not_used_for_a_fresh_one(
    runner: SimulatedRunner,
) -> None:
    admin, module = runner.app.admin, await runner.rows.module()
    jobs, key = f"/api/v1/modules/{module}/jobs", {"Idempotency-Key": "one"}
    assert (await admin.post(jobs, json={"type": "PLAN"}, headers=key)).status_code == 201
    await admin.refused("POST", jobs, 409, json={"type": "PLAN", "is_fresh": True}, headers=key)


async def test_a_step_says_from_which_job_it_was_kept(runner: SimulatedRunner) -> None:
    before = counted(metrics.inits, how="kept"), counted(metrics.inits, how="run")
    attempt = await runner.run()
    await attempt.deliver(fact(StepStatus(Step.INIT, "SKIPPED", kept_from=12)), fact(StepStatus(Step.PLAN, "RUNNING")))
    job = f"/api/v1/jobs/{attempt.ref.job_id}"
    found = {each["name"]: each for each in (await runner.app.admin.get(job)).json()["steps"]}
    assert (found["init"]["status"], found["init"]["kept_from"]) == ("SKIPPED", 12)
    assert found["plan"]["kept_from"] is None
    someone = await logged_in(runner.app)
    page = await someone.see(f"/dashboard/jobs/{attempt.ref.job_id}")
    assert "kept from job #12" in page
    # The plan missed something, so `init` has run after all.
    await attempt.deliver(fact(StepStatus(Step.INIT, "RUNNING")), fact(StepStatus(Step.INIT, "SUCCEEDED", 0)))
    found = {each["name"]: each for each in (await runner.app.admin.get(job)).json()["steps"]}
    assert (found["init"]["status"], found["init"]["kept_from"]) == ("SUCCEEDED", None)
    assert "kept from job" not in await someone.see(f"/dashboard/jobs/{attempt.ref.job_id}")
    assert (counted(metrics.inits, how="kept"), counted(metrics.inits, how="run")) == (before[0] + 1, before[1] + 1)


async def test_a_validation_that_the_plan_made_is_shown_on_the_page(runner: SimulatedRunner) -> None:
    """A step that was skipped has an end, and the page showed nothing beside it."""
    attempt = await runner.run()
    await attempt.deliver(fact(StepStatus(Step.VALIDATE, "SKIPPED")), fact(StepStatus(Step.PLAN, "RUNNING")))
    someone = await logged_in(runner.app)
    assert "checked by plan" in await someone.see(f"/dashboard/jobs/{attempt.ref.job_id}")


@on_one
async def test_the_pages_of_a_module_ask_for_a_fresh_workspace(application: Application) -> None:
    admin, someone = application.admin, await logged_in(application)
    await admin.made("/api/v1/modules", {"path": "app", "source": {"kind": "local", "path": "/srv/sources/app"}})
    module = "/dashboard/modules/" + (await admin.get("/api/v1/modules/app")).json()["id"]
    assert "Plan in a fresh workspace" in await someone.see(module)
    answer = await someone.submit(f"{module}/run", type="PLAN", is_fresh="true")
    job = answer.headers["location"].rpartition("/")[2]
    assert (await admin.get(f"/api/v1/jobs/{job}")).json()["is_fresh"] is True
    assert "Run init in every job" in await someone.see(f"{module}/settings")
    assert (await someone.submit(f"{module}/settings/engine", is_fresh="true")).status_code == 303
    assert (await admin.get("/api/v1/modules/app")).json()["is_fresh"] is True
    assert "runs in every job" in await someone.see(module)
    assert (await someone.submit(f"{module}/settings/engine", is_fresh="")).status_code == 303
    assert (await admin.get("/api/v1/modules/app")).json()["is_fresh"] is False
