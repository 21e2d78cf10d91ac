"""Counts connections, in total and for each client network, and closes idle ones to make room for new ones."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Protocol

from terracrew.server.addresses import Network, is_within, limit_key
from terracrew.server.transport.forwarded import Headers, client_of


class ClientConnection(Protocol):
    """An HTTP connection that can be closed while it is idle."""

    def close_idle(self) -> None: ...


@dataclass
class _Client:
    open_connections: int = 0
    idle: "OrderedDict[ClientConnection, None]" = field(default_factory=OrderedDict[ClientConnection, None])


class Connections:
    """The connections of one server process.

    The limit for each client network counts HTTP connections only. A connection that became a WebSocket counts only
    in the total: the hub closes it within seconds unless a valid credential is behind it, and a whole fleet of runners may
    share one address. `Handshakes` limits the connections that wait to become a WebSocket.
    """

    def __init__(self, max_total: int, max_per_address: int, trusted_proxies: tuple[Network, ...] = ()) -> None:
        self._max_total, self._max_per_address = max_total, max_per_address
        self._trusted_proxies = trusted_proxies
        self.clients: dict[str, _Client] = {}
        self.idle: OrderedDict[ClientConnection, str] = OrderedDict()
        self.total = 0
        self.refused_total = 0
        self.is_draining = False
        """Whether the server stops: each connection ends with the answer to its next request, or soon without one."""

    def drain(self) -> None:
        self.is_draining = True

    def admit(self, address: str) -> str | None:
        """Count a new connection. Returns the key to pass to the other methods, or None if the connection must be refused."""
        key = limit_key(address)
        client = self.clients.get(key)
        is_proxy = is_within(address, self._trusted_proxies)  # many clients share its address
        if client and not is_proxy and client.open_connections >= self._max_per_address and not self._evict(client):
            self.refused_total += 1
            return None
        if self.total >= self._max_total and not self._evict_any():
            self.refused_total += 1
            return None
        self.total += 1
        self.clients.setdefault(key, _Client()).open_connections += 1
        return key

    def network_of(self, address: str, headers: Headers) -> str:
        """Return the client network by which handshakes are limited. Behind a trusted proxy, it is that of the proxy's client."""
        return limit_key(client_of(address, headers, self._trusted_proxies))

    def mark_idle(self, connection: ClientConnection, key: str) -> None:
        """Note that this connection waits for its next request, so it may be closed to make room."""
        self.idle[connection] = key
        self.clients[key].idle[connection] = None

    def mark_busy(self, connection: ClientConnection) -> None:
        key = self.idle.pop(connection, None)
        if key is not None:
            del self.clients[key].idle[connection]

    def upgrade(self, connection: ClientConnection, key: str) -> None:
        """Count this connection in the total only, from now on."""
        self.mark_busy(connection)
        client = self.clients[key]
        client.open_connections -= 1
        if not client.open_connections:
            del self.clients[key]

    def release(self, connection: ClientConnection, key: str) -> None:
        """Forget an HTTP connection that was closed."""
        self.upgrade(connection, key)
        self.total -= 1

    def release_upgraded(self) -> None:
        """Forget a WebSocket that was closed."""
        self.total -= 1

    def _evict_any(self) -> bool:
        if not self.idle:
            return False
        next(iter(self.idle)).close_idle()
        return True

    @staticmethod
    def _evict(client: _Client) -> bool:
        if not client.idle:
            return False
        next(iter(client.idle)).close_idle()
        return True
