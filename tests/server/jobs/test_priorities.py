"""A job has its module's priority or its own; somebody who may not change the module can raise it only within bounds."""

from typing import Any

import pytest

from tests.server.application import Application, Person, on_one
from tests.server.simulated_runner import SimulatedRunner

pytestmark = pytest.mark.feature("J10.priority")


async def module(application: Application, **settings: Any) -> str:
    source = {"kind": "local", "path": "/srv/sources"}
    await application.admin.made("/api/v1/groups", {"path": "a"})
    await application.admin.made("/api/v1/modules", {"path": "a/m", "source": source, **settings})
    return "/api/v1/modules/a%2Fm/jobs"


async def run(who: Person, jobs: str, **asked: Any) -> dict[str, Any]:
    return await who.made(jobs, {"type": "PLAN", **asked})


async def test_a_job_has_the_priority_of_its_module_unless_it_is_given_one(application: Application) -> None:
    jobs = await module(application, priority=30)
    assert (await run(application.admin, jobs))["priority"] == 30
    made = await run(application.admin, jobs, priority=-5)
    assert made["priority"] == -5
    again = await application.admin.made(f"/api/v1/jobs/{made['number']}/rerun", {})
    assert again["priority"] == -5, "a rerun keeps the priority of its job"


async def test_only_an_owner_raises_a_job_above_the_bound(application: Application) -> None:
    jobs = await module(application)
    operator, owner = await application.person("otto", "operator", "a"), await application.person("olga", "owner", "a")
    assert (await run(operator, jobs, priority=10))["priority"] == 10
    words = await operator.refused("POST", jobs, 403, json={"type": "PLAN", "priority": 11})
    assert "you may choose priorities up to 10 for `a/m`" in words
    made = await run(owner, jobs, priority=100)
    again = await operator.made(f"/api/v1/jobs/{made['number']}/rerun", {})
    assert again["priority"] == 10, "a rerun is lowered to what its caller may choose"
    await application.admin.patch("/api/v1/modules/a%2Fm", json={"priority": 50})
    assert (await run(operator, jobs))["priority"] == 50
    assert (await run(operator, jobs, priority=50))["priority"] == 50
    await operator.refused("POST", jobs, 403, json={"type": "PLAN", "priority": 51})


@on_one
@pytest.mark.parametrize("priority", [101, -101, "5", 1.5, 1 << 70])
async def test_a_priority_out_of_bounds_is_refused(application: Application, priority: object) -> None:
    jobs = await module(application)
    await application.admin.refused("POST", jobs, 400, json={"type": "PLAN", "priority": priority})
    made = await run(application.admin, jobs)
    await application.admin.refused("PATCH", f"/api/v1/jobs/{made['number']}", 400, json={"priority": priority})
    await application.admin.refused("PATCH", f"/api/v1/jobs/{made['number']}", 400, json={})
    await application.admin.refused("PATCH", f"/api/v1/jobs/{made['number']}", 400, json={"status": "SUCCEEDED"})


async def test_the_same_key_without_a_priority_finds_the_job(application: Application) -> None:
    jobs = await module(application, priority=3)
    key = {"Idempotency-Key": "nightly"}
    first = await application.admin.post(jobs, json={"type": "PLAN"}, headers=key)
    await application.admin.patch("/api/v1/modules/a%2Fm", json={"priority": 4})
    again = await application.admin.post(jobs, json={"type": "PLAN"}, headers=key)
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    other = await application.admin.post(jobs, json={"type": "PLAN", "priority": 5}, headers=key)
    assert other.status_code == 409


async def test_the_priority_of_a_job_that_waits_can_be_changed(runner: SimulatedRunner) -> None:
    owned = await runner.rows.module("net")
    second = await runner.rows.job(owned)
    admin = runner.app.admin
    changed = (await admin.patch(f"/api/v1/jobs/{second}", json={"priority": 20})).json()
    assert changed["priority"] == 20
    assert (await admin.get(f"/api/v1/jobs/{second}")).json()["priority"] == 20
    entries = (await admin.get("/api/v1/audit", params={"target": second})).json()["items"]
    assert (entries[0]["action"], entries[0]["details"]) == ("job.change_priority", {"job": 1, "from": 0, "to": 20})
    same = await admin.patch(f"/api/v1/jobs/{second}", json={"priority": 20})
    assert same.status_code == 200
    assert len((await admin.get("/api/v1/audit", params={"target": second})).json()["items"]) == len(entries)


async def test_the_priority_of_a_job_that_runs_or_has_ended_cannot_be_changed(runner: SimulatedRunner) -> None:
    running = await runner.run(await runner.rows.module("net"))
    address = f"/api/v1/jobs/{running.ref.job_id}"
    assert "is CLAIMED" in await runner.app.admin.refused("PATCH", address, 409, json={"priority": 1})
    waiting = await runner.rows.job(await runner.rows.module("app"))
    await runner.app.admin.post(f"/api/v1/jobs/{waiting}/cancel", json={})
    assert "is CANCELED" in await runner.app.admin.refused(
        "PATCH", f"/api/v1/jobs/{waiting}", 409, json={"priority": 1}
    )


async def test_who_may_change_the_priority_of_a_job(application: Application) -> None:
    jobs = await module(application)
    number = (await run(application.admin, jobs, priority=60))["number"]
    address = f"/api/v1/jobs/{number}"
    viewer, stranger = await application.person("vera", "viewer", "a"), await application.person("sam")
    await viewer.refused("PATCH", address, 403, json={"priority": 1})
    await stranger.refused("PATCH", address, 404, json={"priority": 1})
    operator = await application.person("otto", "operator", "a")
    await operator.refused("PATCH", address, 403, json={"priority": 61})
    assert (await operator.patch(address, json={"priority": 40})).json()["priority"] == 40, "it may be lowered"
    await operator.refused("PATCH", address, 403, json={"priority": 41})
