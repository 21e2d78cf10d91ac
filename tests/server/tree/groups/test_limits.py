"""Limits of jobs at the places of the tree: of each limit the smallest applies, of the retries the nearest."""

from typing import Any

import pytest

from terracrew.api import fields
from terracrew.api.place_settings import LimitsChange
from terracrew.protocol.spec import JobLimits, Step
from terracrew.server.tree.groups.inheritance import effective
from tests.server.application import Application, on_one

MODULE = "/api/v1/modules/a%2Fm"


async def tree(application: Application, group: dict[str, Any], module: dict[str, Any]) -> None:
    source = {"kind": "local", "path": "/srv/sources"}
    await application.admin.made("/api/v1/groups", {"path": "a", "limits": group})
    await application.admin.made("/api/v1/modules", {"path": "a/m", "source": source, "limits": module})


async def limits_of_job(application: Application, **asked: Any) -> dict[str, Any]:
    return (await application.admin.made(f"{MODULE}/jobs", {"type": "PLAN", **asked}))["limits"]


@pytest.mark.feature("J10.limits", "J10.memory")
async def test_a_job_gets_the_smallest_limits_and_the_nearest_number_of_retries(application: Application) -> None:
    await application.admin.patch("/api/v1/groups/%2F", json={"limits": {"job_seconds": 7200, "plan_retries": 3}})
    await tree(
        application,
        {"job_seconds": 3600, "step_seconds": {"plan": 600}, "memory_mb": 512, "plan_retries": 1},
        {"job_seconds": 5400, "step_seconds": {"plan": 900, "apply": 60}, "processes": 100},
    )
    expected = {
        "job_seconds": 3600,
        "step_seconds": {"apply": 60, "plan": 600},
        "memory_mb": 512,
        "processes": 100,
        "plan_retries": 1,
    }
    assert await limits_of_job(application) == expected
    assert await limits_of_job(application, limits={"job_seconds": 60, "memory_mb": 4096}) == expected | {
        "job_seconds": 60
    }, "a job can only lower what applies to it"
    await application.admin.patch(MODULE, json={"limits": {"step_seconds": {"apply": None}, "processes": None}})
    assert (await application.admin.get(MODULE)).json()["limits"] == {
        "job_seconds": 5400,
        "step_seconds": {"plan": 900},
    }
    entries = (await application.admin.get("/api/v1/audit")).json()["items"]
    assert {"module.change", "group.update"} <= {each["action"] for each in entries}


@pytest.mark.feature("J10.limits")
async def test_a_changed_limit_applies_to_jobs_that_are_created_later(application: Application) -> None:
    await tree(application, {}, {"job_seconds": 60})
    first = await application.admin.made(f"{MODULE}/jobs", {"type": "PLAN"})
    await application.admin.patch(MODULE, json={"limits": {"job_seconds": 120}})
    assert (await application.admin.get(f"/api/v1/jobs/{first['id']}")).json()["limits"] == {"job_seconds": 60}
    again = await application.admin.made(f"/api/v1/jobs/{first['id']}/rerun", {})
    assert again["limits"] == {"job_seconds": 120}, "a job that reached its limit can be run again with a larger one"


@pytest.mark.feature("J10.limits", "J10.rerun")
async def test_a_job_that_is_run_again_has_the_limits_that_were_given_to_it_alone(application: Application) -> None:
    """They were lost, so a job with a short time limit ran without one when it was run again."""
    await tree(application, {}, {"job_seconds": 60})
    own = {"job_seconds": 30, "memory_mb": 256}
    first = await application.admin.made(f"{MODULE}/jobs", {"type": "PLAN", "limits": own})
    for job_seconds, expected in ((120, 30), (20, 20)):
        await application.admin.patch(MODULE, json={"limits": {"job_seconds": job_seconds}})
        again = await application.admin.made(f"/api/v1/jobs/{first['id']}/rerun", {})
        assert again["limits"] == {"job_seconds": expected, "memory_mb": 256}
    twice = await application.admin.made(f"/api/v1/jobs/{again['id']}/rerun", {})
    assert twice["limits"] == {"job_seconds": 20, "memory_mb": 256}


@on_one
@pytest.mark.feature("J10.limits")
async def test_the_same_key_with_stricter_limits_is_another_job(application: Application) -> None:
    await tree(application, {}, {"job_seconds": 60})
    key = {"Idempotency-Key": "nightly"}
    await application.admin.post(f"{MODULE}/jobs", json={"type": "PLAN"}, headers=key)
    again = await application.admin.post(f"{MODULE}/jobs", json={"type": "PLAN"}, headers=key)
    assert again.status_code == 200
    body = {"type": "PLAN", "limits": {"job_seconds": 30}}
    assert (await application.admin.post(f"{MODULE}/jobs", json=body, headers=key)).status_code == 409


@on_one
@pytest.mark.parametrize(
    "wrong",
    [
        {"job_seconds": 0},
        {"job_seconds": "1h"},
        {"step_seconds": {"sleep": 5}},
        {"step_seconds": {"plan": -1}},
        {"memory_mb": 1},
        {"processes": 1 << 70},
        {"plan_retries": 11},
        {"unknown": 1},
        [],
    ],
)
async def test_limits_out_of_bounds_are_refused_everywhere(application: Application, wrong: Any) -> None:
    await tree(application, {}, {})
    admin = application.admin
    await admin.refused("PATCH", MODULE, 400, json={"limits": wrong})
    await admin.refused("PATCH", "/api/v1/groups/a", 400, json={"limits": wrong})
    await admin.refused("POST", f"{MODULE}/jobs", 400, json={"type": "PLAN", "limits": wrong})


@on_one
async def test_a_person_who_may_only_run_jobs_cannot_change_limits(application: Application) -> None:
    await tree(application, {"job_seconds": 60}, {})
    operator = await application.person("otto", "operator", "a")
    await operator.refused("PATCH", MODULE, 403, json={"limits": {"job_seconds": None}})
    await operator.refused("PATCH", "/api/v1/groups/a", 403, json={"limits": {"job_seconds": None}})


@pytest.mark.feature("J10.limits")
def test_a_change_keeps_what_it_does_not_name() -> None:
    before = JobLimits(job_seconds=10, step_seconds={Step.PLAN: 5, Step.APPLY: 6}, memory_mb=100)
    after = fields.changed(before, LimitsChange(step_seconds={Step.PLAN: None, Step.INIT: 7}, memory_mb=None))
    assert after == JobLimits(job_seconds=10, step_seconds={Step.APPLY: 6, Step.INIT: 7})
    assert effective(JobLimits, []) == JobLimits()
