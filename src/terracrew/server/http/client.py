"""Identifies the client of a request: its address, whether it is on this machine, and its identity."""

from typing import Any

from litestar.connection import ASGIConnection

from terracrew.server.addresses import UNKNOWN, is_loopback
from terracrew.server.identity.context import Identity
from terracrew.server.transport.forwarded import is_forwarded


def identity_of(connection: ASGIConnection[Any, Any, Any, Any]) -> Identity:
    return connection.app.state.identity


def address_of(connection: ASGIConnection[Any, Any, Any, Any]) -> str:
    """Return the client's address. Behind a trusted proxy, `transport.front` has put the address of the proxy's client here."""
    return connection.client.host if connection.client is not None else UNKNOWN


def is_on_this_machine(connection: ASGIConnection[Any, Any, Any, Any]) -> bool:
    """Return whether a request was made on this machine. A request that a proxy on this machine forwarded was not."""
    return is_loopback(address_of(connection)) and not is_forwarded(connection.scope["headers"])
