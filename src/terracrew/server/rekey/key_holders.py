"""Which master key each running server encrypts under.

A rekey must not begin, and must not end, while a server still encrypts under an older key: that server could not read what
is encrypted under the new key, and what it writes would need the old key after the operator has removed it.
"""

import contextlib

from terracrew.errors import Conflict, Invalid, TerracrewError
from terracrew.server.db import lease
from terracrew.server.db.seam import Database, Tx
from terracrew.server.rekey import progress
from terracrew.server.secrets.keyring import Keyring

LEASE_PREFIX = "master_key:"
LEASE_SECONDS = 150.0
"""A server renews its lease every minute. After a server was killed, its lease counts for at most this time."""


async def announce(db: Database, server_id: str, keys: Keyring) -> None:
    """Let the other servers know which key this one encrypts under."""
    # SQLite has one server: all other leases are from processes that have ended.
    all_others = float("inf") if db.kind == "sqlite" else None
    await db.write(lambda tx: lease.delete_expired(tx, LEASE_PREFIX, all_others or tx.now))
    await lease.acquire(db, LEASE_PREFIX + server_id, keys.key_id, LEASE_SECONDS)


async def withdraw(db: Database, server_id: str, keys: Keyring) -> None:
    with contextlib.suppress(TerracrewError):  # the lease expires by itself
        await lease.release(db, LEASE_PREFIX + server_id, keys.key_id)


async def servers(tx: Tx) -> list[str]:
    """Return the ids of the running servers. One that was killed is among them until its lease has expired."""
    return list(await lease.holders(tx, LEASE_PREFIX))


async def problem(tx: Tx, key_id: str) -> str:
    """Return which running servers do not encrypt under this key and what to do; an empty text if all of them do."""
    others = {name: other for name, other in (await lease.holders(tx, LEASE_PREFIX)).items() if other != key_id}
    if not others:
        return ""
    servers = ", ".join(f"{name} (master key {other})" for name, other in others.items())
    return (
        f"these servers do not encrypt under master key {key_id} yet: {servers}. Put that key into the first line of their "
        "master key file, restart them, and call `terracrew server rekey` again. "
        f"A server that was killed counts for {LEASE_SECONDS:.0f} seconds"
    )


async def require_all(tx: Tx, key_id: str) -> None:
    """Refuse a rekey while a running server encrypts under another key."""
    if found := await problem(tx, key_id):
        raise Conflict(found)


async def require_key(db: Database, keys: Keyring) -> None:
    """Refuse to start a server that cannot read what a rekey has encrypted so far."""
    found = await db.read(progress.load)
    if found.key_id and not keys.has(found.key_id):
        raise Invalid(
            f"the content of this database is being encrypted under master key {found.key_id}, which was not given: add it "
            "to the master key file, in a line of its own"
        )
