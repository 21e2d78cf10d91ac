"""Nobody becomes another person, or keeps another person's browser, by a provider, a provisioner or a link."""

from typing import Any

import msgspec
import pytest

from terracrew.api.provisioning import NewProvisioner
from terracrew.api.sso import ProviderChange
from terracrew.errors import Forbidden
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import role_store
from terracrew.server.identity.people import store as people_store
from terracrew.server.identity.provisioning import owners
from terracrew.server.identity.sso import providers
from terracrew.server.tree.groups.service import ensure_organization
from tests.server.application import on_one
from tests.server.dashboard.visitor import logged_in, visitor
from tests.server.identity.sso.crook import Crook, refused
from tests.server.identity.sso.provider_logins import manager
from tests.server.scim.conftest import Directory, directory_of

pytestmark = [on_one, pytest.mark.feature("P1.attacks")]


async def change(crook: Crook, **wanted: Any) -> None:
    server = crook.application.server
    given = ProviderChange(**wanted)
    await providers.change(
        server.db, server.keys, server.identity.sso.trust, manager(crook.application), crook.made.id, given
    )


async def provision(crook: Crook) -> Directory:
    """Let a service account say who the people of the crook's provider are."""
    application = crook.application
    directory = await directory_of(application, application.admin.principal)
    wanted = NewProvisioner(directory.account_id, crook.made.name)
    await application.server.db.write(lambda tx: owners.choose(tx, manager(application), wanted, ""))
    return directory


@pytest.mark.parametrize("right", ["elsewhere", "administrator"])
async def test_a_provisioner_lends_nobody_rights_beyond_the_organization(crook: Crook, right: str) -> None:
    """The owners of the organization hold its secret. With it, they could say that a person is another one of a trusted provider."""
    await change(crook, is_trusted=True)
    directory = await provision(crook)
    victim = await directory.person("victim@example.com", externalId="v1")

    async def promote(tx: Tx) -> None:
        if right == "administrator":
            await people_store.set_system_admin(tx, victim["id"], is_system_admin=True)
        else:
            second = await ensure_organization(tx, "second")
            await role_store.bind_role(tx, second.id, "user", victim["id"], "owner", "group", "", "test")

    if right == "elsewhere":
        await crook.application.server.db.write(promote)
    path = f"Users/{victim['id']}"
    await directory.patched(path, {"op": "replace", "path": "externalId", "value": "m1"})
    if right == "administrator":
        await crook.application.server.db.write(promote)
    refused(await crook.come_back(crook.token()), "log in with a password")
    assert await crook.application.scalar("SELECT count(*) AS found FROM identities") == 0


async def test_only_administrators_let_a_provisioner_say_who_people_of_a_trusted_provider_are(crook: Crook) -> None:
    await change(crook, is_trusted=True)
    application = crook.application
    owner = await application.person("olga", "owner", "")
    directory = await directory_of(application, owner.principal)
    there = msgspec.structs.replace(owner.principal, credential="session")
    wanted = NewProvisioner(directory.account_id, crook.made.name)
    with pytest.raises(Forbidden):
        await application.server.db.write(lambda tx: owners.choose(tx, there, wanted, ""))


async def test_no_other_site_begins_a_login(crook: Crook) -> None:
    """A page of the crook leads a browser to the crook's provider, which lets it in at once as the crook's user."""
    victim = await logged_in(crook.application)
    path = f"/login/sso/{crook.made.id}"
    for site in ("cross-site", "same-site"):
        answer = await victim.get(path, params={"next": "/dashboard/jobs"}, headers={"Sec-Fetch-Site": site})
        assert answer.status_code == 303
        assert answer.headers["Location"] == "/login?next=%2Fdashboard%2Fjobs"
        assert "set-cookie" not in answer.headers
    stranger = visitor(crook.application)
    page = await stranger.see("/login?next=%2Fdashboard%2Fjobs")
    assert f'href="{path}?next=/dashboard/jobs"' in page, "one click on our own page begins it"
    for site in ("same-origin", "none"):
        answer = await stranger.get(path, headers={"Sec-Fetch-Site": site})
        assert answer.headers["Location"].startswith(crook.issuer.url)


@pytest.mark.parametrize("steps", ["..", "%2e%2e", ".%2E", "x/../.."])
async def test_no_link_leads_from_a_login_with_a_password_to_another_provider(crook: Crook, steps: str) -> None:
    """A browser reads `/dashboard/../login/sso/…` as `/login/sso/…`, and says that our own login page has led there."""
    to = f"/dashboard/{steps}/login/sso/{crook.made.id}"
    victim = await logged_in(crook.application)
    await victim.see("/dashboard/account")
    assert (await victim.submit("/logout")).status_code == 303
    answer = await victim.submit("/login", name="admin", password="correct horse battery", next=to)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/dashboard")
    stranger = visitor(crook.application)
    foreign = await stranger.get(
        f"/login/sso/{crook.made.id}", params={"next": to}, headers={"Sec-Fetch-Site": "cross-site"}
    )
    assert foreign.headers["Location"] == "/login?next=%2Fdashboard"
