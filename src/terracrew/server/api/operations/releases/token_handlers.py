"""Release tokens over HTTP, for administrators of the server."""

from litestar import Router, delete, get, post
from litestar.params import FromPath, JSONBody

from terracrew import ids
from terracrew.api.pages import Page
from terracrew.api.releases import CreatedReleaseToken, NewReleaseToken, ReleaseToken
from terracrew.server.api.operations.context import OperationsCall
from terracrew.server.paging import After, Limit
from terracrew.server.releases import tokens


@get("/release-tokens", summary="List release tokens")
async def list_tokens(request: OperationsCall, after: After = None, limit: Limit = 50) -> Page[ReleaseToken]:
    """List the tokens with which releases can be published. The tokens themselves are stored nowhere and cannot be shown again."""
    who = request.user
    return await request.context.db.read_in_background(lambda tx: tokens.listing(tx, who, after, limit))


@post("/release-tokens", summary="Create a release token")
async def create_token(request: OperationsCall, data: JSONBody[NewReleaseToken]) -> CreatedReleaseToken:
    """Create a token that can publish releases, and nothing else. The answer shows it once."""
    made, secret = await tokens.create(request.context.db, request.user, data.name, data.expires_in_days)
    return CreatedReleaseToken(made.id, made.name, made.expires_at, secret.text)


@delete("/release-tokens/{release_token:str}", summary="Revoke a release token")
async def revoke_token(request: OperationsCall, release_token: FromPath[str]) -> None:
    """Revoke a token. Requests with it are refused from now on."""
    who, it = request.user, ids.parse("rtk", release_token)
    await request.context.db.write(lambda tx: tokens.revoke(tx, who, it))


router = Router("/api/v1", route_handlers=[list_tokens, create_token, revoke_token], tags=["releases"])
