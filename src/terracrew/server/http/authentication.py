"""The one door for HTTP: it finds out who is asking before any handler runs.

A handler that anybody may call says so itself, by `public=True` in its decorator. Its `request.user` is None where nobody
is logged in, and in every change, so it acts for no session. One that says `takes_metrics_token=True` also answers to the
token for metrics, without looking anybody up. No address alone lets anybody in.
One that says `ignores_credentials=True` answers without looking anybody up, so it works while the database is away.
WebSockets are not let in by a cookie at all: the hub asks `principal_from_bearer` for itself.
"""

from typing import Any

import msgspec
from litestar import Request
from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Receive, Scope, Send

from terracrew.errors import Unauthenticated
from terracrew.server.http.client import address_of, identity_of, is_on_this_machine
from terracrew.server.identity.bearer import principal_from_bearer
from terracrew.server.identity.context import Identity
from terracrew.server.identity.people import sessions
from terracrew.server.metrics import token as metrics_token
from terracrew.server.principals.model import Principal


class Authentication(msgspec.Struct, frozen=True):
    """How the request authenticated itself; `request.auth`."""

    csrf_token: str | None = None
    """What this session's forms and htmx requests must send along; only a browser's session has one."""


class AuthenticationMiddleware(ASGIMiddleware):
    scopes = (ScopeType.HTTP,)

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        request: Request[Any, Any, Any] = Request(scope, receive, send)
        is_public: bool = request.route_handler.opt.get("public", False)
        options = request.route_handler.opt
        if options.get("ignores_credentials") or (options.get("takes_metrics_token") and _has_metrics_token(request)):
            scope["user"], scope["auth"] = None, Authentication()
            return await next_app(scope, receive, send)
        user, auth = await authenticate(identity_of(request), request, is_public=is_public)
        if user is None and not is_public:
            raise Unauthenticated("log in, or send a token: `Authorization: Bearer …`")
        if user is not None:
            is_elsewhere = user.credential == "local_token" and not is_on_this_machine(request)
            credential = "token" if is_elsewhere else user.credential
            user = msgspec.structs.replace(user, address=address_of(request), credential=credential)
        scope["user"], scope["auth"] = user, auth
        return await next_app(scope, receive, send)


async def authenticate(
    identity: Identity, request: Request[Any, Any, Any], *, is_public: bool
) -> tuple[Principal | None, Authentication]:
    authorization = request.headers.get("Authorization", "")
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return await principal_from_bearer(identity, token.strip()), Authentication()
    is_change = request.method not in sessions.SAFE_METHODS
    if is_change:
        sessions.check_origin(
            request, identity.url
        )  # also for a login, so that no other site can log somebody in as somebody else
        if is_public:
            return None, Authentication()
    secure = sessions.is_secure(request, identity.url)
    cookie = request.cookies.get(sessions.cookie_name(sessions.COOKIE, secure=secure))
    principal = await sessions.principal(identity.db, cookie) if cookie else None
    if cookie is None or principal is None:
        return None, Authentication()
    if is_change:
        await sessions.check_csrf(request, cookie)
    return principal, Authentication(sessions.csrf_token(cookie))


def _has_metrics_token(request: Request[Any, Any, Any]) -> bool:
    directory = request.app.state.data_directory
    return metrics_token.is_valid(directory, request.headers.get("Authorization", ""))
