"""The administrator's token in the data directory, for the command line of the directory's owner. It expires, and the
server renews it."""

import secrets
from datetime import UTC, datetime

from terracrew.server.context import Server
from terracrew.server.db.seam import Tx
from terracrew.server.identity.people import service, store
from terracrew.server.secrets import credentials
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
