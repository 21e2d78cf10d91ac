"""Holds over HTTP, for administrators of the server: why it hands out no changes, and how it is released."""

from litestar import Router, get, post
from litestar.params import JSONBody

from terracrew.api.job_views import HoldView
from terracrew.api.operations import ReleaseHold, StartHold
from terracrew.server.api.operations.context import OperationsCall
from terracrew.server.db.seam import Tx
from terracrew.server.jobs.set_back import release as service
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.runs import holds


async def _view(request: OperationsCall) -> HoldView:
    async def read(tx: Tx) -> HoldView:
        await authorize.require(tx, request.user, Verb.SERVER_ADMIN, authorize.SERVER)
        return await holds.view(tx)

    return await request.context.db.read(read)


@get("/hold", summary="Show whether the server hands out changes")
async def show(request: OperationsCall) -> HoldView:
    """Show whether the server is held, since when and why, and what is known of its modules since."""
    return await _view(request)


@post("/hold", status_code=200, summary="Hand out no changes")
async def start(request: OperationsCall, data: JSONBody[StartHold]) -> HoldView:
    """Hold the server: it serves everything and takes deliveries, and hands out nothing that changes something."""
    await service.hold(request.context.db, request.user, data.reason)
    return await _view(request)


@post("/hold/release", status_code=200, summary="Hand out changes again")
async def release(request: OperationsCall, data: JSONBody[ReleaseHold]) -> HoldView:
    """Release a module or the whole server.

    A module that was or may have been changed since stays in doubt: its next plan waits for an approval.
    """
    if data.module is None:
        await service.release(request.context.db, request.user, is_untouched=data.is_untouched)
    else:
        await service.release_module(request.context.db, request.user, data.module, is_untouched=data.is_untouched)
    return await _view(request)


router = Router("/api/v1", route_handlers=[show, start, release], tags=["server"])
