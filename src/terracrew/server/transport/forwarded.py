"""Finds the client of a request that came through a reverse proxy. Only proxies in the settings are trusted."""

from collections.abc import Iterable

from terracrew.server.addresses import Network, is_within, parse

Headers = Iterable[tuple[bytes, bytes]]
_FORWARDING = frozenset({b"forwarded", b"via", b"x-real-ip"})
_FORWARDING_PREFIX = b"x-forwarded-"


def client_of(peer: str, headers: Headers, trusted: tuple[Network, ...]) -> str:
    """Return the address of the client: the rightmost in `X-Forwarded-For` that is not itself a trusted proxy.

    Everything to the left of it was written by somebody who is not trusted. The peer itself counts if it is not a
    trusted proxy, or if the header is missing or malformed.
    """
    if not is_within(peer, trusted):
        return peer
    value = b",".join(value for name, value in headers if name == b"x-forwarded-for").decode("latin-1")
    client = peer
    for hop in reversed([hop.strip() for hop in value.split(",") if hop.strip()]):
        address = parse(_without_port(hop))
        if address is None:
            return client
        client = str(address)
        if not is_within(client, trusted):
            return client
    return client


def scheme_of(peer: str, headers: Headers, trusted: tuple[Network, ...]) -> str | None:
    """Return `http` or `https` if a trusted proxy reports which of them its client used."""
    if not is_within(peer, trusted):
        return None
    given = [value for name, value in headers if name == b"x-forwarded-proto"]
    scheme = given[-1].decode("latin-1").rpartition(",")[2].strip().lower() if given else ""
    return scheme if scheme in ("http", "https") else None


def is_forwarded(headers: Headers) -> bool:
    """Return whether the headers show that a proxy forwarded this request.

    Not every proxy names its client: some send only the scheme or the host of the original request, or their own name.
    """
    return any(name in _FORWARDING or name.startswith(_FORWARDING_PREFIX) for name, _ in headers)


def _without_port(hop: str) -> str:
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop
