"""The administrator's token in the data directory expires, and is renewed before that."""

import asyncio

import pytest

from terracrew.server.db.seam import Tx
from terracrew.server.identity.people.service import link_owner, make_link, renew_first_link
from terracrew.server.maintenance import local_token
from tests.builders.clock import ShiftedClock
from tests.builders.job_rows import change_users
from tests.server.application import Application, on_one


def token_of(application: Application) -> str:
    return (application.server.settings.directory / local_token.FILE_NAME).read_text()


async def status(application: Application, token: str) -> int:
    async with application.stranger() as client:
        return (await client.get("/api/v1/me", headers={"Authorization": f"Bearer {token}"})).status_code


async def owner_of_token(application: Application) -> str:
    async with application.stranger() as client:
        headers = {"Authorization": f"Bearer {token_of(application)}"}
        return (await client.get("/api/v1/me", headers=headers)).json()["name"]


@on_one
async def test_it_is_kept_while_it_is_fresh_and_replaced_before_it_ends(
    application: Application, clock: ShiftedClock
) -> None:
    """`admin.token` never ended."""
    assert await local_token.renew(application.server)
    first = token_of(application)
    assert not await local_token.renew(application.server)
    clock.advance(302_401)
    assert await local_token.renew(application.server)
    assert token_of(application) != first
    assert [await status(application, token) for token in (first, token_of(application))] == [200, 200], (
        "commands may still use it"
    )
    ends = await application.scalar("SELECT max(expires_at - created_at) FROM api_tokens WHERE is_local")
    assert ends <= local_token.LIFETIME_SECONDS + 60


@on_one
async def test_it_is_replaced_at_once_when_it_was_revoked(application: Application) -> None:
    running = asyncio.create_task(local_token.run(application.server))
    try:
        async with asyncio.timeout(10):
            file = application.server.settings.directory / local_token.FILE_NAME
            while not file.exists():
                await asyncio.sleep(0.01)
            before = token_of(application)

            async def revoke(tx: Tx) -> None:
                await tx.run("DELETE FROM api_tokens WHERE is_local")
                tx.wake("access", "")

            await application.server.db.write(revoke)
            while token_of(application) == before:
                await asyncio.sleep(0.01)
    finally:
        running.cancel()
    assert await status(application, token_of(application)) == 200
    with pytest.raises(asyncio.CancelledError):
        await running


@on_one
async def test_it_is_that_of_an_administrator_whatever_became_of_the_first_one(application: Application) -> None:
    """A server whose first administrator was renamed or deleted did not start again: it looked for somebody named `admin`."""
    await application.admin.made("/api/v1/users", {"name": "root"})
    db = application.server.db
    await change_users(db, "root", is_system_admin=True)
    assert await local_token.renew(application.server)
    await change_users(db, "admin", name="first")
    assert not await local_token.renew(application.server), "a new name changes nothing"
    await application.person("admin", "owner")
    assert await owner_of_token(application) == "first"
    await change_users(db, "first", is_disabled=True)
    assert await local_token.renew(application.server)
    assert await owner_of_token(application) == "root", "a name that became free gives nobody the server's token"
    user = await link_owner(application.server.identity, await make_link(db), "a")
    assert user.name == "root"
    await db.write(lambda tx: tx.run("DELETE FROM users WHERE name = 'first'"))
    assert await renew_first_link(db) is not None
    assert not await local_token.renew(application.server)
