"""The modules pages show what stands in the way of the next job of a module."""

import re

import pytest

from tests.builders.job_rows import change_states
from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in


@pytest.mark.feature("U5.page")
async def test_the_module_page_shows_an_orphaned_lock_and_where_to_free_it(
    application: Application, jobs: dict[str, str]
) -> None:
    someone = await logged_in(application)
    module = await application.scalar("SELECT module_id FROM jobs WHERE id = :id", id=jobs["lost"])
    page = await someone.see(f"/dashboard/modules/{module}")
    assert "The lock of its state is orphaned" in page
    assert f"/dashboard/jobs/{jobs['lost']}#lost" in page
    listing = await someone.see("/dashboard/modules")
    assert "Lock orphaned" in listing
    assert "A state waits for your decision" in listing


@pytest.mark.usefixtures("jobs")
async def test_every_jump_on_the_module_page_leads_to_what_it_names(application: Application) -> None:
    """`Dependencies` led to the outputs of a module that has no dependencies."""
    someone = await logged_in(application)
    module = await application.scalar("SELECT id FROM modules WHERE path = 'hello'")
    page = await someone.see(f"/dashboard/modules/{module}")
    jumps = re.findall(r'<a href="#(\w+)">(\w+)', page[page.index('<nav class="jump"') :])
    assert len(jumps) == 6
    for place, title in jumps:
        section = page[page.index(f'id="{place}"') :]
        assert title.lower() in section[: section.index("</h2>")].lower()


@pytest.mark.usefixtures("jobs")
async def test_the_destroy_page_refreshes_itself_at_its_own_address(application: Application) -> None:
    """Every ten seconds, the page asked for `/destroy?again=`, and showed that the server answered 400."""
    someone = await logged_in(application)
    module = await application.scalar("SELECT id FROM modules WHERE path = 'hello'")
    path = f"/dashboard/modules/{module}/destroy"
    assert f'hx-get="{path}"' in await someone.see(path)


async def test_the_destroy_page_explains_a_state_that_cannot_be_decrypted(
    application: Application, jobs: dict[str, str]
) -> None:
    """The page answered 500, so that nobody could destroy the module, or see how many resources it has."""
    someone = await logged_in(application)
    module = await application.scalar("SELECT module_id FROM jobs WHERE id = :id", id=jobs["doubt"])
    await change_states(application.server.db, module, resources=3, content=b"x")
    page = await someone.see(f"/dashboard/modules/{module}/destroy")
    assert "It manages <b>3 resources</b>" in page
    assert "Its state cannot be read" in page
    assert "Give the server the master key" in page
    found = (await application.admin.get(f"/api/v1/modules/{module}/resources")).json()
    assert (found["count"], found["addresses"]) == (3, [])
    assert "cannot be decrypted" in found["problem"]


@pytest.mark.feature("S4.instance")
async def test_the_pages_of_a_module_and_of_its_job_show_where_it_runs(application: Application) -> None:
    admin = application.admin
    await admin.made("/api/v1/groups", {"path": "net", "max_running_jobs": 4})
    await admin.made("/api/v1/runners", {"name": "edge"})
    source = {"kind": "local", "path": "/srv/sources"}
    pins = {"runner": "edge", "runner_instance_name": "one", "tags": ["gpu", "zone:eu"], "priority": 12}
    module = await admin.made("/api/v1/modules", {"path": "net/vpc", "source": source, **pins})
    job = await admin.made("/api/v1/modules/net%2Fvpc/jobs", {"type": "PLAN"})
    someone = await logged_in(application)
    for address in (f"/dashboard/modules/{module['id']}", f"/dashboard/jobs/{job['id']}"):
        page = await someone.see(address)
        assert ">edge</a> · one only" in page
        assert '<span class="tag plain">gpu</span> <span class="tag plain">zone:eu</span>' in page
        assert "4 in net" in page or "4 jobs in net" in page
        assert '<span class="num">12</span>' in page or 'name="priority" type="number" min="-100" max="100"' in page
    await admin.patch("/api/v1/modules/net%2Fvpc", json={"runner": None, "tags": []})
    page = await someone.see(f"/dashboard/modules/{module['id']}")
    assert "the instance one only" in page
    await admin.patch("/api/v1/modules/net%2Fvpc", json={"runner_instance_name": None})
    assert "any runner that it may use" in await someone.see(f"/dashboard/modules/{module['id']}")
    shown = (await admin.get(f"/api/v1/jobs/{job['id']}")).json()["placement"]
    assert shown["limits"] == [{"group": "net", "max_running_jobs": 4}]


@pytest.mark.feature("S4.instance", "U6.tree")
async def test_an_owner_changes_where_a_module_runs_and_others_do_not(application: Application) -> None:
    admin = application.admin
    await admin.made("/api/v1/runners", {"name": "edge"})
    source = {"kind": "local", "path": "/srv/sources"}
    module = await admin.made("/api/v1/modules", {"path": "vpc", "source": source})
    here = f"/dashboard/modules/{module['id']}"
    someone = await logged_in(application)
    assert f'href="{here}/settings"' in await someone.see(here)
    assert '<option value="edge"></option>' in await someone.see(f"{here}/settings"), "the runners are offered"
    fields = {"runner": "edge", "runner_instance_name": "one", "tags": "gpu, zone:eu gpu", "priority": "7"}
    answer = await someone.submit(f"{here}/settings/placement", **fields)
    assert answer.status_code == 303, answer.text
    found = (await admin.get(f"/api/v1/modules/{module['id']}")).json()
    assert (found["placement"]["runner_path"], found["runner_instance_name"]) == ("edge", "one")
    assert (found["tags"], found["priority"]) == (["gpu", "zone:eu"], 7)
    form = await someone.see(f"{here}/settings")
    assert 'value="gpu, zone:eu"' in form
    for wrong, words in (
        ({"tags": "a/b"}, "this is not valid"),
        ({"runner": "none"}, "there is no runner <code>none</code>"),
        ({"priority": "101"}, "write a number of at most 100"),
    ):
        refused = await someone.submit(f"{here}/settings/placement", **fields | wrong)
        assert f'id="{next(iter(wrong))}-wrong" role="alert">{words}' in refused.text.lower(), "beside its field"
        assert f'value="{next(iter(wrong.values()))}"' in refused.text, "what was typed is still there"
    assert (await admin.delete("/api/v1/runners/edge", params={"force": True})).is_success
    assert (await someone.submit(f"{here}/settings/placement", **fields | {"priority": ""})).status_code == 303
    found = (await admin.get(f"/api/v1/modules/{module['id']}")).json()
    assert (found["placement"]["runner_path"], found["priority"]) == ("edge", 0), "it stays pinned to a removed runner"
    await application.person("otto", "operator")
    operator = await logged_in(application, "otto")
    assert f'href="{here}/settings"' not in await operator.see(here)
    await operator.see(f"{here}/settings", 403)


@pytest.mark.feature("J10.priority")
async def test_the_priority_of_a_waiting_job_is_changed_on_its_page(application: Application) -> None:
    source = {"kind": "local", "path": "/srv/sources"}
    await application.admin.made("/api/v1/modules", {"path": "vpc", "source": source})
    job = await application.admin.made("/api/v1/modules/vpc/jobs", {"type": "PLAN"})
    here = f"/dashboard/jobs/{job['id']}"
    await application.person("otto", "operator")
    operator = await logged_in(application, "otto")
    assert 'id="job-priority"' in await operator.see(here)
    assert (await operator.submit(f"{here}/priority", priority="9")).status_code == 303
    assert (await application.admin.get(f"/api/v1/jobs/{job['id']}")).json()["priority"] == 9
    assert (await operator.submit(f"{here}/priority", priority="90")).status_code == 403
    assert (await operator.submit(f"{here}/priority", priority="901")).status_code == 400
    await application.person("vera", "viewer")
    viewer = await logged_in(application, "vera")
    assert 'id="job-priority"' not in await viewer.see(here)


async def test_a_list_of_modules_has_their_newest_jobs_and_doubts(
    application: Application, jobs: dict[str, str]
) -> None:
    """The list had no status: whether a module was applied, failed or is in doubt was on its own page only."""
    found = {each["path"]: each for each in await application.admin.listed("/api/v1/modules", recursive="true")}
    done, doubt = found["hello"], found["platform/edge/vpn"]
    assert (done["newest_job"]["id"], done["newest_job"]["status"]) == (jobs["done"], "SUCCEEDED")
    assert (done["is_in_doubt"], doubt["is_in_doubt"]) == (False, True)
    made = await application.admin.made(
        "/api/v1/modules", {"path": "new", "source": {"kind": "local", "path": "/srv/sources/new"}}
    )
    listed = {each["id"]: each for each in await application.admin.listed("/api/v1/modules", recursive="true")}
    assert listed[made["id"]]["newest_job"] is None
