"""Browsers that a person has logged in with before. They have a limit of their own, so another person's wrong guesses from
the same address do not lock the person out.

The cookie is encrypted under the master key and names the person; nothing is stored. It does not log anybody in.
"""

import secrets

import msgspec

from terracrew.server.secrets import sealed_texts
from terracrew.server.secrets.keyring import Keyring

LIFETIME_SECONDS = 180 * 86400
_CONTEXT = "known browser"


class _Device(msgspec.Struct, frozen=True):
    id: str
    name: str
    made_at: float


def new(keys: Keyring, name: str, now: float) -> str:
    """Return the cookie for a browser in which this person has just logged in."""
    return sealed_texts.seal(keys, _Device(secrets.token_hex(16), name, now), _CONTEXT)


def known_id(keys: Keyring, cookie: str | None, name: str, now: float) -> str | None:
    """Return the id of a browser that this person has logged in with before; None for every other browser."""
    device = sealed_texts.unseal(keys, cookie or "", _Device, _CONTEXT)
    if device is None or device.name != name or not 0 <= now - device.made_at < LIFETIME_SECONDS:
        return None
    return device.id
