"""What the address of a module of a registry may be: `[host/]namespace/name/provider`."""

import re
from typing import NamedTuple

from terracrew.errors import Invalid
from terracrew.protocol.spec import RegistrySource
from terracrew.source_rules import version_ranges

DEFAULT_HOSTS = {"terraform": "registry.terraform.io"}
"""The registry of an address without a host, by engine; other engines use DEFAULT_HOST."""
DEFAULT_HOST = "registry.opentofu.org"
MAX_ADDRESS_CHARACTERS = 500
_HOST = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*(?::[0-9]{1,5})?"
)
_NAME = re.compile(r"[0-9A-Za-z](?:[0-9A-Za-z_-]{0,62}[0-9A-Za-z])?")
_PROVIDER = re.compile(r"[0-9a-z]{1,64}")


class Address(NamedTuple):
    host: str
    """In lower case, with its port if it has one."""
    path: str
    """`namespace/name/provider`"""


def parse(source: RegistrySource, engine: str = "") -> Address:
    """Return the parts of the address. Raises Invalid if it or the range of versions is not understood."""
    text = source.address
    parts = text.split("/") if len(text) <= MAX_ADDRESS_CHARACTERS else []
    host = parts.pop(0) if len(parts) == 4 else DEFAULT_HOSTS.get(engine, DEFAULT_HOST)
    is_named = len(parts) == 3 and all(map(_NAME.fullmatch, parts[:2])) and _PROVIDER.fullmatch(parts[2])
    if not is_named or not _HOST.fullmatch(host):
        raise Invalid.in_field(
            "source.address",
            f"{text[:200]!r} is not the address of a module of a registry: write namespace/name/provider or "
            "host/namespace/name/provider",
        )
    version_ranges.check_of_source(source.version)
    return Address(host.lower(), "/".join(parts))
