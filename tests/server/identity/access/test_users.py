"""Users are listed, renamed, disabled, reset and deleted by those who manage them, and an administrator always remains."""

import asyncio
from typing import Any

import httpx
import pytest

from terracrew.api.access import Role, UserChange
from terracrew.errors import Conflict, Forbidden, NotFound
from terracrew.server.db import Tx
from terracrew.server.identity.access import role_store, users
from terracrew.server.identity.people import logins, service, store
from terracrew.server.principals.model import Principal
from tests.builders.clock import ShiftedClock
from tests.server.identity.identity_server import IdentityServer

PASSWORD = "a long enough one"


async def client_of(server: IdentityServer, who: Principal) -> httpx.AsyncClient:
    return server.client(await server.local_token(who))


async def changed(server: IdentityServer, who: Principal, user: str, **wanted: Any) -> None:
    await users.change(server.db, who, user, UserChange(**wanted))


@pytest.mark.feature("X3.people")
async def test_an_invitation_works_once_within_a_day_and_only_its_hash_is_stored(
    server: IdentityServer, clock: ShiftedClock
) -> None:
    owner = await client_of(server, await server.user("olga", Role.OWNER))
    made = (await owner.post("/api/v1/users", json={"name": "ada"})).json()
    token = made["link"].rpartition("/")[2]
    rows = await server.db.read(lambda tx: tx.all("SELECT * FROM one_time_links"))
    assert token not in str(rows)
    listed = {each["name"]: each for each in (await owner.get("/api/v1/users")).json()["items"]}
    assert (listed["ada"]["is_invited"], listed["ada"]["has_password"], listed["ada"]["last_login_at"]) == (
        True,
        False,
        None,
    )
    await service.redeem_link(server.identity, token, "127.0.0.1", PASSWORD)
    listed = {each["name"]: each for each in (await owner.get("/api/v1/users")).json()["items"]}
    assert (listed["ada"]["is_invited"], listed["ada"]["has_password"]) == (False, True)
    assert listed["ada"]["last_login_at"] is not None
    late = (await owner.post("/api/v1/users", json={"name": "eve"})).json()["link"].rpartition("/")[2]
    clock.advance(service.INVITATION_LIFETIME_SECONDS + 1)
    for used_up in (token, late):
        with pytest.raises(Exception, match="used up, expired or wrong"):
            await service.redeem_link(server.identity, used_up, "127.0.0.1", PASSWORD)


@pytest.mark.feature("X3.people")
async def test_a_reset_ends_everything_and_gives_a_new_link(server: IdentityServer) -> None:
    owner = await client_of(server, await server.user("olga", Role.OWNER))
    ada = await server.user("ada", Role.VIEWER)
    first = await service.make_link(server.db, ada.id)
    await service.redeem_link(server.identity, first, "127.0.0.1", PASSWORD)
    cookie, _ = await server.login(ada)
    scripts = await client_of(server, ada)
    answer = await owner.post("/api/v1/users/ada/reset")
    assert answer.status_code == 200, answer.text
    assert (await scripts.get("/api/v1/me")).status_code == 401
    browser = server.client(cookies={"terracrew_session": cookie})
    assert (await browser.get("/api/v1/me")).status_code == 401
    with pytest.raises(Exception, match="wrong"):
        await logins.login(server.identity, "ada", PASSWORD, "127.0.0.1")
    token = answer.json()["link"].rpartition("/")[2]
    await service.redeem_link(server.identity, token, "127.0.0.1", "another long one")
    assert await logins.login(server.identity, "ada", "another long one", "127.0.0.1")
    actions = [entry["action"] for entry in (await owner.get("/api/v1/audit")).json()["items"]]
    assert {"user.reset", "user.link"} <= set(actions)


@pytest.mark.feature("X3.people")
async def test_a_reset_is_no_way_to_more_rights(server: IdentityServer, clock: ShiftedClock) -> None:
    """Whoever resets a user can log in as that user."""
    owner = await server.user("olga", Role.OWNER)
    admin = await server.user("root", is_system_admin=True)
    await server.user("vera", Role.VIEWER)
    client = await client_of(server, owner)
    for name, status in (("root", 403), ("olga", 409), ("me", 409), ("nobody", 404)):
        assert (await client.post(f"/api/v1/users/{name}/reset")).status_code == status, name
    elsewhere = await server.organization("elsewhere")
    foreign = await client_of(server, await server.user("foreign", Role.OWNER, organization_id=elsewhere))
    assert (await foreign.post("/api/v1/users/vera/reset")).status_code == 404
    viewer = await client_of(server, await server.user("eve", Role.APPROVER))
    assert (await viewer.post("/api/v1/users/vera/reset")).status_code == 403
    await server.db.write(lambda tx: _guest(tx, elsewhere))
    assert (await client.post("/api/v1/users/vera/reset")).status_code == 403, "vera has a role elsewhere"
    assert (await (await client_of(server, admin)).post("/api/v1/users/vera/reset")).status_code == 200
    made = await service.create_token(server.db, owner, "short", 1)
    short = server.client(made[1].text)
    await server.user("ann")
    assert (await short.post("/api/v1/users/ann/reset")).status_code == 403, "the token ends, the link's login does not"


async def _guest(tx: Tx, organization_id: str) -> None:
    vera = await store.user(tx, "vera")
    await role_store.bind_role(tx, organization_id, "user", vera.id, "owner", "group", "", "test")


@pytest.mark.feature("X3.people")
async def test_the_last_administrator_stays_one(server: IdentityServer) -> None:
    root, other = [await server.user(name, is_system_admin=True) for name in ("root", "other")]
    with pytest.raises(Conflict, match="lock yourself out"):
        await changed(server, root, "root", is_disabled=True)
    outcomes = await asyncio.gather(
        changed(server, root, "other", is_system_admin=False),
        changed(server, other, "root", is_system_admin=False),
        return_exceptions=True,
    )
    refused = [each for each in outcomes if each is not None]
    assert len(refused) == 1, "two administrators who remove each other do not both succeed"
    assert isinstance(refused[0], Conflict | Forbidden)
    count = await server.db.read(lambda tx: tx.one("SELECT count(*) AS n FROM users WHERE is_system_admin"))
    assert count is not None
    assert count["n"] == 1
    left = await server.db.read(lambda tx: tx.one("SELECT name FROM users WHERE is_system_admin"))
    assert left is not None
    last = root if left["name"] == "root" else other
    with pytest.raises(Conflict, match="the last administrator"):
        await changed(server, last, last.name, is_system_admin=False)


@pytest.mark.feature("X3.people")
async def test_only_an_administrator_who_is_logged_in_makes_administrators(server: IdentityServer) -> None:
    root, owner = await server.user("root", is_system_admin=True), await server.user("olga", Role.OWNER)
    vera = await server.user("vera")
    with pytest.raises(Forbidden):
        await changed(server, owner, "vera", is_system_admin=True)
    with pytest.raises(Forbidden):
        await changed(server, owner, "olga", is_system_admin=True)
    scripts = server.client(await server.token(root))
    answer = await scripts.patch("/api/v1/users/vera", json={"is_system_admin": True})
    assert (answer.status_code, "log in to the dashboard" in answer.text) == (403, True)
    await changed(server, root, vera.id, is_system_admin=True)
    assert (await (await client_of(server, vera)).get("/api/v1/me")).json()["is_system_admin"] is True
    for change in ({"is_disabled": True}, {"name": "x"}):
        with pytest.raises(Forbidden):
            await changed(server, owner, "vera", **change)
    with pytest.raises(Forbidden):
        await server.db.write(lambda tx: users.delete(tx, owner, "vera"))


@pytest.mark.feature("X3.people")
async def test_users_are_renamed_searched_shown_and_deleted(server: IdentityServer) -> None:
    owner = await client_of(server, await server.user("olga", Role.OWNER))
    ada = await server.user("ada", Role.VIEWER)
    await server.user("100%_sure!", None)
    assert (await owner.patch("/api/v1/users/ada", json={"name": "Ada!"})).status_code == 400
    assert (await owner.patch("/api/v1/users/ada", json={"name": "olga"})).status_code == 409
    assert (await owner.patch("/api/v1/users/ada", json={"name": "grace"})).json()["name"] == "grace"
    assert (await owner.patch("/api/v1/users/ada", json={"name": "x"})).status_code == 404

    async def names(search: str) -> list[str]:
        answer = await owner.get("/api/v1/users", params={"search": search})
        return [each["name"] for each in answer.json()["items"]]

    assert (await names("RAC"), await names("%_"), await names("_"), await names("zz")) == (
        ["grace"],
        ["100%_sure!"],
        ["100%_sure!"],
        [],
    )
    shown = (await owner.get(f"/api/v1/users/{ada.id}")).json()
    assert ([role["role"] for role in shown["roles"]], shown["sessions"], shown["tokens"]) == (["viewer"], 0, 0)
    own = await client_of(server, ada)
    assert (await own.get("/api/v1/users/me")).json()["name"] == "grace"
    assert (await own.get("/api/v1/users/olga")).status_code == 403
    assert (await own.get("/api/v1/users/nobody")).status_code == 403
    assert (await owner.delete("/api/v1/users/grace")).status_code == 204
    assert (await own.get("/api/v1/me")).status_code == 401
    assert (await owner.get("/api/v1/users/grace")).status_code == 404
    assert (await owner.get("/api/v1/roles", params={"principal": ada.id})).json()["items"] == []
    assert (await owner.delete("/api/v1/users/olga")).status_code == 409
    with pytest.raises(NotFound):
        await changed(server, await server.user("root", is_system_admin=True), "no\0body", is_disabled=True)


@pytest.mark.feature("X3.people")
async def test_a_guest_is_listed_where_they_have_a_role_and_managed_at_home_only(server: IdentityServer) -> None:
    elsewhere = await server.organization("elsewhere")
    await server.user("vera", Role.VIEWER)
    foreign = await client_of(server, await server.user("foreign", Role.OWNER, organization_id=elsewhere))
    assert [each["name"] for each in (await foreign.get("/api/v1/users")).json()["items"]] == ["foreign"]
    assert (await foreign.get("/api/v1/users/vera")).status_code == 404
    await server.db.write(lambda tx: _guest(tx, elsewhere))
    assert {each["name"] for each in (await foreign.get("/api/v1/users")).json()["items"]} == {"foreign", "vera"}
    shown = (await foreign.get("/api/v1/users/vera")).json()
    assert [role["organization_id"] for role in shown["roles"]] == [elsewhere]
    assert (shown["sessions"], shown["tokens"]) == (None, None)
    for method, path in (("patch", ""), ("delete", ""), ("post", "/reset"), ("get", "/sessions"), ("get", "/tokens")):
        more = {"json": {"is_disabled": True}} if method == "patch" else {}
        answer = await foreign.request(method, f"/api/v1/users/vera{path}", **more)
        assert answer.status_code == 404, (method, path)
