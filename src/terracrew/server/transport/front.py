"""The first ASGI application that gets a request. It determines the client's address, and refuses host names that are not this server's."""

from http import HTTPStatus
from typing import Any

from terracrew.client.problems import MEDIA_TYPE
from terracrew.logging import get_logger
from terracrew.server.addresses import UNKNOWN, parse_networks
from terracrew.server.transport import forwarded, refusals
from terracrew.server.transport.hosts import AllowedHosts
from terracrew.settings.server import ServerSettings

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
