"""Gives the administrator access on the server's machine, without the running server: a token, or a link that logs in once."""

import asyncio

from terracrew.server.db import open_database
from terracrew.server.identity.first_start import first_start
from terracrew.server.identity.people import service as identity
from terracrew.server.identity.people import store as people
from terracrew.server.maintenance import local_token
from terracrew.settings.server import ServerSettings


def admin_token(settings: ServerSettings) -> str:
    """Return an API token of the administrator: with SQLite the one that the server left in the data directory, if there is one."""
    file = settings.directory / local_token.FILE_NAME
    if not settings.is_postgres and file.exists() and (found := file.read_text().strip()):
        return found
    return asyncio.run(_new_token(settings))


async def _new_token(settings: ServerSettings) -> str:
    db = await open_database(settings.database)
    try:
        await first_start(db, settings.organization)
        admin = await db.read(people.administrator)
        lifetime = local_token.LIFETIME_SECONDS
        secret = await identity.create_local_token(db, admin, local_token.unique_name(), lifetime)
    finally:
        await db.close()
    return secret.text


def admin_link(settings: ServerSettings) -> str:
    """Return a link that logs the administrator in once. With SQLite, no server may be running, because it owns the database."""
    return asyncio.run(_new_link(settings))


async def _new_link(settings: ServerSettings) -> str:
    db = await open_database(settings.database)
    try:
        await first_start(db, settings.organization)
        return identity.link_url(settings.url, await identity.make_link(db))
    finally:
        await db.close()
