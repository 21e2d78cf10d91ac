"""Once tokens of runners over HTTP."""

from litestar import Router, delete, get, post
from litestar.params import FromPath, JSONBody

from terracrew.api.pages import Page
from terracrew.api.runners import MadeOnceToken, NewOnceToken, OnceTokenView
from terracrew.server.api.tree.context import TreeCall
from terracrew.server.http.request import tree_path
from terracrew.server.paging import After, Limit
from terracrew.server.runners import once_token_service


@get("/runners/{runner:str}/once-tokens", summary="List the tokens for one job of a runner")
async def list_once_tokens(
    request: TreeCall, runner: FromPath[str], after: After = None, limit: Limit = 50
) -> Page[OnceTokenView]:
    """List the once tokens of a runner, the latest first, each with the job that it has claimed. Old ones that have ended are removed."""
    who = request.user
    return await request.context.db.read(
        lambda tx: once_token_service.listing(tx, who, tree_path(runner), after, limit)
    )


@post("/runners/{runner:str}/once-tokens", summary="Make a token for one job")
async def create_once_token(request: TreeCall, runner: FromPath[str], data: JSONBody[NewOnceToken]) -> MadeOnceToken:
    """Make a token with which a machine connects as this runner, claims one job, and delivers everything of it. It is shown this
    once. It can claim no second job, nor any after it has expired.
    """
    who, url = request.user, request.context.settings.url
    return await request.context.db.write(lambda tx: once_token_service.create(tx, who, tree_path(runner), data, url))


@delete("/runners/{runner:str}/once-tokens/{once_token:str}", summary="Revoke a token for one job")
async def revoke_once_token(request: TreeCall, runner: FromPath[str], once_token: FromPath[str]) -> None:
    """Revoke a once token. A connection with it ends within seconds. A job that it has claimed continues: cancel that to stop it."""
    who = request.user
    await request.context.db.write(lambda tx: once_token_service.revoke(tx, who, tree_path(runner), once_token))


router = Router(
    path="/api/v1",
    route_handlers=[list_once_tokens, create_once_token, revoke_once_token],
    tags=["runners"],
)
