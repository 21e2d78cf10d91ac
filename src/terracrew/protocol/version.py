"""Protocol versions: each side says the range that it speaks, and the highest common one is used."""

from terracrew.errors import Incompatible

OLDEST = 1
NEWEST = 1


def agree(oldest: int, newest: int, *, who: str) -> int:
    """Pick the version that both ends speak, or refuse with both ranges and what to do."""
    version = min(newest, NEWEST)
    if version < max(oldest, OLDEST):
        advice = "update the runner" if newest < OLDEST else "update the server"
        raise Incompatible(f"{who} speaks protocol {oldest} to {newest}, this server {OLDEST} to {NEWEST}: {advice}")
    return version
