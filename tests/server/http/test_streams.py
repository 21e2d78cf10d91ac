"""A stream that stays open ends when its reader loses the right to read it."""

from collections.abc import AsyncIterator

import pytest

from terracrew.server.db import Database
from terracrew.server.http.streams import Streams
from terracrew.server.principals.model import Principal


@pytest.mark.parametrize(
    "reader",
    [
        Principal("user", "usr_1", "vera", "org_1", credential="token", credential_ends_at=2000.0),
        Principal("service_account", "sac_1", "ci", "org_1", expires_at=2000.0, credential="secret"),
        Principal(
            "service_account", "sac_1", "ci", "org_1", expires_at=2000.0, credential="secret", credential_ends_at=9000.0
        ),
        Principal(
            "service_account", "sac_1", "ci", "org_1", expires_at=9000.0, credential="secret", credential_ends_at=2000.0
        ),
    ],
)
async def test_a_stream_ends_with_the_token_that_opened_it(database: Database, reader: Principal) -> None:
    """A token of one day that had opened a stream followed jobs and logs for as long as the connection lasted, and an access token
    of fifteen minutes did so until its secret ended."""
    now = 1000.0

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"event"

    stream = Streams(database, lambda: now).admit(reader, endless())
    assert await anext(stream) == b"event"
    now = 2000.0
    assert [piece async for piece in stream] == []
