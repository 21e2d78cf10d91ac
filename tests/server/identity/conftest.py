"""Tests of identity hash passwords with the real algorithm at its lowest cost."""

import pytest
from argon2 import PasswordHasher

from terracrew.server.identity.people import passwords


@pytest.fixture(autouse=True)
def cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "_hasher", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
