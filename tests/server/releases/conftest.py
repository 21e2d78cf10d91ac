"""A server that knows the key of releases."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.builders.clock import ShiftedClock
from tests.server.application import Application, open_application
from tests.server.releases.signed_files import KEY


@pytest.fixture
async def releasing(
    database_url: str, memory_path: Path, database_clock: ShiftedClock | None
) -> AsyncIterator[Application]:
    """A server without a socket that knows the key with which the tests sign releases."""
    async with open_application(
        database_url, memory_path / "data", clock=database_clock, release_key=str(KEY.public_key)
    ) as opened:
        yield opened
