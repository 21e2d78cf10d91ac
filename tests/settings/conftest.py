"""A settings file of a runner, in an environment without settings."""

import os
from pathlib import Path

import pytest

from tests.settings.runner_files import write


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("TERRACREW_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "runner.json")
