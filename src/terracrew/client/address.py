"""Where a server is: which addresses make sense, which are this machine's own, and which way leads there."""

import ipaddress
import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from terracrew import errors

if TYPE_CHECKING:
    import urllib3


def checked(url: str) -> str:
    """The address of a server in its one form, or an error that says what is wrong with it."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise errors.Invalid(f"the server's address is not a URL: {error}") from error
    if parts.username or parts.password:
        raise errors.Invalid("the server's address must not hold a name or password: use a token")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise errors.Invalid(f"{url!r} is not the address of a server: expected http(s)://host[:port]")
    return url.rstrip("/")


def is_loopback(url: str) -> bool:
    """Whether an address is this machine's own, by name or number; no name service is asked."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def pool(url: str) -> "urllib3.PoolManager":
    """Connections to that address, through the environment's proxy where it names one."""
    import urllib3  # here, so that looking at an address stays cheap

    if not is_loopback(url) and any(name.lower().endswith("_proxy") for name in os.environ):
        from urllib.request import getproxies, proxy_bypass

        parts = urlsplit(url)
        proxy = getproxies().get(parts.scheme)
        if proxy and not proxy_bypass(parts.netloc):
            try:
                return urllib3.ProxyManager(proxy)
            except urllib3.exceptions.HTTPError:
                raise errors.Invalid(f"the {parts.scheme} proxy of the environment is not an address") from None
    return urllib3.PoolManager(maxsize=4)
