"""Addresses of archives, which engines fetch without a token.

An address has a sealed text in it, which names one version and ends soon. It opens this version and nothing else, and not even that
once the version is withdrawn.
"""

import base64
import binascii

import msgspec

from terracrew.errors import NotFound, Undecryptable
from terracrew.server.secrets.keyring import Keyring

LINK_SECONDS = 300.0
"""An engine fetches an archive right after it was told where it is. A slow one has begun by then."""
MAX_SEALED_CHARACTERS = 1_000
_CONTEXT = "address of a published version"


class SealedDownload(msgspec.Struct, frozen=True):
    version_id: str
    ends_at: float


def seal(keys: Keyring, version_id: str, now: float) -> str:
    link = SealedDownload(version_id, now + LINK_SECONDS)
    return base64.urlsafe_b64encode(keys.encrypt(msgspec.json.encode(link), _CONTEXT)).rstrip(b"=").decode()


def opened(keys: Keyring, sealed: str, now: float) -> str:
    """Return the id of the version that an address is for. Raises NotFound if it is not one of ours, or has expired."""
    try:
        if len(sealed) > MAX_SEALED_CHARACTERS:
            raise ValueError
        plain = keys.decrypt(base64.urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4)), _CONTEXT)
        link = msgspec.json.decode(plain, type=SealedDownload)
    except (Undecryptable, msgspec.MsgspecError, binascii.Error, ValueError):
        raise unseen() from None
    if link.ends_at < now:
        raise unseen()
    return link.version_id


def unseen() -> NotFound:
    return NotFound("there is nothing at this address, or it has expired: run init again")
