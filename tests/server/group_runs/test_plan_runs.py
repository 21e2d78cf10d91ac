"""A group is planned as a whole, and the plans that were shown are applied as they are."""

from typing import Any

import pytest

from terracrew.protocol.events import KeptPlan, PlanSummary, ResourceChange, Result
from terracrew.server.group_runs.loop import GroupRuns
from tests.builders.deliveries import RUNNING, fact
from tests.builders.job_rows import change_modules
from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in
from tests.server.simulated_runner import SimulatedRunner
from tests.server.tree.inputs.places import SOURCE
from tests.server.tree.inputs.references import refer

pytestmark = pytest.mark.feature("J6.groups", "J8.plan-first")
RUNS = "/api/v1/groups/team/runs"
ADDS_ONE = PlanSummary(add=1, existing=1, resources=[ResourceChange("terraform_data.a", "create")])


async def team(application: Application, *names: str) -> None:
    admin = application.admin
    await admin.made("/api/v1/groups", {"path": "team"})
    for name in names:
        await admin.made("/api/v1/modules", {"path": f"team/{name}", "source": SOURCE})


async def step(runner: SimulatedRunner, run_id: str) -> dict[str, Any]:
    server = runner.server
    await GroupRuns(server.db, server.keys, server.settings.local_roots).step()
    found = (await runner.app.admin.get(f"{RUNS}/{run_id}")).json()
    return {each["path"].rpartition("/")[2]: each for each in found["modules"]} | {"": found}


async def planned(runner: SimulatedRunner, run_id: str, name: str, summary: PlanSummary = ADDS_ONE) -> None:
    """End the PLAN of a module, with its plan kept if it changes something."""
    job_id = (await step(runner, run_id))[name]["job_id"]
    attempt = await runner.again(job_id)
    kept = KeptPlan(0, "ab" * 32, 1, f"/workspaces/{job_id}.1") if summary.resources else None
    if kept is not None:
        await runner.server.objects.put(f"plans/{job_id}/1/{kept.sha256}", b"x")
    await attempt.deliver(RUNNING, fact(summary), fact(Result("SUCCEEDED", kept=kept)))


async def test_all_modules_are_planned_at_once_and_their_plans_are_applied_as_they_were_shown(
    runner: SimulatedRunner,
) -> None:
    admin = runner.app.admin
    await team(runner.app, "a", "b", "c")
    run_id = (await admin.made(RUNS, {"type": "PLAN"}))["id"]
    assert {each["status"] for name, each in (await step(runner, run_id)).items() if name} == {"RUNNING"}
    await planned(runner, run_id, "a")
    await planned(runner, run_id, "b", PlanSummary(existing=1, unchanged=1))
    await planned(runner, run_id, "c")
    found = await step(runner, run_id)
    assert found[""]["status"] == "SUCCEEDED"
    assert {name: (found[name]["has_changes"], found[name]["is_plan_applicable"]) for name in "abc"} == {
        "a": (True, True),
        "b": (False, False),
        "c": (True, True),
    }
    assert found["a"]["plan"]["add"] == 1
    await change_modules(runner.server.db, "team/c", state_version=9)
    made = (await admin.post(f"{RUNS}/{run_id}/apply")).json()["items"]
    assert [(each["path"], each["job_number"] is not None) for each in made] == [("team/a", True), ("team/c", False)]
    assert "the state of the module has changed" in made[1]["problem"]
    job = (await admin.get(f"/api/v1/jobs/{made[0]['job_id']}")).json()
    assert (job["type"], job["status"], job["plan_job_id"]) == ("APPLY", "QUEUED", found["a"]["job_id"])
    again = (await admin.post(f"{RUNS}/{run_id}/apply")).json()["items"]
    assert "another job applies the plan" in again[0]["problem"]


async def test_a_module_that_uses_an_output_which_does_not_exist_yet_is_not_planned_and_says_why(
    runner: SimulatedRunner,
) -> None:
    """Its job would have waited for ever, and the run with it."""
    await team(runner.app, "a", "b")
    await refer(runner.app.admin, "team/b", "team/a", "id", "a")
    run_id = (await runner.app.admin.made(RUNS, {"type": "PLAN"}))["id"]
    found = await step(runner, run_id)
    assert (found["a"]["status"], found["b"]["status"]) == ("RUNNING", "SKIPPED")
    assert found["b"]["message"] == "it uses an output of `team/a` that does not exist yet: apply `team/a` first"
    await planned(runner, run_id, "a")
    assert (await step(runner, run_id))[""]["status"] == "FAILED"


async def test_only_the_plans_of_a_plan_are_applied_later(runner: SimulatedRunner) -> None:
    admin = runner.app.admin
    await team(runner.app, "a")
    run_id = (await admin.made(RUNS, {"type": "APPLY"}))["id"]
    await admin.refused("POST", f"{RUNS}/{run_id}/apply", 409)
    await admin.post(f"{RUNS}/{run_id}/stop")
    plan_id = (await admin.made(RUNS, {"type": "PLAN"}))["id"]
    await planned(runner, plan_id, "a", PlanSummary(existing=1, unchanged=1))
    answer = await admin.refused("POST", f"{RUNS}/{plan_id}/apply", 409)
    assert "there is nothing to apply" in answer


async def test_the_page_of_a_plan_of_a_group_shows_all_plans_and_applies_them(runner: SimulatedRunner) -> None:
    admin = runner.app.admin
    await team(runner.app, "a", "b")
    run_id = (await admin.made(RUNS, {"type": "PLAN"}))["id"]
    await planned(runner, run_id, "a")
    await planned(runner, run_id, "b", PlanSummary(existing=1, unchanged=1))
    group = (await step(runner, run_id))[""]["group_id"]
    someone = await logged_in(runner.app)
    here = f"/dashboard/groups/{group}/runs/{run_id}"
    page = await someone.see(here)
    assert "1 to add, 0 to change, 0 to destroy" in page
    assert "No changes" in page
    assert "Apply this plan" in page
    assert (await someone.submit(f"{here}/apply")).status_code == 303
    after = await someone.see(here)
    assert 'id="apply-planned"' not in after
    assert "another job applies the plan" in after.lower()
