"""A job that destroys, or plans to, reaches the executor as requested, and stays so when the job is run again."""

import pytest

from tests.builders.job_rows import change_organizations
from tests.server.application import Application, on_one
from tests.server.dashboard.visitor import logged_in
from tests.server.simulated_runner import SimulatedRunner
from tests.server.state.stored_states import applied
from tests.server.tree.modules.packed_modules import packed

STATE = b"""{"version": 4, "serial": 1, "lineage": "a", "resources": [
    {"mode": "managed", "type": "aws_vpc", "name": "main", "instances": [{}]},
    {"mode": "data", "type": "aws_ami", "name": "it", "instances": [{}]},
    {"mode": "managed", "module": "module.a[0]", "type": "aws_subnet", "name": "each",
        "instances": [{"index_key": 0}, {"index_key": "b"}]}]}"""


@pytest.mark.feature("J1.modules")
async def test_a_destroy_plan_is_a_plan_that_the_executor_is_told_of(runner: SimulatedRunner) -> None:
    admin, module = runner.app.admin, await runner.rows.module()
    made = await admin.made(f"/api/v1/modules/{module}/jobs", {"type": "PLAN", "is_destroy_plan": True})
    assert (made["type"], made["is_destroy_plan"]) == ("PLAN", True)
    granted = await runner.instance.has(made["id"], 1)
    assert (granted.spec.type, granted.spec.is_destroy_plan, granted.spec.is_destroying) == ("PLAN", True, True)
    for kind in ("APPLY", "DESTROY"):
        words = await admin.refused(
            "POST", f"/api/v1/modules/{module}/jobs", 400, json={"type": kind, "is_destroy_plan": True}
        )
        assert "is_destroy_plan is allowed only with the type PLAN" in words


@pytest.mark.feature("J10.rerun")
async def test_run_again_keeps_everything_that_the_job_asked_for(runner: SimulatedRunner) -> None:
    """The dashboard's "Run again" dropped what the job asked for, its own need of an approval among it."""
    admin, module = runner.app.admin, await runner.rows.module()
    source = {"kind": "local", "path": "/srv/sources/other"}
    asked = {"type": "PLAN", "is_destroy_plan": True, "needs_approval": True, "priority": 7, "source": source}
    made = await admin.made(f"/api/v1/modules/{module}/jobs", asked)
    by_api = await admin.made(f"/api/v1/jobs/{made['id']}/rerun", None)
    someone = await logged_in(runner.app)
    await someone.see("/dashboard/jobs")
    answer = await someone.submit(f"/dashboard/jobs/{made['id']}/rerun")
    by_page = (await admin.get(f"/api/v1/jobs/{answer.headers['location'].rpartition('/')[2]}")).json()
    for again in (by_api, by_page):
        assert again["id"] != made["id"]
        assert {field: again[field] for field in asked} == {field: made[field] for field in asked}
    plain = await admin.made(f"/api/v1/modules/{module}/jobs", {"type": "PLAN"})
    await admin.patch(f"/api/v1/modules/{module}", json={"source": source})
    assert (await admin.made(f"/api/v1/jobs/{plain['id']}/rerun", None))["source"]["path"] == "/srv/sources/other"


@pytest.mark.feature("J1.modules")
async def test_what_a_destroy_would_destroy_is_named(runner: SimulatedRunner) -> None:
    attempt = await applied(runner, STATE)
    path = f"/api/v1/modules/{attempt.module_id}/resources"
    found = (await runner.app.admin.get(path)).json()
    names = ["aws_vpc.main", "module.a[0].aws_subnet.each[0]", 'module.a[0].aws_subnet.each["b"]']
    assert found == {"version": 1, "count": 3, "addresses": names, "problem": ""}
    empty = await runner.rows.module()
    assert (await runner.app.admin.get(f"/api/v1/modules/{empty}/resources")).json()["count"] == 0
    viewer = await runner.app.person("vera", "viewer")
    await viewer.refused("GET", path, 403)
    await (await runner.app.person("nora")).refused("GET", path, 404)
    someone = await logged_in(runner.app)
    page = await someone.see(f"/dashboard/modules/{attempt.module_id}/destroy")
    assert "3 resources" in page
    assert "aws_vpc.main" in page
    # The first job was written without the counter of job numbers.
    await change_organizations(runner.server.db, next_job_number=100)
    planned = await someone.submit(f"/dashboard/modules/{attempt.module_id}/run", type="DESTROY_PLAN")
    assert planned.status_code == 303, planned.text
    assert "Destroy plan" in await someone.see(planned.headers["location"])


@on_one
@pytest.mark.feature("J5.archive")
async def test_a_source_without_a_configuration_is_refused(application: Application) -> None:
    """`module update g2/net --from notf`, a folder with only a readme, and the next apply destroyed everything."""
    headers = {"Content-Type": "application/gzip"}

    async def uploaded(*names: str) -> dict[str, str]:
        content = packed(*((name, b"x") for name in names))
        answer = await application.admin.post("/api/v1/archives", content=content, headers=headers)
        return {"kind": "archive", "archive_id": answer.json()["id"]}

    good, wrong = await uploaded("main.tf", "deep/x.tofu"), await uploaded("README.md", "sub/main.tf", ".hidden.tf")
    words = await application.admin.refused("POST", "/api/v1/modules", 400, json={"path": "m", "source": wrong})
    assert "no configuration of tofu" in words
    made = await application.admin.made("/api/v1/modules", {"path": "m", "source": good})
    place = f"/api/v1/modules/{made['id']}"
    for change in ({"source": wrong}, {"source": good | {"subdirectory": "deep"}, "engine": "terraform"}):
        assert "no configuration" in await application.admin.refused("PATCH", place, 400, json=change)
    assert "no configuration" in await application.admin.refused("PATCH", place, 400, json={"engine": "pulumi"})
    body = {"type": "APPLY", "source": wrong}
    assert "no configuration" in await application.admin.refused("POST", f"{place}/jobs", 400, json=body)
    assert (await application.admin.patch(place, json={"source": wrong | {"subdirectory": "sub"}})).status_code == 200
