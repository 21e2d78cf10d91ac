"""Limits on the pages of a group and a module, and the button that cancels all jobs of a group."""

import pytest

from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in

SOURCE = {"kind": "local", "path": "/srv/sources"}


@pytest.mark.feature("J10.limits", "U6.tree")
async def test_an_owner_sets_limits_on_the_pages_of_a_group_and_of_a_module(application: Application) -> None:
    admin = application.admin
    group = await admin.made("/api/v1/groups", {"path": "net"})
    module = await admin.made("/api/v1/modules", {"path": "net/vpc", "source": SOURCE})
    someone = await logged_in(application)
    await someone.see(f"/dashboard/groups/{group['id']}/settings")
    fields = {
        "limits.job_seconds": "2h",
        "limits.step_seconds": "plan=10m, apply=1h",
        "limits.memory_mb": "512",
        "limits.plan_retries": "2",
    }
    answer = await someone.submit(f"/dashboard/groups/{group['id']}/settings/limits", **fields)
    assert answer.status_code == 303, answer.text
    assert (await admin.get("/api/v1/groups/net")).json()["limits"] == {
        "job_seconds": 7200,
        "step_seconds": {"plan": 600, "apply": 3600},
        "memory_mb": 512,
        "plan_retries": 2,
    }
    form = await someone.see(f"/dashboard/groups/{group['id']}/settings")
    assert "plan=10m\napply=1h</textarea>" in form
    assert "job 2h, plan 10m, apply 1h, 512 MB of memory, 2 plan retries in this group" in await someone.see(
        f"/dashboard/groups/{group['id']}"
    )
    settings = f"/dashboard/modules/{module['id']}/settings"
    assert "In net: job 2h, plan 10m" in await someone.see(settings), "the form names the limits above"
    fields = {"limits.job_seconds": "30m", "limits.processes": "200"}
    assert (await someone.submit(f"{settings}/limits", **fields)).status_code == 303
    assert "job 30m, 200 processes and threads" in await someone.see(f"/dashboard/modules/{module['id']}")
    for wrong, words in (
        ({"limits.job_seconds": "soon"}, "is not a duration"),
        ({"limits.step_seconds": "sleep=1m"}, "is not one of fetch"),
    ):
        refused = (await someone.submit(f"{settings}/limits", **wrong)).text
        assert words in refused
        assert next(iter(wrong.values())) in refused, "what was typed is still there"
    assert (await someone.submit(f"{settings}/limits", **dict.fromkeys(fields, ""))).status_code == 303
    assert (await admin.get("/api/v1/modules/net%2Fvpc")).json()["limits"] == {}, "empty fields remove limits"


@pytest.mark.feature("J9.modes", "U6.tree")
async def test_all_jobs_of_a_group_are_canceled_on_its_page_and_those_elsewhere_are_not(
    application: Application,
) -> None:
    admin = application.admin
    group = await admin.made("/api/v1/groups", {"path": "net"})
    for path in ("net/vpc", "net/dns", "other"):
        await admin.made("/api/v1/modules", {"path": path, "source": SOURCE})
        await admin.made(f"/api/v1/modules/{path.replace('/', '%2F')}/jobs", {"type": "PLAN"})
    here = f"/dashboard/groups/{group['id']}"
    await application.person("vera", "viewer", "net")
    viewer = await logged_in(application, "vera")
    assert "cancel-jobs" not in await viewer.see(here)
    assert (await viewer.submit(f"{here}/cancel-jobs")).status_code == 403
    someone = await logged_in(application)
    assert 'id="cancel-jobs"' in await someone.see(here)
    assert (await someone.submit(f"{here}/cancel-jobs")).status_code == 303
    found = {job["module_path"]: job["status"] for job in await admin.listed("/api/v1/jobs")}
    assert found == {"net/vpc": "CANCELED", "net/dns": "CANCELED", "other": "QUEUED"}
