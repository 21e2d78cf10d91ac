"""The page of one runner: facts, instances, jobs, settings, assignments and credentials."""

import re

import pytest

from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in
from tests.server.runners.connected import connect, having_a_job


async def address(application: Application, path: str) -> str:
    return f"/dashboard/runners/{await application.scalar('SELECT id FROM runners WHERE path = :path', path=path)}"


@pytest.mark.feature("U1.instances")
async def test_the_page_shows_instances_jobs_settings_and_assignments(
    application: Application, jobs: dict[str, str]
) -> None:
    someone = await logged_in(application)
    page = await someone.see(await address(application, "platform/network/runner"))
    for word in ("net-a", "net-b", "OpenTofu 1.12.6", "2 of 8", "1.4.0", "connected for", "at most 8 on each process"):
        assert word in page, word
    for job in ("planning", "lost"):
        assert f'href="/dashboard/jobs/{jobs[job]}"' in page
    assert "first choice" in page
    assert re.search(r"heartbeat_seconds.*?10.*?Default", page, re.DOTALL)
    assert re.search(r"period_seconds.*?not known here.*?Runner&#39;s own settings", page, re.DOTALL)
    offline = await someone.see(await address(application, "data/warehouse"))
    assert "Offline for" in offline
    assert f'href="/dashboard/jobs/{jobs["waiting"]}"' in offline, "the job that waits for it"
    draining = await someone.see(await address(application, "payments/prod"))
    assert "Draining: 1 job is left." in draining
    shared = await someone.see(await address(application, "built-in"))
    assert "every module of every organization may use it" in shared


@pytest.mark.feature("U6.assignments")
async def test_an_assignment_says_its_rank_among_the_runners(application: Application) -> None:
    await application.admin.made("/api/v1/groups", {"path": "a"})
    await application.admin.made("/api/v1/groups", {"path": "a/b"})
    for name, group in (("far", ""), ("near", "a"), ("other", "a")):
        await application.admin.made("/api/v1/runners", {"name": name, "group": group})
    someone = await logged_in(application)
    assert "in a, runners assigned there come first" in await someone.see(await address(application, "far"))
    assert "with 1 other runner; first choice" in await someone.see(await address(application, "a/near"))
    await application.admin.made("/api/v1/runners", {"name": "nearest", "group": "a/b"})
    assert "in a and a/b, runners assigned there come first" in await someone.see(await address(application, "far"))
    for name in ("c", "d"):
        await application.admin.made("/api/v1/groups", {"path": name})
        await application.admin.made("/api/v1/runners", {"name": "r", "group": name})
    assert "in several places below it, runners" in await someone.see(await address(application, "far"))


@pytest.mark.feature("U4.live")
async def test_a_page_that_is_open_says_that_the_runner_is_removed(application: Application) -> None:
    made = await application.admin.made("/api/v1/runners", {"name": "r"})
    someone, page = await logged_in(application), f"/dashboard/runners/{made['id']}"
    await someone.see(page)
    await application.admin.delete("/api/v1/runners/r")
    fragment = await someone.get(page, headers={"HX-Request": "true"})
    assert fragment.status_code == 200
    assert "This runner is removed" in fragment.text
    await someone.see(page, 404)


@pytest.mark.feature("U6.assignments", "X4.tenants")
async def test_the_page_shows_a_reader_only_what_they_may_see(application: Application) -> None:
    """A runner of the whole organization runs jobs of modules that a reader of one group may not see."""
    made = await application.admin.made("/api/v1/runners", {"name": "r"})
    job = await having_a_job(application, made["id"], await connect(application, made["id"], "one"))
    page = f"/dashboard/runners/{made['id']}"
    await application.admin.made("/api/v1/groups", {"path": "mine"})
    await application.person("vera", "viewer", path="mine")
    await (await logged_in(application, "vera")).see(page, 404)
    await application.person("elsewhere", "owner", organization="elsewhere")
    await (await logged_in(application, "elsewhere")).see(page, 404)
    await application.person("otto", "operator")
    someone = await logged_in(application, "otto")
    shown = await someone.see(page)
    assert job in shown
    for action in ("/drain", "/disable", "/remove", "/edit"):
        assert f"{page}{action}" not in shown, "an operator may not change runners"
        form = {"on": "true", "force": "true"}
        assert (await someone.submit(f"{page}{action}", **form)).status_code == 403
    assert await application.scalar("SELECT count(*) FROM runners WHERE NOT is_draining AND NOT is_disabled") == 1


@pytest.mark.feature("R6.reason")
async def test_a_runner_without_a_credential_says_so(application: Application) -> None:
    made = await application.admin.made("/api/v1/runners", {"name": "r"})
    someone = await logged_in(application)
    assert "It has no credential." in await someone.see(f"/dashboard/runners/{made['id']}")
