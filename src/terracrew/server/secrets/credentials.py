"""Long random secrets: their form, and their hash, which is all that is stored.

A secret of 256 random bits needs no slow hash, and the time of a lookup of its SHA-256 in an index reveals nothing.
"""

import hashlib
import re
import secrets
from typing import Literal

import msgspec

Prefix = Literal["tcu", "tcs", "tcw", "tco", "tch", "tcj", "tcl", "tcd", "tcr", "tca"]
"""API token of a user, secret of a service account, worker token, once token, an attempt's hub and API credentials, one-time link,
dashboard session, release token, code of a login at a terminal.
A runner makes the ticket of a start itself (`tct`, see `protocol/start.py`)."""
ANYWHERE = re.compile(r"\btc[uswohjldtra]_[A-Za-z0-9_-]{43}")


class Secret(msgspec.Struct, frozen=True):
    """A new secret: `text` is shown once, `sha256` is stored."""

    text: str
    sha256: str

    def __repr__(self) -> str:
        return f"Secret({self.text[:4]}…)"


def new(prefix: Prefix) -> Secret:
    text = f"{prefix}_{secrets.token_urlsafe(32)}"
    return Secret(text, digest(text))


def digest(text: str) -> str:
    # A header may hold anything; a value that is not UTF-8 matches nothing.
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()
