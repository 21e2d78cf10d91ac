"""Failed logins and token exchanges leave a trace, and cannot fill the disk."""

from typing import Any

import pytest

from terracrew.errors import RateLimited, Unauthenticated
from terracrew.server.audit import failures
from terracrew.server.identity.people import logins, service
from terracrew.server.principals.model import Role
from tests.server.identity.world import World


async def entries(world: World) -> list[dict[str, Any]]:
    await world.identity.failures.step()
    admin = await world.user("root", is_system_admin=True)
    async with world.client(await world.token(admin)) as client:
        found = (await client.get("/api/v1/audit")).json()["items"]
    return [entry for entry in found if entry["action"].endswith(".fail")]


async def test_failed_logins_are_one_entry_for_each_address_and_name(world: World) -> None:
    """90 failed logins left no log line and no entry in the audit."""
    vera = await world.user("vera")
    for address, count in (("192.0.2.1", 12), ("2001:db8::1", 2), ("2001:db8::2", 1)):
        for _ in range(count):
            with pytest.raises((Unauthenticated, RateLimited)):
                await logins.login(world.identity, "vera", "wrong", address)
    found = {entry["address"]: entry for entry in await entries(world)}
    assert {address: entry["details"]["count"] for address, entry in found.items()} == {
        "192.0.2.1": 12,
        "2001:db8::/64": 3,
    }
    first = found["192.0.2.1"]
    assert (first["action"], first["target_kind"], first["target_id"]) == ("login.fail", "user", vera.id)
    assert (first["actor_kind"], first["details"]["limited"]) == ("anonymous", 2)
    assert await world.identity.failures.step() == 0, "they are written once"


async def test_a_password_that_was_typed_as_a_name_is_not_kept(world: World) -> None:
    with pytest.raises(Unauthenticated):
        await logins.login(world.identity, "hunter2hunter2", "x", "192.0.2.1")
    async with world.client() as client:
        form = {"grant_type": "client_credentials", "client_id": "my-secret", "client_secret": "x"}
        assert (await client.post("/connect/token", data=form)).status_code == 401
    found = await entries(world)
    assert {entry["action"]: entry["target_id"] for entry in found} == {"login.fail": "", "token_exchange.fail": ""}
    assert "hunter2" not in str(found)
    assert "my-secret" not in str(found)


async def test_failed_exchanges_and_links_name_their_address_and_the_client(world: World) -> None:
    account, _, _ = await world.account()
    runner, _ = await world.runner(world.organization_id)
    for client_id in (account, runner):
        async with world.client(address="192.0.2.9") as client:
            form = {"grant_type": "client_credentials", "client_id": f"default:{client_id}", "client_secret": "tcs_x"}
            assert (await client.post("/connect/token", data=form)).status_code == 401
    with pytest.raises(Unauthenticated):
        await service.link_owner(world.identity, "tcl_x", "192.0.2.9")
    found = await entries(world)
    assert {(entry["action"], entry["target_kind"], entry["target_id"], entry["address"]) for entry in found} == {
        ("token_exchange.fail", "service_account", account, "192.0.2.9"),
        ("token_exchange.fail", "runner", runner, "192.0.2.9"),
        ("link.fail", "", "", "192.0.2.9"),
    }
    owner = await world.user("olga", Role.OWNER)
    async with world.client(await world.token(owner)) as client:
        seen = (await client.get("/api/v1/audit")).json()["items"]
    assert {entry["target_id"] for entry in seen if entry["action"].endswith(".fail")} == {account, runner}


async def test_failures_from_very_many_addresses_are_a_bounded_number_of_entries(world: World) -> None:
    for number in range(1000):
        world.identity.failures.note("login.fail", f"10.0.{number // 250}.{number % 250}")
    assert await world.identity.failures.step() == failures.MAX_ENTRIES_PER_WINDOW + 1
    found = {entry["address"]: entry["details"]["count"] for entry in await entries(world)}
    assert found[failures.OTHERS] == 1000 - failures.MAX_ENTRIES_PER_WINDOW


async def test_every_entry_has_the_address_and_the_credential_that_it_came_by(world: World) -> None:
    owner = await world.user("olga", Role.OWNER)
    token = await world.token(owner)
    async with world.client(token, address="192.0.2.7") as client:
        assert (await client.post("/api/v1/service-accounts", json={"name": "ci"})).status_code == 201
        [used] = (await client.get("/api/v1/tokens")).json()["items"]
        entry = next(
            entry
            for entry in (await client.get("/api/v1/audit")).json()["items"]
            if entry["action"] == "service_account.create"
        )
    assert (entry["address"], entry["credential_id"]) == ("192.0.2.7", used["id"])


async def test_a_session_remembers_where_it_began(world: World) -> None:
    vera = await world.user("vera")
    link = await service.make_link(world.db, vera.id)
    session = await service.redeem_link(world.identity, link, "192.0.2.3", "a long enough one")
    row = await world.db.read(lambda tx: tx.one("SELECT address FROM sessions WHERE id = :id", id=session.id))
    assert row is not None
    assert row["address"] == "192.0.2.3"
    rows = await world.db.read(
        lambda tx: tx.all("SELECT action, address FROM audit WHERE target_id = :id", id=session.id)
    )
    assert [(row["action"], row["address"]) for row in rows] == [("session.start", "192.0.2.3")]
