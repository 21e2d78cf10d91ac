"""All modules of a group are applied, destroyed, stopped and resumed from the pages, which name exactly what is concerned."""

import re

import pytest

from terracrew.api.group_runs import ModuleStatus, RunModuleView
from terracrew.server.dashboard.groups.runs import held_up
from terracrew.server.group_runs.loop import GroupRuns
from tests.builders.job_rows import change_jobs, change_modules
from tests.server.application import Application, on_one
from tests.server.dashboard.visitor import logged_in
from tests.server.tree.inputs.places import SOURCE, tree, tree_again
from tests.server.tree.inputs.references import APP, NETWORK, refer

pytestmark = pytest.mark.feature("J6.groups", "U6.runs")


async def step(application: Application) -> None:
    server = application.server
    await GroupRuns(server.db, server.keys, server.settings.local_roots).step()


@on_one
async def test_an_apply_is_started_followed_stopped_and_resumed_from_the_pages(application: Application) -> None:
    admin = application.admin
    await tree(application)
    await tree_again(application, "app")
    await refer(admin, APP, NETWORK)
    group = (await admin.get("/api/v1/groups/platform")).json()["id"]
    someone = await logged_in(application)
    page = await someone.see(f"/dashboard/groups/{group}")
    assert "Apply all modules of platform in the organization default?" in page
    answer = await someone.submit(f"/dashboard/groups/{group}/apply")
    assert answer.status_code == 303
    run = answer.headers["Location"]
    assert re.fullmatch(rf"/dashboard/groups/{group}/runs/grn_\w+", run)
    await step(application)
    page = await someone.see(run)
    assert "Apply of platform" in page
    assert page.index(NETWORK) < page.index(APP), "in the order of their dependencies"
    assert f"After {NETWORK}" in page
    assert 'data-every="10"' in page
    [job] = await admin.listed("/api/v1/jobs")
    assert run in await someone.see_job(job["id"])
    assert (await someone.submit(f"/dashboard/groups/{group}/apply")).status_code == 409, "one run at a time"
    assert (await someone.submit(f"{run}/stop")).status_code == 303
    await step(application)
    page = await someone.see(run)
    assert "was canceled and holds up 1 module" not in page, "the other one was canceled itself"
    assert 'id="resume-run"' in page
    assert (await someone.submit(f"{run}/stop")).status_code == 409
    assert (await someone.submit(f"{run}/resume")).headers["Location"] == run
    assert "Stop the apply of platform in the organization default?" in await someone.see(run)
    assert (await someone.get(f"/dashboard/groups/{group}/runs/grn_{'0' * 32}")).status_code == 404
    assert (await someone.get(f"/dashboard/groups/{group}/runs/nonsense")).status_code in (400, 404)


async def test_a_run_shows_the_condition_of_each_job_and_counts_what_needs_a_person(application: Application) -> None:
    """Jobs that waited for a runner or for an approval had the badge "Running", and were counted as that."""
    admin = application.admin
    await tree(application)
    await tree_again(application, "app")
    group = (await admin.get("/api/v1/groups/platform")).json()["id"]
    someone = await logged_in(application)
    await someone.see(f"/dashboard/groups/{group}")
    run = (await someone.submit(f"/dashboard/groups/{group}/apply")).headers["Location"]
    await step(application)
    page = await someone.see(run)
    assert page.count(">Waiting<") == 3, "both modules, and the name of the count"
    assert re.search(r'id="needs-you">2<', page), "no runner may have them"
    assert re.search(r"<dt>Running</dt><dd class=\"num\">0<", page)
    app = await application.scalar("SELECT id FROM modules WHERE path = 'platform/network/app'")
    await change_jobs(application.server.db, app, status="AWAITING_APPROVAL", plan_attempt=1)
    for address in (run, f"/dashboard/groups/{group}"):
        page = await someone.see(address)
        assert "Awaiting approval" in page, address


@on_one
async def test_a_destroy_asks_for_the_path_and_names_the_organization(application: Application) -> None:
    admin = application.admin
    module = await tree(application)
    await change_modules(application.server.db, module, backend="own")
    group = (await admin.get("/api/v1/groups/platform")).json()["id"]
    someone = await logged_in(application)
    address = f"/dashboard/groups/{group}/destroy"
    page = await someone.see(address)
    assert '<dd id="destroy-organization"><b>default</b></dd>' in page
    assert '<dd id="destroy-path"><b class="mono">platform</b></dd>' in page
    assert NETWORK in page
    for typed in ("", "platform/network", "Platform", "default", "pla\u0000tform", "x" * 5000):
        answer = await someone.submit(address, group=group, typed=typed)
        assert answer.status_code in (200, 400), answer.text
        assert await admin.listed("/api/v1/groups/platform/runs") == []
    assert "nothing was destroyed" in (await someone.submit(address, group=group, typed="no")).text
    assert (await someone.submit(address, typed="platform")).status_code == 409, "the form names another group"
    assert (await someone.submit(address, group=group, typed="platform", resume="x")).status_code in (400, 404)
    answer = await someone.submit(address, group=group, typed=" platform ")
    assert answer.status_code == 303, answer.text
    run = answer.headers["Location"]
    [found] = await admin.listed("/api/v1/groups/platform/runs")
    assert (found["type"], run.endswith(found["id"])) == ("DESTROY", True)
    await someone.submit(f"{run}/stop")
    assert "destroy?resume=" in await someone.see(run)
    assert (await someone.submit(f"{run}/resume")).status_code == 409, "a destroy is resumed after the question"
    page = await someone.see(f"{address}?resume={found['id']}")
    assert "Resume the destroy of platform?" in page
    assert (await someone.submit(address, group=group, typed="platform", resume=found["id"])).status_code == 303


@on_one
@pytest.mark.feature("X4.tenants")
async def test_the_page_names_the_organization_of_the_group_and_not_that_of_the_reader(
    application: Application,
) -> None:
    """Both organizations have a group `platform`. The path names the one of the session, the id always the same one."""
    admin = application.admin
    await tree(application)
    await admin.made("/api/v1/organizations", {"name": "second"})
    second = {"Terracrew-Organization": "second"}
    made = await admin.post("/api/v1/groups", json={"path": "platform"}, headers=second)
    await admin.post("/api/v1/modules", json={"path": "platform/theirs", "source": SOURCE}, headers=second)
    await change_modules(application.server.db, backend="own")
    theirs, ours = made.json()["id"], (await admin.get("/api/v1/groups/platform")).json()["id"]
    someone = await logged_in(application)
    page = await someone.see(f"/dashboard/groups/{theirs}/destroy")
    assert '<dd id="destroy-organization"><b>second</b></dd>' in page
    assert "platform/theirs" in page
    assert NETWORK not in page
    page = await someone.see(f"/dashboard/groups/{theirs}")
    assert "Apply all modules of platform in the organization second?" in page
    answer = await someone.submit("/dashboard/groups/platform/destroy", group=theirs, typed="platform")
    assert answer.status_code == 409, "the path is the group of this organization, and the page was about the other one"
    runs = "SELECT count(*) FROM group_runs WHERE group_id = :id"
    assert await application.scalar(runs, id=ours) == await application.scalar(runs, id=theirs) == 0
    answer = await someone.submit(f"/dashboard/groups/{theirs}/destroy", group=theirs, typed="platform")
    assert answer.status_code == 303
    assert (await application.scalar(runs, id=ours), await application.scalar(runs, id=theirs)) == (0, 1)


@on_one
@pytest.mark.feature("X3.roles")
@pytest.mark.parametrize("kind", ["APPLY", "DESTROY"])
async def test_who_may_only_look_sees_the_run_and_cannot_change_it(application: Application, kind: str) -> None:
    await tree(application)
    run = await application.admin.made("/api/v1/groups/platform/runs", {"type": kind})
    group = run["group_id"]
    await application.person("vera", "viewer", "platform")
    vera = await logged_in(application, "vera")
    page = await vera.see(f"/dashboard/groups/{group}/runs/{run['id']}")
    assert "stop-run" not in page
    assert "apply-all" not in await vera.see(f"/dashboard/groups/{group}")
    assert (await vera.get(f"/dashboard/groups/{group}/destroy")).status_code == 403
    for path in ("apply", "destroy", f"runs/{run['id']}/stop", f"runs/{run['id']}/resume"):
        answer = await vera.submit(f"/dashboard/groups/{group}/{path}", group=group, typed="platform")
        assert answer.status_code == 403, path


def module(path: str, position: int, status: ModuleStatus, *waits_for: str) -> RunModuleView:
    return RunModuleView(
        module_id=path,
        path=path,
        position=position,
        waits_for=list(waits_for),
        status=status,
        job_id=None,
        job_number=None,
        job_status=None,
        message="",
        reason=None,
    )


def test_a_failed_module_holds_up_what_waits_for_it_directly_or_not() -> None:
    modules = [
        module("a", 0, "FAILED"),
        module("b", 0, "SUCCEEDED"),
        module("c", 1, "SKIPPED", "a"),
        module("d", 1, "RUNNING", "b"),
        module("e", 2, "SKIPPED", "c", "d"),
        module("f", 2, "WAITING", "d"),
    ]
    assert held_up(modules) == {"a": ["c", "e"]}
