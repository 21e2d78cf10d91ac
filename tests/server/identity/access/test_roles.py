"""Roles are granted within one's own rights, for a time, and listed with who granted them."""

import httpx
import pytest

from terracrew.api.access import Role
from terracrew.server.identity.access.roles import RoleExpiry
from terracrew.server.principals.delegation import DAY_SECONDS
from terracrew.server.principals.model import Principal
from tests.builders.clock import ShiftedClock
from tests.server.identity.identity_server import IdentityServer


async def client_of(server: IdentityServer, who: Principal) -> httpx.AsyncClient:
    return server.client(await server.token(who))


async def granted(client: httpx.AsyncClient, principal: str, role: str, path: str = "", **more: object) -> int:
    body = {"principal": principal, "role": role, "path": path, **more}
    return (await client.post("/api/v1/roles", json=body)).status_code


@pytest.mark.feature("X3.roles")
async def test_roles_are_listed_by_place_with_what_is_inherited_and_by_principal(server: IdentityServer) -> None:
    a = await server.group("a")
    await server.rows.group("a/b", a)
    await server.group("c")
    module_group = await server.rows.group("a/d", a)
    await server.rows.module("a/d/m", module_group)
    root = await client_of(server, await server.user("root", Role.OWNER))
    olga, ada = await server.user("olga"), await server.user("ada")
    for principal, role, path in (("olga", "owner", "a"), ("ada", "viewer", "a/b"), ("ada", "viewer", "c")):
        assert await granted(root, principal, role, path) == 201
    assert await granted(root, "ada", "operator", "a/d/m", kind="module") == 201

    async def listed(client: httpx.AsyncClient, **query: object) -> list[tuple[str, str, str, str]]:
        answer = await client.get("/api/v1/roles", params={key: str(value) for key, value in query.items()})
        assert answer.status_code == 200, answer.text
        return sorted((i["principal_name"], i["role"], i["path"], i["created_by_name"]) for i in answer.json()["items"])

    owner = await client_of(server, olga)
    here, above = ("ada", "viewer", "a/b", "root"), ("olga", "owner", "a", "root")
    assert await listed(owner, path="a/b") == [here]
    assert await listed(owner, path="a/b", inherited="true") == [here, above, ("root", "owner", "", "")]
    at_module = ("ada", "operator", "a/d/m", "root")
    assert await listed(owner, path="a/d/m") == [at_module]
    assert await listed(owner, path="a/d/m", inherited="true") == [at_module, above, ("root", "owner", "", "")]
    assert await listed(owner, principal="ada") == [at_module, here], "the role in c is none of olga's business"
    assert await listed(root, principal="ada") == [at_module, here, ("ada", "viewer", "c", "root")]
    assert await listed(root, principal="nobody") == []
    viewer = await client_of(server, ada)
    for path, status in (("a/b", 403), ("a", 404), ("missing", 404)):
        answer = await viewer.get("/api/v1/roles", params={"path": path})
        assert answer.status_code == status, path
    assert (await root.get("/api/v1/roles", params={"path": "a", "principal": "ada"})).status_code == 400


@pytest.mark.feature("X3.roles")
async def test_a_role_that_expires_ends_by_itself_in_requests_and_in_lists(
    server: IdentityServer, clock: ShiftedClock
) -> None:
    await server.group("a")
    root = await client_of(server, await server.user("root", Role.OWNER))
    ada = await server.user("ada")
    assert await granted(root, "ada", "owner", "a", expires_in_days=3) == 201
    client = await client_of(server, ada)
    assert (await client.get("/api/v1/service-accounts", params={"group": "a"})).status_code == 200
    assert len((await client.get("/api/v1/roles")).json()["items"]) == 1
    assert (await client.get("/api/v1/me")).json()["roles"][0]["expires_at"] is not None
    clock.advance(3 * DAY_SECONDS)
    assert (await client.get("/api/v1/service-accounts", params={"group": "a"})).status_code == 404
    assert (await client.get("/api/v1/roles")).json()["items"] == []
    assert (await client.get("/api/v1/me")).json()["roles"] == []
    assert len((await root.get("/api/v1/roles")).json()["items"]) == 1
    assert await granted(root, "ada", "viewer", "a") == 201
    answer = (await root.get("/api/v1/roles", params={"principal": "ada"})).json()["items"]
    assert [(role["role"], role["expires_at"]) for role in answer] == [("viewer", None)], (
        "a new grant replaces all of it"
    )


@pytest.mark.feature("X3.roles")
async def test_an_expired_role_is_removed_recorded_and_ends_the_streams_of_its_principal(
    server: IdentityServer, clock: ShiftedClock
) -> None:
    root = await client_of(server, await server.user("root", Role.OWNER))
    ada = await server.user("ada")
    assert await granted(root, "ada", "viewer", expires_in_days=1) == 201
    chore = RoleExpiry(server.db)
    assert await chore.step() == 0
    clock.advance(DAY_SECONDS + 1)
    with server.db.listen("roles") as wakeups:
        assert await chore.step() == 1
        assert await wakeups.get(5) == {("roles", ada.id)}
    assert await chore.step() == 0
    newest = (await root.get("/api/v1/audit", params={"action": "role.expire"})).json()["items"]
    assert [(entry["actor_kind"], entry["details"]["principal"]) for entry in newest] == [("system", ada.id)]


@pytest.mark.feature("X3.roles")
async def test_a_role_that_ends_cannot_be_made_to_last_by_granting(server: IdentityServer) -> None:
    await server.group("a")
    root = await client_of(server, await server.user("root", Role.OWNER))
    ada = await server.user("ada")
    await server.user("eve")
    assert await granted(root, "ada", "owner", "a", expires_in_days=5) == 201
    client = await client_of(server, ada)
    assert await granted(client, "eve", "owner", "a", expires_in_days=6) == 403
    assert await granted(client, "eve", "viewer", "a") == 201
    assert await granted(client, "ada", "owner", "a") == 201
    items = (await client.get("/api/v1/roles")).json()["items"]
    assert len({item["expires_at"] for item in items}) == 1
    assert all(item["expires_at"] for item in items), "they end when the grant ends by which they were made"
    assert await granted(root, "eve", "viewer", "a", expires_in_days=0) == 400


@pytest.mark.feature("X3.roles")
async def test_nobody_grants_more_than_they_have_or_elsewhere_also_no_service_account(server: IdentityServer) -> None:
    await server.group("a")
    await server.group("b")
    root = await client_of(server, await server.user("root", Role.OWNER))
    account, secret_id, secret = await server.account("ci", "a")
    assert secret_id
    assert await granted(root, "a/ci", "owner", "a") == 201, "an account can be named by its path"
    eve = await server.user("eve", Role.APPROVER)
    token = (await server.exchange(f"{server.organization_id}:{account}", secret)).json()["access_token"]
    machine, approver = server.client(token), await client_of(server, eve)
    for role in Role:
        assert await granted(approver, "eve", role.value, "a") == 403
    assert await granted(machine, "eve", "viewer", "a") == 201, "an owner, also a program, manages its own place"
    assert await granted(machine, "eve", "viewer", "b") == 404
    assert await granted(machine, "eve", "owner", "") == 403
    assert await granted(machine, account, "owner", "") == 403
    for path, body in (("/users", {"name": "x"}), ("/users", {"name": "x", "is_system_admin": True})):
        assert (await machine.post(f"/api/v1{path}", json=body)).status_code == 403
    assert (await machine.get("/api/v1/users")).status_code == 403


@pytest.mark.feature("X3.roles")
async def test_a_user_of_another_organization_gets_a_first_role_from_an_administrator_only(
    server: IdentityServer,
) -> None:
    elsewhere = await server.organization("elsewhere")
    guest = await server.user("guest", Role.OWNER, organization_id=elsewhere)
    owner = await client_of(server, await server.user("olga", Role.OWNER))
    admin = await client_of(server, await server.user("root", is_system_admin=True))
    for name in ("guest", guest.id, "nobody"):
        answer = await owner.post("/api/v1/roles", json={"principal": name, "role": "viewer"})
        assert (answer.status_code, answer.json()["detail"]) == (
            404,
            f"there is no user and no service account {name!r} here",
        )
    assert await granted(admin, "guest", "viewer") == 201
    assert await granted(owner, "guest", "operator") == 201, "the guest is known here now"
