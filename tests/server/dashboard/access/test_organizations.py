"""People switch between the organizations that they may act in, and administrators create, rename and delete them."""

import pytest

from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import role_store
from terracrew.server.tree.groups.service import ensure_organization
from tests.server.application import Application
from tests.server.dashboard.visitor import Visitor, logged_in

pytestmark = pytest.mark.feature("U6.access", "X3.roles")
HERE = "/dashboard/organizations"


async def organization_id(application: Application, name: str) -> str:
    return await application.scalar("SELECT id FROM organizations WHERE name = :name", name=name)


async def test_an_administrator_creates_enters_renames_and_deletes_an_organization(application: Application) -> None:
    await application.person("elena")
    admin = await logged_in(application)
    await admin.see(f"{HERE}/create")
    assert (await admin.submit(f"{HERE}/create", name="acme", owner="elena")).status_code == 303
    assert "There is an organization" in (await admin.submit(f"{HERE}/create", name="acme")).text
    assert "not a valid name" in (await admin.submit(f"{HERE}/create", name="No no")).text
    assert "no user" in (await admin.submit(f"{HERE}/create", name="other", owner="nobody")).text
    here = f"{HERE}/{await organization_id(application, 'acme')}"
    assert (await admin.submit(f"{here}/choose")).status_code == 303
    assert ">acme</h1>" in await admin.see("/dashboard/groups")
    assert ">elena<" in await admin.see(await redirected(admin, "/dashboard/access"))
    assert (await admin.submit(f"{here}/delete")).status_code == 409, "one cannot delete what one acts in"
    assert (await admin.submit(f"{HERE}/{await organization_id(application, 'default')}/choose")).status_code == 303
    assert (await admin.submit(f"{here}/rename", name="emca")).status_code == 303
    assert "not a valid name" in (await admin.submit(f"{here}/rename", name="E!")).text
    assert ">emca</h1>" in await admin.see(here)
    assert (await admin.submit(f"{here}/delete")).status_code == 303
    await admin.see(here, 404)


async def redirected(someone: Visitor, path: str) -> str:
    return (await someone.get(path)).headers["location"]


async def test_a_person_switches_only_to_organizations_where_they_have_a_role(application: Application) -> None:
    async def work(tx: Tx) -> None:
        second = await ensure_organization(tx, "second")
        await ensure_organization(tx, "third")
        row = await tx.one("SELECT id FROM users WHERE name = 'elena'")
        assert row is not None
        await role_store.bind_role(tx, second.id, "user", row["id"], "viewer", "group", "", "test", None)

    await application.person("elena", "viewer")
    await application.server.db.write(work)
    elena = await logged_in(application, "elena")
    page = await elena.see(HERE)
    assert ">second<" in page
    assert ">third<" not in page
    assert "Create organization" not in page
    assert 'title="Switch the organization">default<' in page
    second, third = await organization_id(application, "second"), await organization_id(application, "third")
    assert (await elena.submit(f"{HERE}/{second}/choose")).status_code == 303
    assert ">second</h1>" in await elena.see("/dashboard/groups")
    for path, fields, refused in (
        (f"{HERE}/{third}/choose", {}, 404),
        (f"{HERE}/{second}/rename", {"name": "mine"}, 403),
        (f"{HERE}/{second}/delete", {}, 403),
        (f"{HERE}/create", {"name": "mine"}, 403),
    ):
        assert (await elena.submit(path, **fields)).status_code == refused, path
        assert (await elena.post(path, data=fields)).status_code == 403, "the token of the page is missing"
    assert (await elena.get(f"{HERE}/{third}")).status_code == 404
    assert (await elena.get(f"{HERE}/create")).status_code == 403
    assert await organization_id(application, "mine") is None


async def test_a_person_with_one_organization_has_no_switch(application: Application) -> None:
    await application.person("vera", "viewer")
    assert "/dashboard/organizations" not in await (await logged_in(application, "vera")).see("/dashboard/modules")


async def test_a_form_in_an_old_tab_never_acts_in_the_organization_that_another_tab_chose(
    application: Application,
) -> None:
    admin = await logged_in(application)
    await admin.see(f"{HERE}/create")
    assert (await admin.submit(f"{HERE}/create", name="acme")).status_code == 303
    old_page = await admin.see("/dashboard/groups")
    old, default = admin.csrf, await organization_id(application, "default")
    acme = await organization_id(application, "acme")
    assert f'value="{old}"' in old_page
    assert (await admin.submit(f"{HERE}/{acme}/choose")).status_code == 303

    register = {"name": "lost", "group": ""}
    refused = await admin.post("/dashboard/runners/add", data={"_csrf": old, **register})
    assert refused.status_code == 409
    assert "This page shows default, but you have switched to acme in another tab" in refused.text
    script = {"HX-Request": "true", "X-CSRF-Token": old}
    by_script = await admin.post("/dashboard/runners/add", data=register, headers=script)
    assert by_script.json()["detail"].startswith("this page shows default, but you have switched to acme")
    by_api = await admin.post("/api/v1/runners", json=register, headers={"X-CSRF-Token": old})
    assert by_api.status_code == 409
    forged = await admin.post("/dashboard/runners/add", data={"_csrf": f"{acme}.{old.partition('.')[2]}", **register})
    assert forged.status_code == 403, "a page cannot name another organization than the one that it was made for"
    assert await application.scalar("SELECT count(*) AS n FROM runners WHERE name = 'lost'") == 0

    assert ">acme</h1>" in (await admin.get("/dashboard/groups")).text
    assert ">default</h1>" in (await admin.get("/dashboard/groups", headers=script)).text, (
        "the old tab stays what it is"
    )
    assert (await admin.post(f"{HERE}/{default}/choose", data={"_csrf": old})).status_code == 303
    assert (await admin.post("/dashboard/runners/add", data={"_csrf": old, **register})).status_code == 200
    assert (await admin.submit(f"{HERE}/{acme}/choose")).status_code == 303
    assert (await admin.post("/logout", data={"_csrf": old})).status_code == 303, "one can log out from every tab"
    assert (await admin.get("/dashboard/groups")).status_code == 303


async def test_an_old_tab_shows_nothing_of_an_organization_that_its_reader_may_no_longer_enter(
    application: Application,
) -> None:
    async def work(tx: Tx) -> str:
        second = await ensure_organization(tx, "second")
        row = await tx.one("SELECT id FROM users WHERE name = 'elena'")
        assert row is not None
        made = await role_store.bind_role(tx, second.id, "user", row["id"], "viewer", "group", "", "test", None)
        return made.id

    await application.person("elena", "viewer")
    role_id = await application.server.db.write(work)
    elena = await logged_in(application, "elena")
    await elena.see(HERE)
    second = await organization_id(application, "second")
    assert (await elena.submit(f"{HERE}/{second}/choose")).status_code == 303
    await elena.see("/dashboard/groups")
    script = {"HX-Request": "true", "X-CSRF-Token": elena.csrf}
    assert (await elena.submit(f"{HERE}/{await organization_id(application, 'default')}/choose")).status_code == 303
    assert (await elena.get("/dashboard/groups", headers=script)).status_code == 200
    await application.server.db.write(lambda tx: role_store.unbind_role(tx, role_id))
    assert (await elena.get("/dashboard/groups", headers=script)).status_code == 404
