from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.builders.clock import ShiftedClock
from tests.server.discovery.found import Found


@pytest.fixture
async def found(
    database_url: str, clock: ShiftedClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Found]:
    async with Found.open(database_url, clock, tmp_path, monkeypatch) as made:
        yield made
