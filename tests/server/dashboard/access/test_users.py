"""Users are invited, reset, disabled and deleted on their pages, which also end their sessions and revoke their tokens."""

import re

import pytest

from tests.server.application import Application
from tests.server.dashboard.visitor import Visitor, logged_in, visitor

pytestmark = pytest.mark.feature("U6.access", "X3.people")
HERE = "/dashboard/users"
LINK = re.compile(r'id="one-time-link"[^>]*>http://[^/]+(/login/link/tcl_[\w-]+)<')
PASSWORDS = {"password": "correct horse battery", "again": "correct horse battery"}


async def user_id(application: Application, name: str) -> str:
    return await application.scalar("SELECT id FROM users WHERE name = :name", name=name)


async def enters(application: Application, page: str) -> Visitor:
    """Log in with the link that a page shows."""
    link = LINK.search(page)
    assert link is not None, page
    someone = visitor(application)
    assert (await someone.submit(link[1], **PASSWORDS)).status_code == 303
    assert (await visitor(application).submit(link[1], **PASSWORDS)).status_code == 410, "only once"
    return someone


async def test_a_user_is_invited_by_a_link_that_works_once(application: Application) -> None:
    admin = await logged_in(application)
    await admin.see(f"{HERE}/invite")
    shown = (await admin.submit(f"{HERE}/invite", name="Elena")).text
    assert "Invited" in await admin.see(HERE)
    elena = await enters(application, shown)
    assert "elena" in await elena.see("/dashboard/account")
    assert "There is a user" in (await admin.submit(f"{HERE}/invite", name="elena")).text
    assert "user&#39;s name must" in (await admin.submit(f"{HERE}/invite", name="<b>")).text
    assert ">elena<" in await admin.see(f"{HERE}?q=len")
    assert ">elena<" not in await admin.see(f"{HERE}?q=zzz")


async def test_a_reset_ends_every_login_and_shows_a_new_link(application: Application) -> None:
    await application.person("elena", "viewer")
    elena, admin = await logged_in(application, "elena"), await logged_in(application)
    here = f"{HERE}/{await user_id(application, 'elena')}"
    assert "Viewer" in await admin.see(here), "the page shows the roles"
    shown = (await admin.submit(f"{here}/reset")).text
    assert (await elena.get("/dashboard/account")).status_code == 303, "the session has ended"
    assert (
        await application.scalar(
            "SELECT count(*) AS n FROM api_tokens JOIN users ON users.id = user_id WHERE users.name = 'elena'"
        )
        == 0
    )
    await enters(application, shown)


async def test_sessions_and_tokens_of_others_are_listed_and_ended(application: Application) -> None:
    person = await application.person("elena")
    elena, admin = await logged_in(application, "elena"), await logged_in(application)
    here = f"{HERE}/{await user_id(application, 'elena')}"
    page = await admin.see(here)
    for path in re.findall(rf'action="({here}/(?:sessions|tokens)/\w+/(?:end|revoke))"', page):
        assert (await admin.submit(path)).status_code == 303
    assert (await elena.get("/dashboard/account")).status_code == 303
    assert (await person.get("/api/v1/me")).status_code == 401
    assert "Logged in nowhere" in await admin.see(here)


async def test_a_user_is_disabled_enabled_made_administrator_and_deleted(application: Application) -> None:
    person = await application.person("elena")
    admin = await logged_in(application)
    here = f"{HERE}/{await user_id(application, 'elena')}"
    await admin.see(here)
    assert (await admin.submit(f"{here}/disable", on="true")).status_code == 303
    assert "Disabled" in await admin.see(here)
    assert (await person.get("/api/v1/me")).status_code == 401
    assert (await admin.submit(f"{here}/disable", on="false")).status_code == 303
    assert (await person.get("/api/v1/me")).status_code == 200
    assert (await admin.submit(f"{here}/administrator", on="true")).status_code == 303
    assert "administrator</span>" in await admin.see(here)
    assert (await admin.submit(f"{here}/administrator", on="false")).status_code == 303
    assert (await admin.submit(f"{here}/delete")).status_code == 303
    await admin.see(here, 404)
    own = f"{HERE}/{await user_id(application, 'admin')}"
    for path, fields in (
        ("disable", {"on": "true"}),
        ("administrator", {"on": "false"}),
        ("delete", {}),
        ("reset", {}),
    ):
        assert (await admin.submit(f"{own}/{path}", **fields)).status_code == 409, "nobody locks themselves out"


@pytest.mark.feature("X3.roles")
async def test_who_may_not_manage_access_reaches_no_user(application: Application) -> None:
    await application.person("victim")
    await application.person("otto", "approver")
    await application.person("olga", "owner", "")
    await application.person("eve", "owner", organization="elsewhere")
    victim, admin_id = await user_id(application, "victim"), await user_id(application, "admin")
    changes: list[tuple[str, dict[str, str]]] = [
        ("disable", {"on": "true"}),
        ("administrator", {"on": "true"}),
        ("reset", {}),
        ("delete", {}),
        ("sessions/end", {}),
    ]
    for name, refused in (("otto", {403}), ("eve", {404})):
        someone = await logged_in(application, name)
        await someone.see("/dashboard/account")
        assert (await someone.get(f"{HERE}/{victim}")).status_code in refused
        for path, fields in changes:
            assert (await someone.submit(f"{HERE}/{victim}/{path}", **fields)).status_code in refused, (name, path)
    otto = await logged_in(application, "otto")
    await otto.see("/dashboard/account")
    assert (await otto.get(HERE)).status_code == 403
    assert (await otto.get(f"{HERE}/invite")).status_code == 403
    assert (await otto.submit(f"{HERE}/invite", name="x")).status_code == 403
    assert ">Access<" not in await otto.see("/dashboard/account"), "the menu has no entry for it"
    olga = await logged_in(application, "olga")
    page = await olga.see(f"{HERE}/{admin_id}")
    assert "Only administrators see" in page
    for path, fields in changes:
        assert (await olga.submit(f"{HERE}/{admin_id}/{path}", **fields)).status_code == 403, path
    assert (await olga.submit(f"{HERE}/{victim}/administrator", on="true")).status_code == 403
    assert (await olga.submit(f"{HERE}/invite", name="x", is_system_admin="true")).status_code == 403
    admin = await logged_in(application)
    for path, fields in changes:
        assert (await admin.post(f"{HERE}/{victim}/{path}", data=fields)).status_code == 403, "no token of the page"
    row = await application.scalar("SELECT is_disabled FROM users WHERE name = 'victim' AND NOT is_system_admin")
    assert not row
