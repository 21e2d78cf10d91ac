"""Administrators of the server see, start and stop the encryption under a new master key."""

from terracrew.api.operations import RekeyProgress
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.rekey import key_holders, progress


async def show(tx: Tx, who: Principal) -> RekeyProgress:
    await authorize.require(tx, who, Verb.SERVER_ADMIN, authorize.SERVER)
    return await progress.load(tx)


async def start(tx: Tx, who: Principal, key_id: str) -> RekeyProgress:
    """Request that everything is encrypted under this key. It is refused while a running server encrypts under another one."""
    await authorize.require(tx, who, Verb.SERVER_ADMIN, authorize.SERVER)
    await key_holders.require_all(tx, key_id)
    await audit.record(tx, who, "server.rekey", "server", key_id)
    return await progress.start(tx, key_id)


async def stop(tx: Tx, who: Principal, key_id: str) -> RekeyProgress:
    """Stop the encryption. What is done stays done."""
    await authorize.require(tx, who, Verb.SERVER_ADMIN, authorize.SERVER)
    await audit.record(tx, who, "server.stop_rekey", "server", key_id)
    return await progress.stop(tx)
