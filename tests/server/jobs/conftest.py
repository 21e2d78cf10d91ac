"""Provides jobs in the two situations that most tests of decisions begin with."""

import pytest

from terracrew.server.db.seam import Database
from tests.server.jobs.changes import Change
from tests.server.jobs.waiting_jobs import Waiting


@pytest.fixture
async def change(database: Database) -> Change:
    return await Change.begun(database)


@pytest.fixture
async def job(database: Database) -> Waiting:
    return await Waiting.make(database)
