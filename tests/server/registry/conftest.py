"""A published module that follows tags."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.builders.clock import ShiftedClock
from tests.server.discovery.found import Found
from tests.server.registry.tagged import Tagged


@pytest.fixture
async def tagged(
    database_url: str, clock: ShiftedClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Tagged]:
    async with Found.open(database_url, clock, tmp_path, monkeypatch) as found:
        yield Tagged(found)
