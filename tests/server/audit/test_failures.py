"""Failed logins and token exchanges leave a trace, and cannot fill the disk."""

from typing import Any

import pytest

from terracrew.api.access import Role
from terracrew.errors import RateLimited, Unauthenticated
from terracrew.server.audit import failures
from terracrew.server.identity.people import logins, service
from tests.server.identity.identity_server import IdentityServer


async def entries(server: IdentityServer) -> list[dict[str, Any]]:
    await server.identity.failures.step()
    admin = await server.user("root", is_system_admin=True)
    async with server.client(await server.token(admin)) as client:
        found = (await client.get("/api/v1/audit")).json()["items"]
    return [entry for entry in found if entry["action"].endswith(".fail")]


async def test_failed_logins_are_one_entry_for_each_address_and_name(server: IdentityServer) -> None:
    """90 failed logins left no log line and no entry in the audit."""
    vera = await server.user("vera")
    for address, count in (("192.0.2.1", 12), ("2001:db8::1", 2), ("2001:db8::2", 1)):
        for _ in range(count):
            with pytest.raises((Unauthenticated, RateLimited)):
                await logins.login(server.identity, "vera", "wrong", address)
    found = {entry["address"]: entry for entry in await entries(server)}
    assert {address: entry["details"]["count"] for address, entry in found.items()} == {
        "192.0.2.1": 12,
        "2001:db8::/64": 3,
    }
    first = found["192.0.2.1"]
    assert (first["action"], first["target_kind"], first["target_id"]) == ("login.fail", "user", vera.id)
    assert (first["actor_kind"], first["details"]["limited"]) == ("anonymous", 2)
    assert await server.identity.failures.step() == 0, "they are written once"


async def test_a_password_that_was_typed_as_a_name_is_not_kept(server: IdentityServer) -> None:
    with pytest.raises(Unauthenticated):
        await logins.login(server.identity, "hunter2hunter2", "x", "192.0.2.1")
    assert (await server.exchange("my-secret", "x")).status_code == 401
    found = await entries(server)
    assert {entry["action"]: entry["target_id"] for entry in found} == {"login.fail": "", "token_exchange.fail": ""}
    assert "hunter2" not in str(found)
    assert "my-secret" not in str(found)


async def test_failed_exchanges_and_links_name_their_address_and_the_client(server: IdentityServer) -> None:
    account, _, _ = await server.account()
    runner, _ = await server.runner(server.organization_id)
    for client_id in (account, runner):
        assert (await server.exchange(f"default:{client_id}", "tcs_x", address="192.0.2.9")).status_code == 401
    with pytest.raises(Unauthenticated):
        await service.link_owner(server.identity, "tcl_x", "192.0.2.9")
    found = await entries(server)
    assert {(entry["action"], entry["target_kind"], entry["target_id"], entry["address"]) for entry in found} == {
        ("token_exchange.fail", "service_account", account, "192.0.2.9"),
        ("token_exchange.fail", "runner", runner, "192.0.2.9"),
        ("link.fail", "", "", "192.0.2.9"),
    }
    owner = await server.user("olga", Role.OWNER)
    async with server.client(await server.token(owner)) as client:
        seen = (await client.get("/api/v1/audit")).json()["items"]
    assert {entry["target_id"] for entry in seen if entry["action"].endswith(".fail")} == {account, runner}


async def test_failures_from_very_many_addresses_are_a_bounded_number_of_entries(server: IdentityServer) -> None:
    for number in range(1000):
        server.identity.failures.note("login.fail", f"10.0.{number // 250}.{number % 250}")
    assert await server.identity.failures.step() == failures.MAX_ENTRIES_PER_WINDOW + 1
    found = {entry["address"]: entry["details"]["count"] for entry in await entries(server)}
    assert found[failures.OTHERS] == 1000 - failures.MAX_ENTRIES_PER_WINDOW


async def test_every_entry_has_the_address_and_the_credential_that_it_came_by(server: IdentityServer) -> None:
    owner = await server.user("olga", Role.OWNER)
    token = await server.token(owner)
    async with server.client(token, address="192.0.2.7") as client:
        assert (await client.post("/api/v1/service-accounts", json={"name": "ci"})).status_code == 201
        [used] = (await client.get("/api/v1/tokens")).json()["items"]
        entry = next(
            entry
            for entry in (await client.get("/api/v1/audit")).json()["items"]
            if entry["action"] == "service_account.create"
        )
    assert (entry["address"], entry["credential_id"]) == ("192.0.2.7", used["id"])


async def test_a_session_remembers_where_it_began(server: IdentityServer) -> None:
    vera = await server.user("vera")
    link = await service.make_link(server.db, vera.id)
    session = await service.redeem_link(server.identity, link, "192.0.2.3", "a long enough one")
    row = await server.db.read(lambda tx: tx.one("SELECT address FROM sessions WHERE id = :id", id=session.id))
    assert row is not None
    assert row["address"] == "192.0.2.3"
    rows = await server.db.read(
        lambda tx: tx.all("SELECT action, address FROM audit WHERE target_id = :id", id=session.id)
    )
    assert [(row["action"], row["address"]) for row in rows] == [("session.start", "192.0.2.3")]
