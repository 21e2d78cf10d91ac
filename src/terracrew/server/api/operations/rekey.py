"""Encryption under a new master key over HTTP, for administrators of the server."""

from litestar import Router, delete, get, post

from terracrew.api.operations import RekeyProgress
from terracrew.server.api.operations.context import OperationsCall
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.rekey import key_holders, progress


@get("/rekey", summary="Show the encryption under a new master key")
async def show(request: OperationsCall) -> RekeyProgress:
    """Show how far the encryption has come, and whether older keys may be removed (`finished`)."""

    async def read(tx: Tx) -> RekeyProgress:
        await authorize.require(tx, request.user, Verb.SERVER_ADMIN, authorize.SERVER)
        return await progress.load(tx)

    return await request.context.db.read(read)


@post("/rekey", status_code=202, summary="Encrypt everything under the newest master key")
async def start(request: OperationsCall) -> RekeyProgress:
    """It runs in the background, and is refused while a running server encrypts under another key.

    If it is requested again, it continues, or checks everything once more.
    """

    async def work(tx: Tx) -> RekeyProgress:
        await authorize.require(tx, request.user, Verb.SERVER_ADMIN, authorize.SERVER)
        await key_holders.require_all(tx, request.context.keys.key_id)
        await audit.record(tx, request.user, "server.rekey", "server", request.context.keys.key_id)
        return await progress.start(tx, request.context.keys.key_id)

    return await request.context.db.write(work)


@delete("/rekey", status_code=200, summary="Stop the encryption under a new master key")
async def stop(request: OperationsCall) -> RekeyProgress:
    """Stop the encryption. What is done stays done, and both keys are needed until it has been finished."""

    async def work(tx: Tx) -> RekeyProgress:
        await authorize.require(tx, request.user, Verb.SERVER_ADMIN, authorize.SERVER)
        await audit.record(tx, request.user, "server.stop_rekey", "server", request.context.keys.key_id)
        return await progress.stop(tx)

    return await request.context.db.write(work)


router = Router("/api/v1", route_handlers=[show, start, stop], tags=["server"])
