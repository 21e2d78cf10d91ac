"""A hub, a stage for real executors, and the real OpenTofu."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from terracrew.testing.executor_processes import ExecutorProcesses
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from terracrew.toolchains import discovery, install
from tests.machine.small_disk import mounted


@pytest.fixture(scope="session")
def tofu() -> str:
    """OpenTofu as a user would get it; built once, kept in the cache."""
    found = discovery.find("tofu") or install.install("tofu", report=lambda _: None)
    return found.path


@pytest.fixture
async def hub() -> AsyncIterator[FakeExecutorHub]:
    hub = FakeExecutorHub()
    await hub.start()
    yield hub
    await hub.stop()


@pytest.fixture
async def executors(hub: FakeExecutorHub, tmp_path: Path, tofu: str) -> AsyncIterator[ExecutorProcesses]:
    executors = ExecutorProcesses(hub, tmp_path)
    # An engine whose executor has died would try for seconds to save its state there, before it writes a file.
    executors.environment["TF_HTTP_RETRY_MAX"] = "0"
    yield executors
    await executors.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", "48m") as folder:
        yield folder


@pytest.fixture
async def stage_on_small_disk(hub: FakeExecutorHub, small_disk: Path, tofu: str) -> AsyncIterator[ExecutorProcesses]:
    executors = ExecutorProcesses(hub, small_disk)
    yield executors
    await executors.close()
