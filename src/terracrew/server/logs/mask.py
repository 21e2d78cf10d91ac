"""Masks Terracrew's own secrets in a log by their shape: an executor can only mask those that it knows."""

import re

MASK = b"***"
# One search is faster than looking for each prefix by itself, and nearly always it finds nothing. What stands before the
# prefix is looked at last (`fetch_…` is no secret), so that the search can hop from one `tc` to the next.
_SECRET = re.compile(rb"tc[uswhjld]_(?<![A-Za-z0-9]tc[uswhjld]_)[A-Za-z0-9_-]{40,}")


def has_secret(text: bytes) -> bool:
    return _SECRET.search(text) is not None


def mask(text: bytes) -> bytes:
    return _SECRET.sub(MASK, text)
