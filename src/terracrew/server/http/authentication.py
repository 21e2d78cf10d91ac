"""Authenticates every HTTP request before its handler runs.

A handler that anybody may call has `public=True` in its decorator. Its `request.user` is None if nobody is logged in, and for
every change that has only a cookie, so it never acts for a session. A handler with `takes_metrics_token=True` also accepts
the token for metrics, without a query. A handler with `ignores_credentials=True` answers without a query, so it works while
the database is unavailable. An address alone never authenticates anybody, and a once token of a runner opens
nothing but the hub. A release token is accepted only by handlers with `takes_release_token=True`. Handlers with `takes_basic=True`
also accept a token as the password of HTTP Basic, with any user name, because the backend `http` of engines knows nothing else.
Handlers with `takes_client_secret=True` also accept the secret of a service account as a token, because the identity providers that
call them by SCIM do not exchange it.
A request may name the organization that it is about by a header; otherwise it is about that of its principal or its session.
A page names the organization that it shows in its token against forgery. A change by a page of another organization than that
of the session is refused, unless its handler has `in_any_organization=True`: what it changes then does not depend on it.
WebSockets do not accept cookies: the hub itself calls `principal_from_bearer`.
"""

import base64
from typing import Any

import msgspec
from litestar import Request
from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Receive, Scope, Send

from terracrew.errors import Forbidden, Unauthenticated
from terracrew.server.http.request import address_of, identity_of, is_on_this_machine
from terracrew.server.identity.access import organizations
from terracrew.server.identity.bearer import account_from_secret, is_secret, principal_from_bearer
from terracrew.server.identity.context import Identity
from terracrew.server.identity.people import sessions
from terracrew.server.metrics import process as metrics
from terracrew.server.principals.model import Principal


class Authentication(msgspec.Struct, frozen=True):
    """How the request authenticated itself; `request.auth`."""

    csrf_token: str | None = None
    """The token that the forms and htmx requests of a browser's session must send; None for every other credential."""


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
        if user is not None and user.once_token_id is not None:
            raise Unauthenticated("a token for one job is for the hub of runners alone")
        if user is not None and user.kind == "publisher" and not options.get("takes_release_token"):
            raise Forbidden("a release token can publish releases, and nothing else")
        if user is None and not is_public:
            raise Unauthenticated("log in, or send a token: `Authorization: Bearer …`")
        if user is not None:
            is_elsewhere = user.credential == "local_token" and not is_on_this_machine(request)
            credential = "token" if is_elsewhere else user.credential
            user = msgspec.structs.replace(user, address=address_of(request), credential=credential)
            if (named := request.headers.get(organizations.HEADER)) is not None:
                user = await organizations.act_in(identity_of(request).db, user, named)
        scope["user"], scope["auth"] = user, auth
        return await next_app(scope, receive, send)


async def authenticate(
    identity: Identity, request: Request[Any, Any, Any], *, is_public: bool
) -> tuple[Principal | None, Authentication]:
    authorization = request.headers.get("Authorization", "")
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() == "bearer" and request.route_handler.opt.get("takes_client_secret") and is_secret(token):
        return await account_from_secret(identity, token.strip()), Authentication()
    if scheme.lower() == "bearer":
        return await principal_from_bearer(identity, token.strip()), Authentication()
    if scheme.lower() == "basic" and request.route_handler.opt.get("takes_basic"):
        return await principal_from_bearer(identity, _password(token)), Authentication()
    is_change = request.method not in sessions.SAFE_METHODS
    if is_change:
        sessions.check_origin(
            request, identity.url
        )  # this includes logins, so that no other site can log a person in as somebody else
        if is_public:
            return None, Authentication()
    secure = sessions.is_secure(request, identity.url)
    cookie = request.cookies.get(sessions.cookie_name(sessions.COOKIE, secure=secure))
    principal = await sessions.principal(identity.db, cookie) if cookie else None
    if cookie is None or principal is None:
        return None, Authentication()
    if is_change:
        shown = sessions.organization_of(await sessions.check_csrf(request, cookie))
        if not request.route_handler.opt.get("in_any_organization"):
            await organizations.require_same(identity.db, principal, shown)
    else:
        principal = await _reader(identity, request, cookie, principal)
    return principal, Authentication(sessions.csrf_token(cookie, principal.organization_id))


def _password(text: str) -> str:
    try:
        return base64.b64decode(text.strip(), validate=True).decode().partition(":")[2]
    except ValueError:
        return ""


async def _reader(identity: Identity, request: Request[Any, Any, Any], cookie: str, principal: Principal) -> Principal:
    """Let a page that fetches a part of itself again go on showing its organization after another tab has switched."""
    token = request.headers.get(sessions.CSRF_HEADER)
    if token is None or not sessions.is_csrf_token(token, cookie):
        return principal
    shown = sessions.organization_of(token)
    if shown in ("", principal.organization_id):
        return principal
    return await organizations.act_in(identity.db, principal, shown)


def _has_metrics_token(request: Request[Any, Any, Any]) -> bool:
    directory = request.app.state.data_directory
    return metrics.is_token(directory, request.headers.get("Authorization", ""))
