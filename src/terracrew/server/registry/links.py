"""Addresses of archives, which engines fetch without a token.

An address has a sealed text in it, which names one version and ends soon. It opens this version and nothing else, and not even that
once the version is withdrawn.
"""

import msgspec

from terracrew.errors import NotFound
from terracrew.server.secrets import sealed_texts
from terracrew.server.secrets.keyring import Keyring

LINK_SECONDS = 300.0
"""An engine fetches an archive right after it was told where it is. A slow one has begun by then."""
_CONTEXT = "address of a published version"


class SealedDownload(msgspec.Struct, frozen=True):
    version_id: str
    ends_at: float


def seal(keys: Keyring, version_id: str, now: float) -> str:
    return sealed_texts.seal(keys, SealedDownload(version_id, now + LINK_SECONDS), _CONTEXT)


def opened(keys: Keyring, sealed: str, now: float) -> str:
    """Return the id of the version that an address is for. Raises NotFound if it is not one of ours, or has expired."""
    link = sealed_texts.unseal(keys, sealed, SealedDownload, _CONTEXT)
    if link is None or link.ends_at < now:
        raise unseen()
    return link.version_id


def unseen() -> NotFound:
    return NotFound("there is nothing at this address, or it has expired: run init again")
