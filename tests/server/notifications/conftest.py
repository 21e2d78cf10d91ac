"""Provides a server that may send to this machine, a receiver, and a channel for it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.builders.clock import ShiftedClock
from tests.machine import receiver as receivers
from tests.machine.receiver import Receiver
from tests.server.application import Application, open_application
from tests.server.notifications.telling import Telling


@pytest.fixture
async def application(
    database_url: str, memory_path: Path, database_clock: ShiftedClock | None
) -> AsyncIterator[Application]:
    """A server that may send to 127.0.0.1, and to no other private address."""
    async with open_application(
        database_url, memory_path / "data", clock=database_clock, private_destinations=["127.0.0.1"]
    ) as opened:
        yield opened


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receivers.running() as running:
        yield running


@pytest.fixture
async def telling(application: Application) -> Telling:
    return Telling(application)
