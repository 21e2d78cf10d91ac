"""Service accounts are shown with what uses them, renamed, disabled and enabled by those who manage their group."""

import asyncio

import httpx
import pytest

from terracrew.api.access import Role
from terracrew.server.identity.access import store
from tests.builders.job_rows import change_runners
from tests.builders.transactions import held_open, until_blocked
from tests.server.hub.hub_clients import on_postgres
from tests.server.identity.identity_server import IdentityServer


async def as_user(server: IdentityServer, name: str, role: Role | None = None, path: str = "") -> httpx.AsyncClient:
    return server.client(await server.token(await server.user(name, role, path)))


@pytest.mark.feature("X3.people")
async def test_a_disabled_account_gets_no_token_and_loses_those_that_it_has(server: IdentityServer) -> None:
    await server.group("a")
    account, _, secret = await server.account("ci", "a")
    owner = await as_user(server, "olga", Role.OWNER, "a")
    client_id = f"{server.organization_id}:{account}"
    token = (await server.exchange(client_id, secret)).json()["access_token"]
    program = server.client(token)
    assert (await program.get("/api/v1/me")).status_code == 200
    address = f"/api/v1/service-accounts/{account}"
    assert (await owner.patch(address, json={"is_disabled": True})).json()["is_disabled"] is True
    server.identity.tokens.forget(account)  # the loop that listens to wake-ups does not run here
    assert (await program.get("/api/v1/me")).status_code == 401
    assert (await server.exchange(client_id, secret)).status_code == 401
    assert (await owner.patch(address, json={"is_disabled": False})).status_code == 200
    assert (await server.exchange(client_id, secret)).status_code == 200
    actions = [entry["action"] for entry in (await owner.get("/api/v1/audit", params={"path": "a"})).json()["items"]]
    assert {"service_account.disable", "service_account.enable"} <= set(actions)


@on_postgres
async def test_a_rename_does_not_enable_an_account_that_is_disabled_at_the_same_time(server: IdentityServer) -> None:
    """The rename wrote all that it had read, so the secrets of the account were accepted again."""
    account, _, secret = await server.account("ci")
    owner = await as_user(server, "olga", Role.OWNER)
    async with held_open(server.db, lambda tx: store.set_account_disabled(tx, account, True)):
        renamed = asyncio.create_task(owner.patch(f"/api/v1/service-accounts/{account}", json={"name": "cd"}))
        await until_blocked(server.db)
    assert (await renamed).status_code == 200
    assert (await server.exchange(f"{server.organization_id}:{account}", secret)).status_code == 401


@pytest.mark.feature("X3.roles")
async def test_an_account_is_shown_by_id_or_path_with_its_roles_and_runners(server: IdentityServer) -> None:
    await server.group("a")
    account, _, _ = await server.account("ci", "a")
    await server.account("cd", "a")
    runner, _ = await server.runner(server.organization_id)
    await change_runners(server.db, runner, service_account_id=account)
    owner, root = await as_user(server, "olga", Role.OWNER, "a"), await as_user(server, "root", Role.OWNER)
    await owner.post("/api/v1/roles", json={"principal": "a/ci", "role": "operator", "path": "a"})
    for name in (account, "a%2Fci"):
        shown = (await root.get(f"/api/v1/service-accounts/{name}")).json()
        assert [(role["role"], role["path"]) for role in shown["roles"]] == [("operator", "a")]
        assert [each["path"] for each in shown["runners"]] == ["crew"]
    assert (await owner.get(f"/api/v1/service-accounts/{account}")).json()["runners"] == [], "not a runner of olga's"
    assert (await owner.patch("/api/v1/service-accounts/a%2Fci", json={"name": "cd"})).status_code == 409
    assert (await owner.patch("/api/v1/service-accounts/a%2Fci", json={"name": "C D"})).status_code == 400
    assert (await owner.patch("/api/v1/service-accounts/a%2Fci", json={"name": "build"})).json()["name"] == "build"
    stranger, viewer = await as_user(server, "eve"), await as_user(server, "vera", Role.VIEWER, "a")
    missing = (await stranger.get("/api/v1/service-accounts/a%2Fmissing")).json()["detail"].replace("missing", "build")
    answer = await stranger.get("/api/v1/service-accounts/a%2Fbuild")
    assert (answer.status_code, answer.json()["detail"]) == (404, missing)
    for name in (account, "a%2Fbuild", "a%2Fmissing"):
        assert (await viewer.get(f"/api/v1/service-accounts/{name}")).status_code in (403, 404)
        assert (await viewer.patch(f"/api/v1/service-accounts/{name}", json={"name": "x"})).status_code in (403, 404)
