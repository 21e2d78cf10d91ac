"""The audit log over HTTP."""

from litestar import Router, get
from litestar.params import FromQuery

from terracrew.server.api.access.context import AccessCall
from terracrew.server.audit import service
from terracrew.server.audit.model import Entry
from terracrew.server.paging import After, Limit, Page


@get("/audit", summary="List changes, newest first")
async def listing(
    request: AccessCall, target: FromQuery[str | None] = None, after: After = None, limit: Limit = 50
) -> Page[Entry]:
    """List the entries of the organization, or those about one `target` (an id), the newest first."""
    who = request.user
    return await request.context.db.read_in_background(lambda tx: service.listing(tx, who, target, after, limit))


router = Router(path="/api/v1", route_handlers=[listing], tags=["audit"])
