"""Every change leaves an entry in the audit log, and only those who may read it do."""

import pytest

from terracrew.api.access import Role
from terracrew.api.audit import Entry
from terracrew.errors import Conflict
from terracrew.server.audit import reads
from terracrew.server.audit import service as audit
from terracrew.server.db import Tx
from terracrew.server.principals.model import SYSTEM
from terracrew.server.secrets import credentials
from tests.server.identity.identity_server import IdentityServer


async def entries(server: IdentityServer) -> list[Entry]:
    wanted = reads.EntryFilter(server.organization_id)
    return (await server.db.read(lambda tx: reads.page(tx, wanted, "", 1000))).entries


@pytest.mark.feature("X3.audit")
async def test_a_change_and_its_record_are_there_together_or_not_at_all(server: IdentityServer) -> None:
    who = await server.user("vera")

    async def work(tx: Tx) -> None:
        await audit.record(tx, who, "thing.change", "thing", "thing_1", {"path": "a/b"})
        raise Conflict("after all not")

    with pytest.raises(Conflict):
        await server.db.write(work)
    assert await entries(server) == []
    await server.db.write(lambda tx: audit.record(tx, who, "thing.change", "thing", "thing_1", {"path": "a/b"}))
    (entry,) = await entries(server)
    assert (entry.actor_id, entry.actor_name, entry.action, entry.target_id) == (
        who.id,
        "vera",
        "thing.change",
        "thing_1",
    )
    assert entry.details == {"path": "a/b"}


async def test_a_secret_that_slips_into_the_details_is_struck_out(server: IdentityServer) -> None:
    secrets = [
        credentials.new(prefix).text for prefix in ("tcu", "tcs", "tcw", "tco", "tch", "tcj", "tcl", "tcd", "tca")
    ]
    details = {"nested": [{"header": f"Bearer {secret}"} for secret in secrets], secrets[0]: 1}
    await server.db.write(
        lambda tx: audit.record(tx, SYSTEM, "x", "y", "z", details, organization_id=server.organization_id)
    )
    row = await server.db.read(lambda tx: tx.one("SELECT details FROM audit"))
    assert row is not None
    assert not any(secret in row["details"] for secret in secrets)
    assert row["details"].count("(secret)") == len(secrets) + 1


@pytest.mark.feature("X3.audit")
async def test_every_change_of_access_leaves_a_line_and_no_secret(server: IdentityServer) -> None:
    client = server.client(await server.local_token(await server.user("olga", Role.OWNER)))
    token = (await client.post("/api/v1/tokens", json={"name": "t"})).json()
    account = (await client.post("/api/v1/service-accounts", json={"name": "ci"})).json()
    secret = (await client.post(f"/api/v1/service-accounts/{account['id']}/secrets")).json()
    user = (await client.post("/api/v1/users", json={"name": "ann"})).json()
    role = (await client.post("/api/v1/roles", json={"principal": "ann", "role": "viewer"})).json()
    await client.delete(f"/api/v1/roles/{role['id']}")
    await client.patch(f"/api/v1/users/{user['user']['id']}", json={"is_disabled": True})
    await client.delete(f"/api/v1/service-accounts/{account['id']}/secrets/{secret['id']}")
    await client.delete(f"/api/v1/service-accounts/{account['id']}")
    await client.delete(f"/api/v1/tokens/{token['id']}")
    answer = await client.get("/api/v1/audit")
    assert [entry["action"] for entry in reversed(answer.json()["items"])] == [
        "token.create",
        "token.create",
        "service_account.create",
        "service_account.add_secret",
        "user.create",
        "user.link",
        "role.grant",
        "role.revoke",
        "user.disable",
        "service_account.revoke_secret",
        "service_account.delete",
        "token.revoke",
    ]
    for shown in (token["token"], secret["client_secret"], user["link"].rpartition("/")[2]):
        assert shown not in answer.text


async def test_the_log_is_read_newest_first_page_by_page_and_by_target(server: IdentityServer) -> None:
    who = await server.user("olga", Role.OWNER)
    client = server.client(await server.token(who))

    async def work(tx: Tx) -> None:
        for number in range(10):
            await audit.record(tx, who, f"n{number}", "thing", f"thing_{number % 2}")

    await server.db.write(work)
    seen: list[str] = []
    after = None
    while True:
        page = (await client.get("/api/v1/audit", params={"limit": 4} | ({"after": after} if after else {}))).json()
        seen += [entry["action"] for entry in page["items"]]
        after = page["next"]
        if after is None:
            break
    assert seen == [*(f"n{number}" for number in range(9, -1, -1)), "token.create"]
    odd = (await client.get("/api/v1/audit", params={"target": "thing_1"})).json()["items"]
    assert [entry["action"] for entry in odd] == ["n9", "n7", "n5", "n3", "n1"]


@pytest.mark.feature("X3.audit")
async def test_only_owners_of_the_organization_read_it_and_each_organization_its_own(server: IdentityServer) -> None:
    for role, status in ((Role.OWNER, 200), (Role.APPROVER, 403), (Role.VIEWER, 403)):
        client = server.client(await server.token(await server.user(role.value, role)))
        assert (await client.get("/api/v1/audit")).status_code == status
    other = await server.user("eve", Role.OWNER, organization_id=await server.organization("other"))
    items = (await server.client(await server.token(other)).get("/api/v1/audit")).json()["items"]
    assert {entry["actor_name"] for entry in items} == {"eve"}
    admin = await server.user("root", is_system_admin=True)
    items = (await server.client(await server.token(admin)).get("/api/v1/audit")).json()["items"]
    assert {"eve", "owner", "root"} <= {entry["actor_name"] for entry in items}
