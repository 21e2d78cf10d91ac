"""The first ASGI application that gets a request. It determines the client's address, and refuses host names that are not this server's."""

from collections.abc import Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from terracrew.client.problems import MEDIA_TYPE
from terracrew.logging import get_logger
from terracrew.server.addresses import UNKNOWN, parse, parse_networks
from terracrew.server.transport import forwarded, refusals
from terracrew.settings.server import ServerSettings

ANY_HOST = "*"
MAX_HOST_CHARACTERS = 300
"""No name is longer: a name of DNS has up to 253 characters."""
_LOOPBACK_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost")


class AllowedHosts:
    """Loopback names, the host of the public URL, the address that it listens on, and what the settings name.

    A page of another site whose name was pointed at this server (DNS rebinding) has that site's name in its requests, and is refused.
    """

    def __init__(self, configured: Sequence[str], public_url: str, listens_on: str) -> None:
        public = urlsplit(public_url).hostname or ""
        names = {name.lower().rstrip(".") for name in (*configured, public, listens_on, *_LOOPBACK_NAMES) if name}
        self._is_any = ANY_HOST in names
        self._names = frozenset(name for name in names if not name.startswith("*"))
        self._suffixes = tuple(name[1:] for name in names if name.startswith("*."))
        self._is_known = lru_cache(1024)(self._is_name_or_address)

    def is_allowed(self, header: str, local_address: str) -> bool:
        """Return whether a `Host` header names this server. `local_address` is the address that the client has connected to.

        That address is allowed, because nobody can make an IP address point to another server, as is possible with a name.
        """
        return self._is_any or (len(header) <= MAX_HOST_CHARACTERS and self._is_known(header, local_address))

    def _is_name_or_address(self, header: str, local_address: str) -> bool:
        host = _host(header)
        if host is None:
            return False
        address = parse(host)
        if address is not None and (address.is_loopback or address == parse(local_address)):
            return True
        return host in self._names or host.endswith(self._suffixes)


def _host(header: str) -> str | None:
    """Return the host of a `Host` header in lower case, without port and brackets; None if it is not one."""
    try:
        parts = urlsplit(f"//{header}")
        _ = parts.port  # raises if it is not a number
    except ValueError:
        return None
    is_plain = parts.netloc == header and parts.username is None and parts.password is None
    return (parts.hostname or "").rstrip(".") or None if is_plain else None


PROBE_PATHS = frozenset({"/healthz", "/readyz"})
"""Paths that are answered for every `Host`, because a load balancer's probe may use any address. Their answers reveal nothing."""
_MAX_QUOTED_HOST = 100
_log = get_logger("terracrew.server.transport")


class Front:
    """An ASGI application around another one."""

    def __init__(self, app: Any, settings: ServerSettings) -> None:
        self._app = app
        self._trusted = parse_networks(settings.trusted_proxies)
        self._hosts = AllowedHosts(settings.allowed_hosts, settings.public_url, settings.listens_on)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        peer = scope["client"][0] if scope.get("client") else UNKNOWN
        if self._trusted:
            port = scope["client"][1] if scope.get("client") else 0
            scope["client"] = forwarded.client_of(peer, headers, self._trusted), port
            if scheme := forwarded.scheme_of(peer, headers, self._trusted):
                scope["scheme"] = scheme if scope["type"] == "http" else scheme.replace("http", "ws")
        hosts = [value for name, value in headers if name == b"host"]
        host = hosts[0].decode("latin-1") if len(hosts) == 1 else ""
        local = scope["server"][0] if scope.get("server") else ""
        if scope["path"] not in PROBE_PATHS and not self._hosts.is_allowed(host, local):
            return await _refuse(scope, send, host)
        return await self._app(scope, receive, send)


async def _refuse(scope: Any, send: Any, host: str) -> None:
    name = host[:_MAX_QUOTED_HOST]
    detail = (
        f"this server is not known as {name!r}: use the address of its public URL, or start it with --allowed-hosts"
        if name
        else "a request must have exactly one Host header that names this server"
    )
    _log.info("refused a host name", host=name, client=scope["client"][0] if scope.get("client") else UNKNOWN)
    status = HTTPStatus.MISDIRECTED_REQUEST
    body = refusals.body(status, "invalid", detail)
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    ]
    kind = "http.response" if scope["type"] == "http" else "websocket.http.response"
    await send({"type": f"{kind}.start", "status": status.value, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})
