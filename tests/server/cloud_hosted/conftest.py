"""Provides a database with a scheduler, the loop of cloud-hosted runners, and a cloud in memory."""

from collections.abc import AsyncIterator

import pytest

from tests.builders.job_rows import JobRows
from tests.server.application import Application
from tests.server.cloud_hosted import played_fleet
from tests.server.cloud_hosted.played_fleet import Fleet
from tests.server.cloud_hosted.scaling_server import ScalingServer
from tests.server.cloud_hosted.simulated_cloud import SimulatedCloud


@pytest.fixture
def cloud() -> SimulatedCloud:
    return SimulatedCloud()


@pytest.fixture
async def scaler(rows: JobRows, cloud: SimulatedCloud) -> AsyncIterator[ScalingServer]:
    found = ScalingServer(rows.db, cloud)
    yield found
    await found.tasks.stop()


@pytest.fixture
async def fleet(application: Application, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Fleet]:
    async with played_fleet.playing(application, monkeypatch) as found:
        yield found
