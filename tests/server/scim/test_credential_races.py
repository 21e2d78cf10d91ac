"""A person is deactivated while something with which they could act is being made. Invariant: nothing of it is left, so that none comes
back when the person does."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from terracrew.errors import Conflict, Unauthenticated
from terracrew.server.db.seam import Tx
from terracrew.server.identity.people import logins, service, sessions
from terracrew.server.identity.people import store as people
from terracrew.server.principals.model import SYSTEM
from terracrew.server.secrets import credentials
from tests.server.application import Application
from tests.server.scim.conftest import Directory

pytestmark = pytest.mark.feature("P1.scim")
REPLACED = {"op": "replace", "path": "active", "value": False}
LEFT = """SELECT (SELECT count(*) FROM api_tokens WHERE user_id = :id) + (SELECT count(*) FROM one_time_links WHERE user_id = :id)
    + (SELECT count(password_hash) FROM users WHERE id = :id) AS found"""
Making = Callable[[Tx], Awaitable[object]]


async def making(application: Application, user_id: str, what: str) -> Making:
    user = await application.server.db.read(lambda tx: people.user(tx, user_id))
    who = sessions.person(user, None)
    makings: dict[str, Making] = {
        "token": lambda tx: service.make_token(tx, who, "laptop", None, credentials.new("tcu")),
        "link": lambda tx: service.link_user(tx, user, credentials.new("tcl"), SYSTEM),
        "password": lambda tx: logins.store_password(tx, user, "a hash", who),
    }
    return makings[what]


@pytest.mark.parametrize("database_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True)
@pytest.mark.parametrize("what", ["token", "link", "password"])
async def test_what_is_made_while_somebody_is_deactivated_ends_too(
    application: Application, directory: Directory, what: str
) -> None:
    person = await directory.person("grace@example.com")
    work, begun = await making(application, person["id"], what), asyncio.Event()

    async def slowly(tx: Tx) -> None:
        await work(tx)
        begun.set()
        await asyncio.wait(
            {deactivating}, timeout=0.3
        )  # it does what it can, and then has to wait for this transaction

    async def deactivate() -> None:
        await begun.wait()
        await directory.patched(f"Users/{person['id']}", REPLACED)

    deactivating = asyncio.create_task(deactivate())
    await asyncio.gather(application.server.db.write(slowly), deactivating)
    assert await application.scalar(LEFT, id=person["id"]) == 0


@pytest.mark.parametrize("what", ["token", "link", "password"])
async def test_nothing_is_made_for_somebody_who_is_deactivated(
    application: Application, directory: Directory, what: str
) -> None:
    person = await directory.person("grace@example.com")
    work = await making(application, person["id"], what)
    await directory.patched(f"Users/{person['id']}", REPLACED)
    with pytest.raises((Unauthenticated, Conflict), match="disabled"):
        await application.server.db.write(work)
    assert await application.scalar(LEFT, id=person["id"]) == 0
