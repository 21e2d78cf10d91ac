"""The world that tests of identity and of the audit log act in."""

import pytest
from argon2 import PasswordHasher

from terracrew.server.db import Database
from terracrew.server.identity.people import passwords
from tests.server.identity.world import World, build


@pytest.fixture
async def world(database: Database) -> World:
    return await build(database)


@pytest.fixture(autouse=True)
def cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real algorithm at its lowest cost."""
    monkeypatch.setattr(passwords, "_hasher", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
