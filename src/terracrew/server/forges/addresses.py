"""Says which repository of a forge an address of a git source means, and which connection serves a module. All functions are pure."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from terracrew.errors import Invalid
from terracrew.forges import values
from terracrew.server.forges.model import ForgeConnection
from terracrew.server.tree.groups import tree_path

MAX_URL_CHARACTERS = 500
_PORTS = {"https": 443, "http": 80, "ssh": 22}
_HOSTS_OF_SSH = {"ssh.github.com": "github.com", "altssh.gitlab.com": "gitlab.com"}
"""Hosts that large forges serve ssh on beside their own, for networks that let only port 443 pass."""
_HOST = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\]")
_SHORT = re.compile(r"(?:[^@/:]+@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[^@/:]+):(?P<path>[^:].*)")


class SourceAddress(NamedTuple):
    host: str
    port: int | None
    """None for ssh: a forge serves it on another port than its pages."""
    path: str


def parsed(url: str) -> SourceAddress | None:
    """Return the parts of an address of git, as people write it in a source; None if it is none."""
    if "://" not in url:
        short = _SHORT.fullmatch(url)
        return (
            None if short is None else SourceAddress(_host(short["host"], is_ssh=True), None, short["path"].strip("/"))
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not parts.hostname:
        return None
    is_ssh = parts.scheme == "ssh"
    found = None if is_ssh else port or _PORTS[parts.scheme]
    return SourceAddress(_host(parts.hostname, is_ssh=is_ssh), found, unquote(parts.path).strip("/"))


def repository_name(connection: ForgeConnection, url: str) -> str | None:
    """Return the name of the repository of a connection that an address means; None if it is of another forge or owner."""
    base, address = parsed(connection.base_url), parsed(url)
    if base is None or address is None or base.host != address.host:
        return None
    path = address.path
    if address.port is not None:
        if address.port != base.port or not f"{path}/".startswith(f"{base.path}/" if base.path else ""):
            return None
        path = path[len(base.path) :].lstrip("/")
    name = path if connection.kind == "git" else path.removesuffix(".git")
    is_below = not connection.owner or key(name).startswith(f"{connection.owner.lower()}/")
    return name if is_below and not values.name_problem(name) else None


def key(name: str) -> str:
    """Return by what a repository is compared with others: forges tell no names apart by case, nor by `.git` at their end."""
    return name.lower().removesuffix(".git")


def serves(connection: ForgeConnection, organization_id: str, group: str) -> bool:
    """Return whether modules of a group may use a connection: it belongs to the group itself or to one above it."""
    return connection.organization_id == organization_id and tree_path.is_within(group, connection.group)


def connection_for(
    connections: Iterable[ForgeConnection], organization_id: str, group: str, url: str
) -> tuple[ForgeConnection, str] | None:
    """Return the connection for a module of this group with this address, and the name of the repository.

    The nearest group counts, and within a group the connection that names the owner most exactly.
    """
    found = [
        (each, name)
        for each in connections
        if serves(each, organization_id, group) and (name := repository_name(each, url)) is not None
    ]
    return min(found, key=lambda each: _order(each[0]), default=None)


def checked_base_url(text: str) -> str:
    """Return the address of a forge as it is stored, or raise an error about the field."""
    example = "it looks like https://git.example.com"
    shown = repr(text[:200])
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise Invalid.in_field("base_url", f"{shown} is not an address: {example}") from None
    if parts.scheme not in ("https", "http") or not parts.hostname or len(text) > MAX_URL_CHARACTERS:
        raise Invalid.in_field("base_url", f"{shown} is not the address of a forge: {example}")
    if "@" in parts.netloc or "?" in text or "#" in text or not text.isascii() or not text.isprintable() or " " in text:
        raise Invalid.in_field("base_url", f"{shown} has a user, a query, a fragment or a space in it: {example}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname.lower()
    if not _HOST.fullmatch(host):
        raise Invalid.in_field("base_url", f"{shown} has no valid name of a host in it: {example}")
    suffix = "" if port is None or port == _PORTS[parts.scheme] else f":{port}"
    return f"{parts.scheme}://{host}{suffix}{parts.path.rstrip('/')}"


def origins(connection: ForgeConnection) -> Sequence[str]:
    """Return what the addresses that may be asked with the credential of a connection begin with."""
    own = f"{connection.base_url}/"
    return [own, "https://api.github.com/"] if connection.base_url == "https://github.com" else [own]


def _host(host: str, *, is_ssh: bool) -> str:
    name = host.lower().strip("[]").rstrip(".")
    return _HOSTS_OF_SSH.get(name, name) if is_ssh else name


def _order(connection: ForgeConnection) -> tuple[int, int, str]:
    depth = connection.group.count("/") + 1 if connection.group else 0
    return -depth, -len(connection.owner), connection.id
