"""A stream that stays open ends when its reader loses the right to read it."""

from collections.abc import AsyncIterator

from terracrew.server.db import Database
from terracrew.server.http.streams import Streams
from terracrew.server.principals.model import Principal


async def test_a_stream_ends_with_the_token_that_opened_it(database: Database) -> None:
    """A token of one day that had opened a stream followed jobs and logs for as long as the connection lasted."""
    now = 1000.0
    reader = Principal("user", "usr_1", "vera", "org_1", credential="token", credential_ends_at=2000.0)

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"event"

    stream = Streams(database, lambda: now).admit(reader, endless())
    assert await anext(stream) == b"event"
    now = 2000.0
    assert [piece async for piece in stream] == []
