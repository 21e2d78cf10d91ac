"""Masks Terracrew's own secrets in a log by their shape, because an executor can mask only the secrets that it knows."""

import re

MASK = b"***"
# One search is faster than a search for each prefix, and it nearly always finds nothing. The character before the prefix is
# checked last (`fetch_…` is not a secret), so that the search can jump from one `tc` to the next.
_SECRET = re.compile(rb"tc[uswohjldtr]_(?<![A-Za-z0-9]tc[uswohjldtr]_)[A-Za-z0-9_-]{40,}")


def has_secret(text: bytes) -> bool:
    return _SECRET.search(text) is not None


def mask(text: bytes) -> bytes:
    return _SECRET.sub(MASK, text)
