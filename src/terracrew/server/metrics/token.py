"""The token in the data directory that reads `/metrics` and nothing else, even while the database is away.

No address is enough to read the metrics: requests through a proxy on the server's machine come from loopback, too, and
not every proxy says for whom it forwards them.
"""

import hmac
import secrets
from pathlib import Path

from terracrew.system import durable

FILE_NAME = "metrics.token"


def ensure(directory: Path) -> None:
    """Write a new token unless there is one. An operator may replace it at any time."""
    file = directory / FILE_NAME
    if not file.exists():
        durable.publish(file, f"tcm_{secrets.token_urlsafe(32)}\n".encode())


def is_valid(directory: Path, authorization: str) -> bool:
    """Return whether an `Authorization` header has the token."""
    scheme, _, given = authorization.partition(" ")
    try:
        expected = (directory / FILE_NAME).read_bytes().strip()
    except FileNotFoundError:
        return False
    return scheme.lower() == "bearer" and bool(expected) and hmac.compare_digest(given.strip().encode(), expected)
