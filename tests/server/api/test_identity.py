"""A program creates tokens, people, service accounts and roles through the API, each within its rights."""

from typing import Any

import httpx
import pytest

from terracrew.api.access import Role
from tests.builders.job_rows import change_runners
from tests.server.identity.identity_server import URL, IdentityServer


async def as_user(
    server: IdentityServer, name: str, role: Role | None = None, path: str = "", **more: Any
) -> httpx.AsyncClient:
    return server.client(await server.token(await server.user(name, role, path, **more)))


async def test_a_token_is_shown_once_listed_by_pages_and_revoked(server: IdentityServer) -> None:
    client = await as_user(server, "vera")
    made = [
        (await client.post("/api/v1/tokens", json={"name": f"t{n}", "expires_in_days": 7})).json() for n in range(3)
    ]
    assert (await server.client(made[0]["token"]).get("/api/v1/me")).json()["name"] == "vera"
    answer = await client.post("/api/v1/tokens", json={"name": "t0"})
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    page = (await client.get("/api/v1/tokens", params={"limit": 3})).json()
    rest = (await client.get("/api/v1/tokens", params={"limit": 3, "after": page["next"]})).json()
    listed = page["items"] + rest["items"]
    assert rest["next"] is None
    assert [token["name"] for token in listed][1:] == ["t0", "t1", "t2"]
    assert all(made_token["token"] not in str(listed) for made_token in made)
    assert listed[1]["expires_at"].endswith("Z")
    assert (await client.delete(f"/api/v1/tokens/{made[0]['id']}")).status_code == 204
    assert (await server.client(made[0]["token"]).get("/api/v1/me")).status_code == 401
    other = await as_user(server, "mallory", Role.OWNER)
    assert (await other.delete(f"/api/v1/tokens/{made[1]['id']}")).status_code == 404


@pytest.mark.parametrize(
    "body", [{}, {"name": ""}, {"name": 1}, {"name": "x", "admin": True}, {"name": "x", "expires_in_days": 0}, [], "x"]
)
async def test_a_body_that_makes_no_sense_changes_nothing(server: IdentityServer, body: Any) -> None:
    client = await as_user(server, "vera")
    answer = await client.post("/api/v1/tokens", json=body)
    assert (answer.status_code, answer.headers["Content-Type"]) == (400, "application/problem+json")
    assert len((await client.get("/api/v1/tokens")).json()["items"]) == 1


async def test_me_tells_who_and_with_which_roles(server: IdentityServer) -> None:
    await server.group("a")
    body = (await (await as_user(server, "vera", Role.OPERATOR, "a")).get("/api/v1/me")).json()
    assert (body["kind"], body["name"], body["organization_id"]) == ("user", "vera", server.organization_id)
    assert [(role["path"], role["role"]) for role in body["roles"]] == [("a", "operator")]


@pytest.mark.feature("A1.exchange")
async def test_a_service_account_has_several_secrets_and_each_can_be_revoked(server: IdentityServer) -> None:
    await server.group("a")
    client = await as_user(server, "olga", Role.OWNER, "a")
    answer = await client.post("/api/v1/service-accounts", json={"name": "ci", "group": "a"})
    account = answer.json()
    assert (answer.status_code, account["group"]) == (201, "a")
    address = f"/api/v1/service-accounts/{account['id']}"
    first, second = [(await client.post(f"{address}/secrets")).json() for _ in range(2)]
    assert first["client_id"] == f"{server.organization_id}:{account['id']}"

    async def trade(secret: dict[str, str]) -> httpx.Response:
        return await server.exchange(secret["client_id"], secret["client_secret"])

    token = (await trade(first)).json()["access_token"]
    assert (await server.client(token).get("/api/v1/me")).json()["kind"] == "service_account"
    listed = (await client.get(f"{address}/secrets")).json()["items"]
    assert [secret["last_used_at"] is not None for secret in listed] == [True, False]
    assert first["client_secret"] not in str(listed)
    assert (await client.delete(f"{address}/secrets/{first['id']}")).status_code == 204
    assert [(await trade(each)).status_code for each in (first, second)] == [401, 200]
    assert [(each["name"]) for each in (await client.get("/api/v1/service-accounts?group=a")).json()["items"]] == ["ci"]
    assert (await client.delete(address)).status_code == 204
    assert (await trade(second)).status_code == 401


async def test_a_secret_may_be_given_an_end(server: IdentityServer) -> None:
    account, _, _ = await server.account()
    client = await as_user(server, "olga", Role.OWNER)
    answer = await client.post(f"/api/v1/service-accounts/{account}/secrets", json={"expires_in_days": 1})
    assert answer.json()["expires_at"] is not None


async def test_deleting_a_service_account_takes_it_off_its_runners_and_out_of_its_roles(server: IdentityServer) -> None:
    account, _, _ = await server.account()
    runner, _ = await server.runner(server.organization_id)
    await change_runners(server.db, runner, service_account_id=account)
    client = await as_user(server, "olga", Role.OWNER)
    await client.post("/api/v1/roles", json={"principal": account, "role": "viewer"})
    assert (await client.delete(f"/api/v1/service-accounts/{account}")).status_code == 204
    left = await server.db.read(
        lambda tx: tx.all(
            "SELECT id FROM role_bindings WHERE principal_id = :id"
            " UNION SELECT id FROM runners WHERE service_account_id = :id",
            id=account,
        )
    )
    assert left == []


@pytest.mark.feature("X3.roles")
async def test_an_owner_gives_roles_in_their_own_part_of_the_tree_only(server: IdentityServer) -> None:
    await server.group("a")
    await server.group("b")
    vera = await server.user("vera")
    owner = await as_user(server, "olga", Role.OWNER, "a")
    answer = await owner.post("/api/v1/roles", json={"principal": "vera", "role": "viewer", "path": "a"})
    assert (answer.status_code, answer.json()["principal_id"]) == (201, vera.id)
    raised = (await owner.post("/api/v1/roles", json={"principal": vera.id, "role": "operator", "path": "a"})).json()
    assert (raised["id"], raised["role"]) == (answer.json()["id"], "operator")
    for path, status in (("b", 404), ("", 403), ("a/none", 404)):
        answer = await owner.post("/api/v1/roles", json={"principal": "vera", "role": "viewer", "path": path})
        assert answer.status_code == status
    viewer = server.client(await server.token(vera))
    answer = await viewer.post("/api/v1/roles", json={"principal": "vera", "role": "owner", "path": "a"})
    assert answer.status_code == 403
    assert [role["path"] for role in (await owner.get("/api/v1/roles")).json()["items"]] == ["a", "a"]
    assert (await viewer.get("/api/v1/roles")).json()["items"] == []
    assert (await viewer.delete(f"/api/v1/roles/{raised['id']}")).status_code == 403
    assert (await owner.delete(f"/api/v1/roles/{raised['id']}")).status_code == 204


@pytest.mark.feature("X3.roles")
async def test_a_service_account_has_roles_in_its_own_part_of_the_tree_only(server: IdentityServer) -> None:
    await server.group("a")
    account, _, _ = await server.account("ci", "a")
    owner = await as_user(server, "olga", Role.OWNER)
    assert (
        await owner.post("/api/v1/roles", json={"principal": account, "role": "owner", "path": ""})
    ).status_code == 400
    answer = await owner.post("/api/v1/roles", json={"principal": account, "role": "operator", "path": "a"})
    assert answer.status_code == 201


@pytest.mark.feature("X3.roles", "X4.tenants")
async def test_names_of_people_cannot_be_tried_out_by_who_may_not_administer_them(server: IdentityServer) -> None:
    """A person who exists was answered 403, and one who does not, 404."""
    await server.user("vera")
    stranger = await as_user(server, "mallory")
    for method, what in (("GET", "sessions"), ("GET", "tokens"), ("DELETE", "sessions")):
        known = await stranger.request(method, f"/api/v1/users/vera/{what}")
        unknown = await stranger.request(method, f"/api/v1/users/nobody/{what}")
        assert (known.status_code, known.text) == (unknown.status_code, unknown.text)
    owner = await as_user(server, "olga", Role.OWNER)
    assert (await owner.get("/api/v1/users/nobody/sessions")).status_code == 404
    assert (await stranger.get("/api/v1/users/mallory/tokens")).status_code == 200


@pytest.mark.feature("X3.roles", "X4.tenants")
async def test_nothing_of_another_organization_is_seen_or_touched(server: IdentityServer) -> None:
    account, secret, _ = await server.account()
    vera = await server.user("vera", Role.VIEWER)
    owner = await as_user(server, "olga", Role.OWNER)
    binding = (await owner.get("/api/v1/roles")).json()["items"][0]["id"]
    eve = await as_user(server, "eve", Role.OWNER, organization_id=await server.organization("other"))
    address = f"/api/v1/service-accounts/{account}"
    answers = [
        await eve.get(f"{address}/secrets"),
        await eve.post(f"{address}/secrets"),
        await eve.delete(address),
        await eve.delete(f"{address}/secrets/{secret}"),
        await eve.delete(f"/api/v1/roles/{binding}"),
        await eve.post("/api/v1/roles", json={"principal": "vera", "role": "owner"}),
        await eve.post("/api/v1/roles", json={"principal": account, "role": "owner"}),
        await eve.patch(f"/api/v1/users/{vera.id}", json={"is_disabled": True}),
    ]
    assert [answer.status_code for answer in answers] == [404] * len(answers)
    for path in ("users", "service-accounts", "roles", "audit"):
        assert server.organization_id not in (await eve.get(f"/api/v1/{path}")).text
    assert (await owner.get(f"{address}/secrets")).json()["items"][0]["id"] == secret


async def test_a_new_user_comes_with_a_link(server: IdentityServer) -> None:
    owner = server.client(await server.local_token(await server.user("olga", Role.OWNER)))
    answer = (await owner.post("/api/v1/users", json={"name": "ann"})).json()
    assert answer["link"].startswith(f"{URL}/login/link/tcl_")
    assert [user["name"] for user in (await owner.get("/api/v1/users")).json()["items"]] == ["olga", "ann"]
    assert "password_hash" not in (await owner.get("/api/v1/users")).text
    assert (await owner.post("/api/v1/users", json={"name": "root2", "is_system_admin": True})).status_code == 403
    viewer = await as_user(server, "vera", Role.VIEWER)
    assert (await viewer.post("/api/v1/users", json={"name": "x"})).status_code == 403
    assert (await viewer.get("/api/v1/users")).status_code == 403
