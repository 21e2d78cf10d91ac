"""The modules pages show what stands in the way of the next job of a module."""

import pytest

from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in


@pytest.mark.feature("U5", "S6")
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
    counted = "UPDATE states SET resources = 3 WHERE module_id = :id"
    await application.server.db.write(lambda tx: tx.run(counted, id=module))
    page = await someone.see(f"/dashboard/modules/{module}/destroy")
    assert "It manages <b>3 resources</b>" in page
    assert "Its state cannot be read" in page
    assert "Give the server the master key" in page
    found = (await application.admin.get(f"/api/v1/modules/{module}/resources")).json()
    assert (found["count"], found["addresses"]) == (3, [])
    assert "cannot be decrypted" in found["problem"]


@pytest.mark.feature("S4", "S5")
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
        assert '<span class="tag">gpu</span> <span class="tag">zone:eu</span>' in page
        assert "4 in net" in page
        assert '<dd class="num">12</dd>' in page
    await admin.patch("/api/v1/modules/net%2Fvpc", json={"runner": None, "tags": []})
    page = await someone.see(f"/dashboard/modules/{module['id']}")
    assert "the instance one only" in page
    await admin.patch("/api/v1/modules/net%2Fvpc", json={"runner_instance_name": None})
    assert "any runner that it may use" in await someone.see(f"/dashboard/modules/{module['id']}")
    shown = (await admin.get(f"/api/v1/jobs/{job['id']}")).json()["placement"]
    assert shown["limits"] == [{"group": "net", "max_running_jobs": 4}]
