"""API tokens: those of the caller, and those of other users for people who manage access."""

from litestar import delete, get, post
from litestar.params import FromPath, JSONBody

from terracrew import ids
from terracrew.api.access import ApiToken, CreatedToken, NewToken
from terracrew.api.pages import Page
from terracrew.server.api.context import AccessCall
from terracrew.server.identity.people import oversight, service
from terracrew.server.paging import After, Limit


@get("/tokens", summary="List your API tokens")
async def list_tokens(request: AccessCall, after: After = None, limit: Limit = 50) -> Page[ApiToken]:
    """List your tokens. The tokens themselves are stored nowhere and cannot be shown again."""
    return await request.read_in_background(service.tokens, after, limit)


@post("/tokens", summary="Create an API token")
async def create_token(request: AccessCall, data: JSONBody[NewToken]) -> CreatedToken:
    """Create a token that may do what you may do. The answer shows it once."""
    token, secret = await service.create_token(request.context.db, request.user, data.name, data.expires_in_days)
    return CreatedToken(token.id, token.name, token.expires_at, secret.text)


@delete("/tokens/{token_id:str}", summary="Revoke an API token")
async def revoke_token(request: AccessCall, token_id: FromPath[str]) -> None:
    """Revoke a token. Requests with it are refused from now on."""
    await request.write(service.revoke_token, ids.parse("tok", token_id))


@get("/users/{user:str}/tokens", summary="List the API tokens of a user")
async def list_tokens_of(
    request: AccessCall, user: FromPath[str], after: After = None, limit: Limit = 50
) -> Page[ApiToken]:
    """List the tokens of a user. `user` is a name, an id or `me`; for others it takes the right to manage access."""
    return await request.read_in_background(oversight.list_tokens, user, after, limit)


@delete("/users/{user:str}/tokens/{token_id:str}", summary="Revoke an API token of a user")
async def revoke_token_of(request: AccessCall, user: FromPath[str], token_id: FromPath[str]) -> None:
    """Revoke a token of a user. Requests with it are refused from now on."""
    await request.write(oversight.revoke_token, user, ids.parse("tok", token_id))
