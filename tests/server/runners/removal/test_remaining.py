"""What a runner still has to finish, and who would be left without a runner, as each caller may know it."""

from typing import Any

import pytest

from terracrew.server.runners.removal import reads
from tests.builders.deliveries import RUNNING
from tests.builders.job_rows import Instance, JobRows, begin_code, change_jobs, change_runners
from tests.server.application import Application
from tests.server.declarations import declared_runner
from tests.server.jobs.waiting_jobs import waiting
from tests.server.runners.connected import connect, having_a_job
from tests.server.simulated_runner import SimulatedRunner

SOURCE = {"kind": "local", "path": "/srv/sources/m"}


async def dependents(application: Application, runner: str) -> Any:
    answer = await application.admin.get(f"/api/v1/runners/{runner.replace('/', '%2F')}/dependents")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def alone(application: Application, runner: str) -> list[str]:
    return (await dependents(application, runner))["modules"]


async def tree(application: Application) -> None:
    """Groups a and a/b with a module each, one module beside them, and a runner in a."""
    for path in ("a/b", "c"):
        await application.admin.made("/api/v1/groups", {"path": path}, parents=True)
    for path in ("a/m", "a/b/m", "c/m"):
        await application.admin.made("/api/v1/modules", {"path": path, "source": SOURCE})
    await application.admin.made("/api/v1/runners", {"name": "r", "group": "a"})


@pytest.mark.feature("R7.drain")
async def test_what_remains_names_the_jobs_that_the_caller_may_see(application: Application) -> None:
    made = await application.admin.made("/api/v1/runners", {"name": "r"})
    job = await having_a_job(application, made["id"], await connect(application, made["id"], "one"))
    await application.admin.made("/api/v1/groups", {"path": "team"})
    found = (await application.admin.get("/api/v1/runners/r/remaining")).json()
    assert (found["path"], found["is_draining"], found["is_drained"], found["delivering"]) == ("r", False, False, 0)
    assert found["job_count"] == 1
    (shown,) = found["jobs"]
    assert (shown["id"], shown["number"], shown["module_path"]) == (job, 17, "m")
    assert (shown["status"], shown["instance_name"]) == ("PROCESSING", "one")
    # Everybody sees a shared runner, and nobody the jobs of others.
    shared, _ = await declared_runner(application.server.db, "everybodys")
    rows = await JobRows.of_organization(application.server.db, application.server.organization_id)
    rows.last_number = 50
    instance = await connect(application, shared.id, "two")
    await change_runners(application.server.db, "r", is_disabled=True)
    await Instance(rows, shared.id, instance).start(await rows.job(await rows.module("secret")))
    outsider = await application.person("olga", "owner", "team")
    hidden = (await outsider.get("/api/v1/runners/everybodys/remaining")).json()
    assert (hidden["job_count"], hidden["jobs"]) == (1, [])
    await outsider.refused("GET", "/api/v1/runners/r/remaining", 404)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (None, ["a/b/m", "a/m"]),
        ({"name": "same", "group": "a"}, []),
        ({"name": "root"}, []),
        ({"name": "below", "group": "a/b"}, ["a/m"]),
        ({"name": "beside", "group": "c"}, ["a/b/m", "a/m"]),
        ({"name": "idle", "group": "a", "assign": False}, ["a/b/m", "a/m"]),
    ],
)
async def test_a_module_depends_on_a_runner_unless_another_one_serves_it(
    application: Application, body: Any, expected: list[str]
) -> None:
    await tree(application)
    if body:
        await application.admin.made("/api/v1/runners", body)
    found = await dependents(application, "a/r")
    assert (found["modules"], found["module_count"]) == (expected, len(expected))


async def test_a_disabled_runner_and_one_that_is_being_removed_serve_nothing(application: Application) -> None:
    await tree(application)
    other = await application.admin.made("/api/v1/runners", {"name": "root"})
    await application.admin.patch("/api/v1/runners/root", json={"is_disabled": True})
    assert await alone(application, "a/r") == ["a/b/m", "a/m"]
    await application.admin.patch("/api/v1/runners/root", json={"is_disabled": False})
    assert await alone(application, "a/r") == []
    await connect(application, other["id"], "one")
    await application.admin.delete("/api/v1/runners/root")
    assert await alone(application, "a/r") == ["a/b/m", "a/m"]
    await declared_runner(application.server.db, "everybodys")
    assert await alone(application, "a/r") == []


async def test_assignments_to_modules_and_pins_are_taken_into_account(application: Application) -> None:
    await tree(application)
    await application.admin.made("/api/v1/runners", {"name": "single", "assign": False})
    await application.admin.made("/api/v1/runners/single/assignments", {"place": "a/m"})
    await application.admin.made("/api/v1/runners/single/assignments", {"place": "c/m"})
    assert await alone(application, "a/r") == ["a/b/m"]
    assert await alone(application, "single") == ["c/m"]
    await application.admin.patch("/api/v1/modules/a%2Fb%2Fm", json={"runner": "a/r"})
    found = await dependents(application, "a/r")
    assert (found["pinned_count"], found["pinned"], found["modules"]) == (1, ["a/b/m"], ["a/b/m"])
    await application.admin.patch("/api/v1/modules/a%2Fb%2Fm", json={"runner": "single"})
    assert await alone(application, "a/r") == []


async def test_a_plan_that_waits_where_it_was_made_is_counted(runner: SimulatedRunner) -> None:
    attempt, own = await runner.run(kind="APPLY"), runner.instance.runner_id
    await change_jobs(runner.rows.db, needs_approval=True)
    await attempt.deliver(RUNNING)
    assert await begin_code(runner.server.db, attempt.ref, 0) == "approval"
    assert (await dependents(runner.app, own))["waiting_plans"] == 0
    await attempt.deliver(waiting())
    assert (await dependents(runner.app, own))["waiting_plans"] == 1


async def test_modules_beyond_the_first_thousand_are_not_counted(application: Application) -> None:
    made = await application.admin.made("/api/v1/runners", {"name": "r"})
    rows = await JobRows.of_organization(application.server.db, application.server.organization_id)
    for number in range(5):
        await rows.module(f"m{number}")
    found = await application.server.db.read(lambda tx: reads.modules_of_this_runner_alone(tx, made["id"], 3))
    assert len({row["path"] for row in found}) == 3
