"""Browsers that a person has logged in with before. They have a limit of their own, so another person's wrong guesses from
the same address do not lock the person out.

The cookie is encrypted under the master key and names the person; nothing is stored. It does not log anybody in.
"""

import base64
import binascii
import secrets

import msgspec

from terracrew.errors import TerracrewError
from terracrew.server.secrets.keyring import Keyring

LIFETIME_SECONDS = 180 * 86400
_CONTEXT = "known browser"
_MAX_COOKIE_BYTES = 1024


class _Device(msgspec.Struct, frozen=True):
    id: str
    name: str
    made_at: float


def new(keys: Keyring, name: str, now: float) -> str:
    """Return the cookie for a browser in which this person has just logged in."""
    device = msgspec.json.encode(_Device(secrets.token_hex(16), name, now))
    return base64.urlsafe_b64encode(keys.encrypt(device, _CONTEXT)).decode().rstrip("=")


def known_id(keys: Keyring, cookie: str | None, name: str, now: float) -> str | None:
    """Return the id of a browser that this person has logged in with before; None for every other browser."""
    if not cookie or len(cookie) > _MAX_COOKIE_BYTES:
        return None
    try:
        sealed = base64.urlsafe_b64decode(cookie + "=" * (-len(cookie) % 4))
        device = msgspec.json.decode(keys.decrypt(sealed, _CONTEXT), type=_Device)
    except (TerracrewError, binascii.Error, ValueError, msgspec.MsgspecError):
        return None
    is_valid = device.name == name and 0 <= now - device.made_at < LIFETIME_SECONDS
    return device.id if is_valid else None
