"""How a request is read: JSON bodies strictly by their type, and a path of the tree as one segment of a URL."""

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar
from urllib.parse import unquote

import msgspec
from litestar import Litestar, Request
from litestar.datastructures import State
from litestar.plugins import PluginProtocol
from litestar.plugins.core import MsgspecDIPlugin

from terracrew.errors import Invalid, TooLarge
from terracrew.server.db.seam import Database, Tx
from terracrew.server.http import choices
from terracrew.server.principals.model import Principal

P = ParamSpec("P")
T = TypeVar("T")
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
"""A NUL character as JSON escapes it. After an odd number of further backslashes, the same characters are ordinary text."""


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
        if b"\\u0000" in body and _NUL.search(body):
            raise Invalid("the body has a NUL character in it (\\u0000), which cannot be stored")
        try:
            return _decoder(field.annotation).decode(body)
        except msgspec.ValidationError as error:
            place, message = choices.struct_error(error, field.annotation)
            errors = [{"field": place, "message": message}]
            raise Invalid(f"{place}: {message}" if place else message, field=place, errors=errors) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Invalid(f"the request body is not valid JSON: {error}") from None


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
        raw: bytes = scope.get("raw_path") or b""
        if b"%2f" in raw.lower():
            scope = {**scope, "path": _keep_slashes(raw.partition(b"?")[0].decode("latin-1"))}
        await super().__call__(scope, receive, send)


async def refuse_oversized(request: Request[Any, Any, Any]) -> None:
    """Refuse a body that is too large by its declared length, even if the handler does not read it. A body without a declared length
    is refused while it is read."""
    limit = request.route_handler.resolve_request_max_body_size()
    length = request.content_length
    if limit is not None and length is not None and length > limit:
        raise TooLarge(f"a body of {length:,} bytes is larger than the {limit:,} that this address accepts")


def tree_path(segment: str) -> str:
    """Return the id or the path of the tree that a segment of a URL stands for."""
    return segment.replace("%2F", "/")


def _keep_slashes(raw: str) -> str:
    return "/".join(unquote(part).replace("/", "%2F") if "%" in part else part for part in raw.split("/"))
