"""A change of access is told to those who may see it, and to nobody else."""

import pytest

from terracrew.server.api.runs.live import visible_changes
from tests.server.application import Application

pytestmark = pytest.mark.feature("U4.live", "U6.access")


async def test_a_change_of_access_is_told_to_those_who_read_access_there_and_to_the_person_themselves(
    application: Application,
) -> None:
    server = application.server
    await application.admin.made("/api/v1/groups", {"path": "payments"})
    owner = await application.person("olga", "owner", "payments")
    viewer = await application.person("vera", "viewer")
    foreign = await application.person("eve", "owner", organization="elsewhere")
    people = (application.admin, owner, viewer, foreign)

    async def told(key: str) -> list[bool]:
        found = [await visible_changes(server.db, each.principal, {("access", key)}) for each in people]
        assert all(not change or change == {("access", "")} for change in found), "an event names nobody"
        return [bool(change) for change in found]

    assert await told(server.organization_id) == [True, True, False, False]
    assert await told(viewer.principal.id) == [False, False, True, False]
    assert await told("usr_nobody") == [False, False, False, False]


async def test_every_change_that_the_pages_about_access_show_wakes_them(application: Application) -> None:
    server, admin = application.server, application.admin
    vera = await application.person("vera", "viewer")
    ours = ("access_log", server.organization_id)

    async def wakes(method: str, path: str, json: object = None) -> dict[str, str]:
        with server.db.listen("access_log") as wakeups:
            answer = await admin.request(method, f"/api/v1{path}", json=json)
            assert answer.status_code < 300, answer.text
            assert ours in await wakeups.get(timeout=5), path
        return answer.json() if answer.content else {}

    account = await wakes("POST", "/service-accounts", {"name": "bot"})
    secret = await wakes("POST", f"/service-accounts/{account['id']}/secrets", {})
    await wakes("PATCH", f"/service-accounts/{account['id']}", {"is_disabled": True})
    await wakes("DELETE", f"/service-accounts/{account['id']}/secrets/{secret['id']}")
    await wakes("DELETE", f"/service-accounts/{account['id']}")
    await wakes("POST", "/users", {"name": "new"})
    await wakes("PATCH", "/users/new", {"is_disabled": True})
    role = await wakes("POST", "/roles", {"principal": "vera", "role": "operator", "path": ""})
    await wakes("DELETE", f"/roles/{role['id']}")
    token = await wakes("POST", "/tokens", {"name": "laptop"})
    await wakes("DELETE", f"/tokens/{token['id']}")
    with server.db.listen("access_log") as wakeups:
        await vera.made("/api/v1/tokens", {"name": "own"})
        assert ("access_log", vera.principal.id) in await wakeups.get(timeout=5)
