"""Answers in pieces. Of event streams, it limits how many a reader has open, and ends them when the reader's rights change."""

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable

from terracrew.errors import RateLimited
from terracrew.server.db.seam import Database
from terracrew.server.principals.model import Principal

MAX_STREAMS = 100
"""The most open streams of one principal; each reads the database whenever something changes."""


async def begun(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Return the same pieces after the first one was read, so that what cannot be read is an error and not an empty answer."""
    first = await anext(pieces, b"")

    async def all_pieces() -> AsyncIterator[bytes]:
        yield first
        async for piece in pieces:
            yield piece

    return all_pieces()


class Streams:
    def __init__(self, db: Database, clock: Callable[[], float] = time.time) -> None:
        self._db, self._clock = db, clock
        self._open: Counter[str] = Counter()
        self._changes: Counter[str] = Counter()

    def admit(self, who: Principal, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the same stream until the reader's access token or its credential ends, or their roles change; a reader who still may
        reconnects."""
        if self._open[who.id] >= MAX_STREAMS:
            raise RateLimited(f"you have {MAX_STREAMS} streams open already: close some of them first")
        ends = [at for at in (who.expires_at, who.credential_ends_at) if at is not None]
        return self._admitted(who.id, min(ends, default=None), stream)

    async def _admitted(self, reader: str, ends_at: float | None, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        self._open[reader] += 1
        before = self._changes[reader], self._changes[""]
        try:
            async for piece in stream:
                is_over = (
                    ends_at is not None and self._clock() >= ends_at
                )  # no wake-up announces that a token has expired
                if is_over or before != (self._changes[reader], self._changes[""]):
                    return
                yield piece
        finally:
            self._open[reader] -= 1
            if not self._open[reader]:
                del self._open[reader], self._changes[reader]

    async def watch_rights(self) -> None:
        """Listen for changes of rights, on this and on other servers, for as long as the server runs."""
        with self._db.listen("access", "roles") as wakeups:
            async for _, reader in wakeups:
                if not reader or reader in self._open:
                    self._changes[reader] += 1
