"""The issuer of the tokens for clouds over HTTP, for administrators of the server who publish its documents elsewhere."""

from litestar import Router, get

from terracrew.api.operations import IssuerView
from terracrew.server.api.operations.context import OperationsCall
from terracrew.server.http.client import identity_of
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb


@get("/issuer", summary="Show the issuer of the tokens for clouds")
async def show(request: OperationsCall) -> IssuerView:
    """Show the issuer, the two documents that clouds read, and what is wrong with the copies at the issuer's address."""
    await authorize.require(request.context.db, request.user, Verb.SERVER_ADMIN, authorize.SERVER)
    identity = identity_of(request)
    await identity.tokens.signing.load()
    await identity.issuer.published_keys()
    return identity.issuer.view(identity.tokens.signing)


router = Router("/api/v1", route_handlers=[show], tags=["server"])
