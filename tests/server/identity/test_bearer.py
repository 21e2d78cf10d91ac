"""API tokens of people and the credentials of attempts are recognized in one place, and end when they should."""

import pytest

from terracrew.api.access import Role
from terracrew.errors import Unauthenticated
from terracrew.protocol.messages import AttemptRef
from terracrew.server.db import Tx
from terracrew.server.identity.access import users
from terracrew.server.identity.bearer import principal_from_bearer
from terracrew.server.identity.people import service, store
from tests.builders.clock import ShiftedClock
from tests.builders.deliveries import DONE, delivery
from tests.builders.job_rows import change_jobs
from tests.server.identity.identity_server import IdentityServer


async def is_valid(server: IdentityServer, token: str) -> bool:
    try:
        await principal_from_bearer(server.identity, token)
    except Unauthenticated:
        return False
    return True


async def test_an_api_token_acts_as_its_owner_until_it_is_revoked(server: IdentityServer) -> None:
    who = await server.user("vera", Role.VIEWER)
    token, secret = await service.create_token(server.db, who, "script", None)
    assert secret.text.startswith("tcu_")
    assert len(secret.text) == 47
    found = await principal_from_bearer(server.identity, secret.text)
    assert (found.kind, found.id, found.credential_id) == ("user", who.id, token.id)
    await server.db.write(lambda tx: service.revoke_token(tx, who, token.id))
    assert not await is_valid(server, secret.text)


async def test_an_api_token_ends_at_its_time_and_sleeps_while_its_owner_is_disabled(
    server: IdentityServer, clock: ShiftedClock
) -> None:
    admin, who = await server.user("root", is_system_admin=True), await server.user("vera")
    _, secret = await service.create_token(server.db, who, "script", 30)
    for is_disabled in (True, False):
        await server.db.write(lambda tx, it=is_disabled: users.set_disabled(tx, admin, who.id, it))
        assert await is_valid(server, secret.text) != is_disabled
    clock.advance(30 * 86_400)
    assert not await is_valid(server, secret.text)


async def test_the_last_use_is_kept_coarsely(server: IdentityServer, clock: ShiftedClock) -> None:
    who = await server.user("vera")
    _, secret = await service.create_token(server.db, who, "script", None)

    async def last_use(tx: Tx) -> float | None:
        used = (await store.tokens(tx, who.id, "", 1))[0].last_used_at
        return used and used.timestamp()

    assert await server.db.read(last_use) is None
    await principal_from_bearer(server.identity, secret.text)
    first = await server.db.read(last_use)
    await principal_from_bearer(server.identity, secret.text)
    assert first is not None
    assert await server.db.read(last_use) == first, "a second use just after the first writes nothing"
    clock.advance(700)
    await principal_from_bearer(server.identity, secret.text)
    assert (await server.db.read(last_use) or 0) >= first + 700


async def test_nothing_but_hashes_is_stored(server: IdentityServer) -> None:
    who = await server.user("vera")
    _, secret = await service.create_token(server.db, who, "script", None)
    row = await server.db.read(lambda tx: tx.one("SELECT * FROM api_tokens"))
    assert row is not None
    assert secret.text not in str(dict(row))


@pytest.mark.feature("X4.engine")
async def test_an_attempts_credentials_name_their_attempt_and_tell_executor_from_engine(server: IdentityServer) -> None:
    job, hub, key = await server.attempt()
    for token, kind in ((hub, "executor"), (key, "engine")):
        found = await principal_from_bearer(server.identity, token)
        assert found.kind == kind
        assert found.attempt is not None
        assert (found.attempt.job_id, found.attempt.attempt, found.attempt.module_path) == (job, 1, "net")
        assert found.organization_id == found.attempt.organization_id == server.organization_id
    assert not await is_valid(server, key.replace("tcj_", "tch_"))
    assert not await is_valid(server, hub.replace("tch_", "tcj_"))


@pytest.mark.feature("X4.engine")
@pytest.mark.parametrize("has_ended", [True, False])
async def test_the_engines_token_ends_with_its_attempt_and_the_hub_credential_may_still_deliver(
    server: IdentityServer, has_ended: bool
) -> None:
    job, hub, key = await server.attempt()
    if has_ended:
        await server.rows.take(delivery(AttemptRef(job, 1), 2, DONE))
    else:
        await change_jobs(server.db, job, attempt=2)
    assert not await is_valid(server, key)
    assert await is_valid(server, hub)


@pytest.mark.feature("X4.engine")
async def test_the_engines_token_cannot_write_or_look_around_over_the_api(server: IdentityServer) -> None:
    _, _, key = await server.attempt()
    async with server.client(key) as client:
        assert (await client.get("/api/v1/me")).json()["kind"] == "engine"
        answers = [
            await client.post("/api/v1/tokens", json={"name": "x"}),
            await client.get("/api/v1/tokens"),
            await client.post("/api/v1/users", json={"name": "x"}),
            await client.get("/api/v1/users"),
            await client.post("/api/v1/service-accounts", json={"name": "x"}),
            await client.get("/api/v1/service-accounts"),
            await client.get("/api/v1/audit"),
            await client.post("/api/v1/roles", json={"principal": "x", "role": "owner"}),
        ]
        assert {answer.status_code for answer in answers} <= {403, 404}
        assert (await client.get("/api/v1/roles")).json()["items"] == []
