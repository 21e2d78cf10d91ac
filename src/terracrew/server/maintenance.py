"""What is done on the server's machine without a running server's help: an administrator's token, a backup."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

from terracrew import ids
from terracrew.server import backup
from terracrew.server.db import open_database
from terracrew.server.identity import service as identity
from terracrew.server.identity import store as people
from terracrew.server.identity.sessions import person
from terracrew.server.main import ADMIN_TOKEN
from terracrew.server.settings import ServerSettings


def admin_token(settings: ServerSettings) -> str:
    """An API token of the administrator. On SQLite the one in the data directory, where the server has left it."""
    settings.check()
    file = settings.directory / ADMIN_TOKEN
    if not settings.is_postgres and file.exists() and (found := file.read_text().strip()):
        return found
    return asyncio.run(_new_token(settings))


async def _new_token(settings: ServerSettings) -> str:
    db = await open_database(settings.database)
    try:
        await identity.first_start(db, settings.organization)
        admin = await db.read(lambda tx: people.user(tx, identity.ADMINISTRATOR))
        name = f"{ADMIN_TOKEN} {datetime.now(UTC):%Y-%m-%d} {ids.new('tok')[-8:]}"
        _, secret = await identity.create_token(db, person(admin, None), name, None)
    finally:
        await db.close()
    return secret.text


def make_backup(settings: ServerSettings, target: Path) -> backup.Backup:
    return backup.make(settings, target)
