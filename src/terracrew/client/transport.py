"""The one place where HTTP connections are set up: pools, and the environment's proxy where it names one."""

import os
import ssl
from typing import Literal
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3

from terracrew import errors
from terracrew.client.address import is_loopback


def pool(url: str, connections: int = 1, tls: ssl.SSLContext | None = None) -> urllib3.PoolManager:
    """Return a pool of connections to the server of this URL, through the environment's proxy where it names one."""
    proxy = proxy_for(url)
    if proxy is None:
        return urllib3.PoolManager(maxsize=connections, ssl_context=tls)
    try:
        login = urlsplit(proxy)
        # urllib3 connects to a proxy whose address has a name and a password, but does not send them.
        basic_auth = f"{unquote(login.username)}:{unquote(login.password or '')}" if login.username else None
        headers = urllib3.make_headers(proxy_basic_auth=basic_auth)
        return urllib3.ProxyManager(proxy, maxsize=connections, proxy_headers=headers, ssl_context=tls)
    except (urllib3.exceptions.HTTPError, ValueError):
        scheme = urlsplit(url).scheme
        # The address is not repeated, since it may contain a password.
        raise errors.Invalid(
            f"the proxy in the environment variable {scheme}_proxy is not a URL like http://host:port"
        ) from None


def proxy_for(url: str) -> str | None:
    """Return the proxy that the environment names for an HTTP URL. This machine itself is never reached through one."""
    if is_loopback(url) or not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme)
    return proxy if proxy and not proxy_bypass(parts.netloc.rpartition("@")[2]) else None


def websocket_proxy(url: str) -> Literal[True] | None:
    """Return the `proxy` argument of `websockets` for this URL: True lets it choose by RFC 6455 from the environment."""
    return None if is_loopback(url) else True
