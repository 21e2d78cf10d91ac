"""Protocol versions: each side sends the range that it supports, and the highest common version is used.

Runners and executors work with servers that are at most one minor version older or newer: those of 0.1.x with servers of 0.1.x
and 0.2.x. So a release also speaks the protocol of the minor version before it. What may change within a version of the
protocol, and what needs a new one, is in `docs/protocol.md`.
"""

import msgspec

from terracrew.errors import Incompatible, Invalid
from terracrew.protocol import messages

OLDEST_VERSION = 1
NEWEST_VERSION = 1


def greeted(frame: str | bytes, *, kind: str) -> int:
    """Return the version to use with the client that sent this hello. Only the fields that every version has are read."""
    try:
        greeting = messages.decode_greeting(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        why = str(error)[:500]
        raise Invalid(f"the first message must be a hello with the protocol versions of the {kind}: {why}") from None
    return agree(greeting.oldest_protocol, greeting.newest_protocol, who=f"{kind} {greeting.version[:100]}")


def agree(oldest: int, newest: int, *, who: str) -> int:
    """Return the highest version that both ends support, or raise Incompatible with both ranges and what to do."""
    version = min(newest, NEWEST_VERSION)
    if version < max(oldest, OLDEST_VERSION):
        mine = _range(OLDEST_VERSION, NEWEST_VERSION)
        advice = (
            "update the runner" if newest < OLDEST_VERSION else f"update the server, or use a runner that speaks {mine}"
        )
        raise Incompatible(f"{who} speaks protocol {_range(oldest, newest)}, this server {mine}: {advice}")
    return version


def accept(agreed: int, *, who: str) -> None:
    """Raise Incompatible, on the client's side, if the server has picked a version that this client does not support."""
    if not OLDEST_VERSION <= agreed <= NEWEST_VERSION:
        mine = _range(OLDEST_VERSION, NEWEST_VERSION)
        advice = "update the server" if agreed < OLDEST_VERSION else "update the runner"
        raise Incompatible(f"the server speaks protocol {agreed}, this {who} {mine}: {advice}")


def _range(oldest: int, newest: int) -> str:
    return f"{oldest}" if oldest == newest else f"{oldest} to {newest}"
