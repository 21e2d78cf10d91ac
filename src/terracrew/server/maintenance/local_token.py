"""How the administrator gets in: at the first start by a one-time link, on the server's machine by a token in the data directory.

The token is for the command line of the directory's owner. It expires, and the server renews it.
"""

import asyncio
import secrets
from datetime import UTC, datetime

from terracrew.errors import Conflict
from terracrew.server.audit import service as audit
from terracrew.server.context import Server
from terracrew.server.db import open_database
from terracrew.server.db.seam import Database, Tx
from terracrew.server.identity.access import role_store
from terracrew.server.identity.people import service, store
from terracrew.server.principals.model import SYSTEM
from terracrew.server.secrets import credentials
from terracrew.server.tree.groups import service as groups
from terracrew.settings.server import ServerSettings
from terracrew.system import durable

FILE_NAME = "admin.token"
LIFETIME_SECONDS = 7 * 86400.0
RENEW_BELOW_SECONDS = LIFETIME_SECONDS / 2
"""A token that expires sooner than this is replaced. It stays valid until then, for commands that still use it."""
CHECK_SECONDS = 3600.0


async def run(server: Server) -> None:
    """Renew the token in time, and at once if it was revoked, for example by a change of the administrator's password."""
    with server.db.listen("access") as wakeups:
        while True:
            await renew(server)
            await wakeups.get(timeout=CHECK_SECONDS)


async def renew(server: Server) -> bool:
    """Write a new token unless the one in the file is good for a while. Returns whether a new one was written."""
    file = server.settings.directory / FILE_NAME
    found = file.read_text().strip() if file.exists() else ""
    sha256 = credentials.digest(found)

    async def is_fresh(tx: Tx) -> bool:
        return await store.is_local_token(tx, sha256, ends_after=tx.now + RENEW_BELOW_SECONDS)

    if found and await server.db.read(is_fresh):
        return False
    secret = await make(server)
    durable.write(file, secret.text.encode())
    return True


async def make(server: Server) -> credentials.Secret:
    admin = await server.db.read(store.administrator)
    return await service.create_local_token(server.db, admin, unique_name(), LIFETIME_SECONDS)


def unique_name() -> str:
    return f"{FILE_NAME} {datetime.now(UTC):%Y-%m-%d %H:%M} {secrets.token_hex(3)}"


def admin_token(settings: ServerSettings) -> str:
    """Return an API token of the administrator: with SQLite the one that the server left in the data directory, if there is one."""
    file = settings.directory / FILE_NAME
    if not settings.is_postgres and file.exists() and (found := file.read_text().strip()):
        return found
    return asyncio.run(_new_token(settings))


async def _new_token(settings: ServerSettings) -> str:
    db = await open_database(settings.database)
    try:
        await first_start(db, settings.organization)
        admin = await db.read(store.administrator)
        lifetime = LIFETIME_SECONDS
        secret = await service.create_local_token(db, admin, unique_name(), lifetime)
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
        return service.link_url(settings.url, await service.make_link(db))
    finally:
        await db.close()


async def first_start(db: Database, organization: str = "default") -> str | None:
    """Make the first organization and its administrator, and return the token of a one-time link. Returns None if there are users."""
    link = credentials.new("tcl")

    async def work(tx: Tx) -> str | None:
        if await store.has_users(tx):
            return None
        made = await groups.ensure_organization(tx, organization)
        admin = await store.insert_user(tx, made.id, service.ADMINISTRATOR, is_system_admin=True)
        await role_store.bind_role(tx, made.id, "user", admin.id, "owner", "group", "", SYSTEM.id)
        await audit.record(tx, SYSTEM, "user.create", "user", admin.id, {"name": admin.name}, organization_id=made.id)
        await service.link_user(tx, admin, link, SYSTEM)
        return link.text

    try:
        return await db.write(work)
    except Conflict:  # another server was first
        return None
