"""How a request is read: JSON bodies strictly by their type, a path of the tree as one segment of a URL, no query parameter that an
operation does not have, and who has sent it."""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from difflib import get_close_matches
from functools import cache
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar
from urllib.parse import unquote

import msgspec
from litestar import Litestar, Request
from litestar.connection import ASGIConnection
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.plugins import PluginProtocol
from litestar.plugins.core import MsgspecDIPlugin
from litestar.types import Message, Scope
from litestar.types.internal_types import PathParameterDefinition

from terracrew.errors import Invalid, TooLarge
from terracrew.server.addresses import UNKNOWN, is_loopback
from terracrew.server.db.seam import Database, Tx
from terracrew.server.http import choices
from terracrew.server.identity.context import Identity
from terracrew.server.principals.model import Principal
from terracrew.server.transport.forwarded import is_forwarded

P = ParamSpec("P")
T = TypeVar("T")
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
"""A NUL character as JSON escapes it. After an odd number of further backslashes, the same characters are ordinary text."""
API = "/api/v1/"
_LOCK_METHODS = {"LOCK": "POST", "UNLOCK": "DELETE"}
"""The methods of the backend `http` of engines that the framework does not know, and what they mean for the lock of a state."""
MAX_QUOTED_CHARACTERS = 60


class CallContext(Protocol):
    """What the handlers of every face have of a running server."""

    @property
    def db(self) -> Database: ...


class Call(Request[Principal, Any, State]):
    """A request as our handlers see it. Each face adds the context that its handlers need."""

    @property
    def context(self) -> CallContext:
        raise NotImplementedError

    async def read(
        self, work: Callable[Concatenate[Tx, Principal, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Read what the caller of this request may see, in one transaction: `work` is given it, the caller and the arguments."""
        return await self.context.db.read(lambda tx: work(tx, self.user, *args, **kwargs))

    async def read_in_background(
        self, work: Callable[Concatenate[Tx, Principal, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Read something that may take long, such as a list."""
        return await self.context.db.read_in_background(lambda tx: work(tx, self.user, *args, **kwargs))

    async def write(
        self, work: Callable[Concatenate[Tx, Principal, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Let the caller of this request change something, in one transaction."""
        return await self.context.db.write(lambda tx: work(tx, self.user, *args, **kwargs))

    async def json(self) -> Any:
        """Decode the body strictly to the type that the handler takes: a string is not a number, and unknown fields are refused.

        The framework would decode to plain values and convert those leniently. It leaves values that already have the right
        type unchanged.
        """
        field = self.route_handler.parsed_data_field
        if field is None:
            return await super().json()
        kind, _ = self.content_type
        if kind != "application/json":
            raise Invalid(f"the body should be JSON: send Content-Type: application/json, not {kind or 'nothing'}")
        body = await self.body()
        refuse_nul(body)
        try:
            return _decoder(field.annotation).decode(body)
        except msgspec.ValidationError as error:
            place, message = choices.struct_error(error, field.annotation)
            errors = [{"field": place, "message": message}]
            raise Invalid(f"{place}: {message}" if place else message, field=place, errors=errors) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Invalid(f"the request body is not valid JSON: {error}") from None


def refuse_nul(body: bytes) -> None:
    """Refuse JSON with a NUL character, which cannot be stored."""
    if b"\\u0000" in body and _NUL.search(body):
        raise Invalid("the body has a NUL character in it (\\u0000), which cannot be stored")


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


class App(Litestar):
    """An application that routes by segments as they were sent, so that `a%2Fb` is one of them."""

    @staticmethod
    def _get_default_plugins(plugins: list[PluginProtocol]) -> list[PluginProtocol]:
        # The framework's own method also loads pydantic and attrs if they are installed, which takes a third of the start and 10 MB.
        return [*plugins, MsgspecDIPlugin()]

    beside: Mapping[str, Callable[[Any, Any, Any], Awaitable[None]]] = MappingProxyType({})
    """ASGI applications that serve WebSockets without the framework, by path."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket" and scope["path"] in self.beside:
            await self.beside[scope["path"]](scope, receive, send)
            return
        if scope["type"] == "http" and scope["method"] == "HEAD":
            # HEAD is handled like GET, and the HTTP server leaves out the body. Monitors request /healthz in this way.
            scope = {**scope, "method": "GET"}
        if scope["type"] == "http" and scope["method"] in _LOCK_METHODS:
            scope = _lock_of_state(scope)
        raw: bytes = scope.get("raw_path") or b""
        if b"%2f" in raw.lower():
            scope = {**scope, "path": _keep_slashes(raw.partition(b"?")[0].decode("latin-1"))}
        await super().__call__(scope, receive, send)


def _lock_of_state(scope: Any) -> Any:
    """Return the request that LOCK or UNLOCK of a state stands for. They mean nothing for any other address."""
    path: str = scope["path"]
    if not (path.startswith(f"{API}modules/") and path.endswith("/state")):
        return scope
    raw: bytes = (scope.get("raw_path") or path.encode()).partition(b"?")[0]
    return {**scope, "method": _LOCK_METHODS[scope["method"]], "path": f"{path}/lock", "raw_path": raw + b"/lock"}


async def refuse_oversized(request: Request[Any, Any, Any]) -> None:
    """Refuse a body that is too large by its declared length, even if the handler does not read it. A body without a declared length
    is refused while it is read."""
    refuse_larger(request, request.route_handler.resolve_request_max_body_size())


def refuse_larger(request: Request[Any, Any, Any], limit: int | None) -> None:
    """Refuse a body whose declared length is larger than this."""
    length = request.content_length
    if limit is not None and length is not None and length > limit:
        raise TooLarge(f"a body of {length:,} bytes is larger than the {limit:,} that this address accepts")


def tree_path(segment: str) -> str:
    """Return the id or the path of the tree that a segment of a URL stands for."""
    return segment.replace("%2F", "/")


def _keep_slashes(raw: str) -> str:
    return "/".join(unquote(part).replace("/", "%2F") if "%" in part else part for part in raw.split("/"))


def identity_of(connection: ASGIConnection[Any, Any, Any, Any]) -> Identity:
    return connection.app.state.identity


def address_of(connection: ASGIConnection[Any, Any, Any, Any]) -> str:
    """Return the client's address. Behind a trusted proxy, `transport.front` has put the address of the proxy's client here."""
    return connection.client.host if connection.client is not None else UNKNOWN


def is_on_this_machine(connection: ASGIConnection[Any, Any, Any, Any]) -> bool:
    """Return whether a request was made on this machine. A request that a proxy on this machine forwarded was not."""
    return is_loopback(address_of(connection)) and not is_forwarded(connection.scope["headers"])


class Counts:
    """Counts answered requests by method and status, as plain numbers, because this runs for every request."""

    def __init__(self) -> None:
        self.answers: Counter[tuple[str, int]] = Counter()

    async def count(self, message: Message, scope: Scope) -> None:
        if message["type"] == "http.response.start" and scope["type"] == "http":
            self.answers[scope["method"], message["status"]] += 1


async def refuse_unknown(request: Request[Any, Any, Any]) -> None:
    """Refuse a query parameter of an API operation that the operation does not have. Pages of the dashboard are not checked."""
    if not request.scope["path"].startswith(API) or not request.scope["query_string"]:
        return
    known = _known(request.route_handler, frozenset(request.scope["path_params"]))
    for name in request.query_params:
        if name not in known:
            raise _refusal(name, known)


@cache
def _known(handler: HTTPRouteHandler, path_parameters: frozenset[str]) -> frozenset[str]:
    in_path = {name: PathParameterDefinition(name, name, str, None) for name in path_parameters}
    return frozenset(each.field_alias for each in handler.create_kwargs_model(in_path).expected_query_params)


def _refusal(name: str, known: frozenset[str]) -> Invalid:
    shown = name if len(name) <= MAX_QUOTED_CHARACTERS else name[:MAX_QUOTED_CHARACTERS] + "…"
    nearest = get_close_matches(name[:MAX_QUOTED_CHARACTERS], known, 1)
    rest = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
    words = f"did you mean {nearest[0]!r}? It takes {', '.join(sorted(known))}" if nearest else rest
    message = f"there is no query parameter {shown!r} here: {words}"
    return Invalid(message, errors=[{"field": shown, "message": message}])
