"""People start and end holds: they look at what happened since the database was set back, and release the server or a module."""

from terracrew.api.job_views import Hold
from terracrew.errors import Conflict
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.history import store
from terracrew.server.jobs.set_back import detection
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.modules import service as modules


async def hold(db: Database, who: Principal, reason: str) -> Hold:
    """Hand out no change from now on."""

    async def work(tx: Tx) -> Hold:
        await authorize.require(tx, who, Verb.SERVER_ADMIN, authorize.SERVER)
        return await detection.start_by(tx, who, f"{who.name} asked for it" + (f": {reason}" if reason else ""))

    return await db.write(work)


async def release(db: Database, who: Principal, *, is_untouched: bool) -> Hold:
    """Release the server. Its modules stay in doubt until an approved plan has begun.

    With `is_untouched`, only those stay in doubt that are known to have been changed since.
    """

    async def work(tx: Tx) -> Hold:
        found = await _open(tx, who)
        await store.release(tx, found.id, who.name, is_untouched=is_untouched)
        await audit.record(tx, who, "server.release", "hold", found.id, {"is_untouched": is_untouched})
        _wake(tx)
        return found

    return await db.write(work)


async def release_module(db: Database, who: Principal, name: str, *, is_untouched: bool) -> Hold:
    """Release one module, given by its path or id. With `is_untouched`, it is no longer in doubt because of the hold either."""

    async def work(tx: Tx) -> Hold:
        found = await _open(tx, who)
        module = await modules.find(tx, who, name, Verb.TREE_READ)
        await store.release_module(tx, found.id, module.id, who.name, is_untouched=is_untouched)
        details = {"module": module.path, "is_untouched": is_untouched}
        await audit.record(
            tx, who, "module.release", "module", module.id, details, organization_id=module.organization_id
        )
        _wake(tx)
        tx.wake("tree", module.id)
        return found

    return await db.write(work)


async def _open(tx: Tx, who: Principal) -> Hold:
    await authorize.require(tx, who, Verb.SERVER_ADMIN, authorize.SERVER)
    found = await store.open_hold(tx)
    if found is None:
        raise Conflict("the server is not held: it hands out changes")
    return found


def _wake(tx: Tx) -> None:
    tx.wake("queue")
    tx.wake("holds")
