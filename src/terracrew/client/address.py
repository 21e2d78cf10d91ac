"""The address of a server: which ones are valid, and which belong to this machine."""

import ipaddress
from urllib.parse import quote, urlsplit

from terracrew import errors


def checked(url: str) -> str:
    """Return the address of a server in its normal form, or raise an error that says what is wrong with it."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise errors.Invalid(f"{without_password(url)!r} is not an address: expected http(s)://host[:port]") from None
    if parts.username or parts.password:
        raise errors.Invalid("the server's address must not contain a user name or password: use a token")
    try:
        _ = parts.port
    except ValueError:
        raise errors.Invalid(f"{url!r} has a port that is not a number from 0 to 65535") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise errors.Invalid(f"{url!r} is not the address of a server: expected http(s)://host[:port]")
    return url.rstrip("/")


def checked_host(text: str) -> str:
    """Return a host with or without a port, or raise an error that says what is wrong with it."""
    try:
        parts = urlsplit(f"//{text}")
        is_host = bool(parts.hostname) and parts.netloc == text and parts.username is None and parts.port != 0
        is_host = is_host and ":" not in (parts.hostname or "") and not any(each.isspace() for each in text)
    except ValueError:
        is_host = False
    if not is_host:
        raise errors.Invalid(f"{text[:200]!r} is not a host: expected a name such as terracrew.example, or name:port")
    return text


def is_address(url: str) -> bool:
    """Return whether a text is an address with a host and, if it has one, a valid port."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and (parts.port is None or parts.port >= 0)
    except ValueError:
        return False


def without_password(url: str) -> str:
    """Return an address for a message, without what may be a user name and a password."""
    head, separator, rest = url.partition("://")
    return f"{head}{separator}{rest.rpartition('@')[2]}" if separator else url.rpartition("@")[2]


def is_loopback(url: str) -> bool:
    """Return whether an address is a loopback address, by its name or number. This makes no DNS request."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def segment(reference: str) -> str:
    """Return an id or a path, encoded as one segment of a URL."""
    return quote(reference, safe="")
