"""Reads `.terraform.lock.hcl`: which providers a module uses, in which versions, and the checksums that it accepts.

The file comes from the module and may contain anything. Names that could lead out of a directory are ignored.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from terracrew.attempt.engine_directory import read_produced
from terracrew.errors import Invalid, TooLarge

NAME = ".terraform.lock.hcl"
_MAX_BYTES = 1 << 20
_BLOCK = re.compile(r'^[ \t]*provider[ \t]+"(?P<address>[^"\n]{1,300})"[ \t]*\{(?P<body>.*?)^[ \t]*\}', re.M | re.S)
_END = re.compile(r"^[ \t]*\}", re.M)
_VERSION = re.compile(r'^[ \t]*version\s*=\s*"([^"\n]{1,100})"', re.M)
_HASH = re.compile(r'"((?:h1|zh):[^"\n]{1,100})"')
_ADDRESS = re.compile(r"[a-z0-9][a-z0-9.-]*(?::\d{1,5})?/[a-z0-9][a-z0-9_-]*/[a-z0-9][a-z0-9_-]*")
_NUMBER = re.compile(r"\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?")


class Provider(msgspec.Struct, frozen=True):
    address: str
    """`<host>/<namespace>/<type>`."""
    version: str

    @property
    def folder(self) -> str:
        """The folder of its packages in every cache and mirror."""
        return f"{self.address}/{self.version}"


class LockedProvider(msgspec.Struct, frozen=True):
    provider: Provider
    hashes: frozenset[str]


def provider_of(folder: str) -> Provider | None:
    """Return the provider whose packages are in this folder of a cache; None if the text is not such a folder."""
    address, _, version = folder.rpartition("/")
    provider = Provider(address, version)
    return provider if is_sound(provider) else None


def is_sound(provider: Provider) -> bool:
    """Return whether its names can be part of a path and of a configuration."""
    return bool(_ADDRESS.fullmatch(provider.address) and _NUMBER.fullmatch(provider.version))


def read(folder: Path) -> list[LockedProvider]:
    """Return the providers in the lock file of a module; empty if there is no file, or if it cannot be read."""
    try:
        return list(_parsed(content(folder).decode(errors="replace")))
    except TooLarge:
        return []


def content(folder: Path) -> bytes:
    """Return the lock file of a module; empty if there is no file, or if it cannot be read. Raises TooLarge: what is not read
    cannot be compared."""
    try:
        return read_produced(folder / NAME, _MAX_BYTES)
    except TooLarge:
        raise
    except Invalid:
        return b""


def _parsed(text: str) -> Iterator[LockedProvider]:
    # After the last end of a block, each beginning of one would be searched for its end up to the end of the file.
    last = max((end.end() for end in _END.finditer(text)), default=0)
    for block in _BLOCK.finditer(text, 0, last):
        version = _VERSION.search(block["body"])
        provider = Provider(block["address"], version[1] if version else "")
        if is_sound(provider):
            yield LockedProvider(provider, frozenset(_HASH.findall(block["body"])))
