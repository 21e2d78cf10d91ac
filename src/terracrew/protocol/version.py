"""Protocol versions: each side says the range that it speaks, and the highest common one is used.

A release speaks its own version and the one before it, so that servers and runners one version apart serve each other. What
may change within a version, and what needs a new one, is in `docs/protocol.md`.
"""

import msgspec

from terracrew.errors import Incompatible, Invalid
from terracrew.protocol import messages

OLDEST = 1
NEWEST = 1


def greeted(frame: str | bytes, *, kind: str) -> int:
    """The version to speak with whoever said this hello. Nothing else of it is looked at: it may be of any version."""
    try:
        greeting = messages.decode_greeting(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        why = str(error)[:500]
        raise Invalid(f"the first message is a hello with the protocol versions of the {kind}: {why}") from None
    return agree(greeting.oldest_protocol, greeting.newest_protocol, who=f"{kind} {greeting.version[:100]}")


def agree(oldest: int, newest: int, *, who: str) -> int:
    """Pick the version that both ends speak, or refuse with both ranges and what to do."""
    version = min(newest, NEWEST)
    if version < max(oldest, OLDEST):
        mine = _range(OLDEST, NEWEST)
        advice = "update the runner" if newest < OLDEST else f"update the server, or use a runner that speaks {mine}"
        raise Incompatible(f"{who} speaks protocol {_range(oldest, newest)}, this server {mine}: {advice}")
    return version


def accept(agreed: int, *, who: str) -> None:
    """Refuse, on the client's side, a version that a server has picked without asking."""
    if not OLDEST <= agreed <= NEWEST:
        mine = _range(OLDEST, NEWEST)
        advice = "update the server" if agreed < OLDEST else "update the runner"
        raise Incompatible(f"the server speaks protocol {agreed}, this {who} {mine}: {advice}")


def _range(oldest: int, newest: int) -> str:
    return f"{oldest}" if oldest == newest else f"{oldest} to {newest}"
