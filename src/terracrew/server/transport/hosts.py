"""Which host names this server answers to. A page of another site whose name was pointed at this server (DNS rebinding) has
that site's name in its requests, and is refused."""

from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import urlsplit

from terracrew.server.addresses import parse

ANY_HOST = "*"
MAX_HOST_CHARACTERS = 300
"""No name is longer: a name of DNS has up to 253 characters."""
_LOOPBACK_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost")


class AllowedHosts:
    """Loopback names, the host of the public URL, the address that it listens on, and what the settings name."""

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
