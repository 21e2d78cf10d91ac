"""An address that works without a token ends with the token that it was asked for with."""

import msgspec
import pytest

from terracrew.errors import NotFound
from terracrew.server.db.seam import Tx
from terracrew.server.identity.people import sessions, store
from terracrew.server.principals.model import Principal
from terracrew.server.terminals import links
from tests.server.application import Application
from tests.server.terminals.state_client import announced, lock, state, upload, workspace

pytestmark = pytest.mark.feature("K5")


async def test_a_revoked_token_writes_no_state(application: Application) -> None:
    ann = await application.person("ann", "owner")
    module = await workspace(ann)
    await lock(ann, module)
    path = await announced(ann, module, state(1))
    token = (await ann.get("/api/v1/tokens")).json()["items"][0]["id"]
    assert (await ann.delete(f"/api/v1/tokens/{token}")).status_code == 204
    assert (await upload(application.stranger(), path, state(1))).status_code == 404
    assert await application.scalar("SELECT count(*) FROM states") == 0


async def test_the_address_of_a_session_ends_with_the_session(application: Application) -> None:
    ann = (await application.person("ann", "owner")).principal

    async def begin(tx: Tx) -> Principal:
        session = await sessions.start(tx, await store.user(tx, ann.id))
        return msgspec.structs.replace(ann, credential_id=session.id)

    who = await application.server.db.write(begin)
    await actor(application, who)
    await application.server.db.write(lambda tx: store.delete_sessions_of(tx, ann.id))
    with pytest.raises(NotFound):
        await actor(application, who)


async def test_the_address_of_a_service_account_ends_with_its_secret(application: Application) -> None:
    account = await application.admin.made("/api/v1/service-accounts", {"name": "ci"})
    secret = await application.admin.made(f"/api/v1/service-accounts/{account['id']}/secrets", {})
    who = Principal("service_account", account["id"], "ci", account["organization_id"], credential_id=secret["id"])
    await actor(application, who)
    await application.admin.delete(f"/api/v1/service-accounts/{account['id']}/secrets/{secret['id']}")
    with pytest.raises(NotFound):
        await actor(application, who)


async def actor(application: Application, who: Principal) -> None:
    sealed = links.for_caller(application.server.keys, who, "plan", "job_1", 0.0)
    link = links.opened(application.server.keys, sealed, ("plan",), 1.0)
    found = await application.server.db.read(lambda tx: links.actor(tx, link))
    assert (found.id, found.credential_id) == (who.id, who.credential_id)
