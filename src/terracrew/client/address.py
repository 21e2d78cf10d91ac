"""The address of a server: which ones are valid, and which belong to this machine."""

import ipaddress
from urllib.parse import urlsplit

from terracrew import errors


def checked(url: str) -> str:
    """Return the address of a server in its normal form, or raise an error that says what is wrong with it."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise errors.Invalid(f"the server's address is not a URL: {error}") from error
    if parts.username or parts.password:
        raise errors.Invalid("the server's address must not contain a user name or password: use a token")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise errors.Invalid(f"{url!r} is not the address of a server: expected http(s)://host[:port]")
    return url.rstrip("/")


def is_loopback(url: str) -> bool:
    """Return whether an address is a loopback address, by its name or number. This makes no DNS request."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
