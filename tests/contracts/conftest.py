"""An environment without settings, for the contracts that read settings."""

import os

import pytest


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [
        name for name in os.environ if name.startswith("TERRACREW_") and not name.startswith("TERRACREW_TEST_")
    ]:
        monkeypatch.delenv(name)
