"""Structs that browsers and engines carry for the server, in addresses and cookies: encrypted under the master key, and stored nowhere.

A text is bound to what it is for (its context). When it ends, and for whom it is, its struct has to say.
"""

import base64
from typing import TypeVar

import msgspec

from terracrew.errors import Undecryptable
from terracrew.server.secrets.keyring import Keyring

MAX_CHARACTERS = 8_000
S = TypeVar("S", bound=msgspec.Struct)


def seal(keys: Keyring, content: msgspec.Struct, context: str) -> str:
    """Return the text that stands for a struct."""
    sealed = keys.encrypt(msgspec.json.encode(content), context)
    return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()


def unseal(keys: Keyring, text: str, kind: type[S], context: str) -> S | None:
    """Return the struct that a text stands for; None for a text that no server with this master key has made for this context."""
    try:
        if len(text) > MAX_CHARACTERS:
            return None
        sealed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(keys.decrypt(sealed, context), type=kind)
    except (Undecryptable, msgspec.MsgspecError, ValueError):
        return None
