"""The dispatcher `local` keeps the contract of a dispatcher, with real executors and the real OpenTofu."""

import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from terracrew.attempt import files, ownership
from terracrew.runner import environment
from terracrew.runner.dispatch.local.dispatcher import Local
from terracrew.runner.processes import members
from terracrew.testing.dispatcher_contract import DispatcherContract

pytestmark = [
    pytest.mark.engine,
    pytest.mark.feature("D1.local", "D6.watched", "J9.escalation", "J9.reported", "O4.adopted"),
    pytest.mark.timeout(300),
]


class TestLocal(DispatcherContract):
    not_started_reason = "the process that starts executors"
    away_seconds = 3.0

    def opened(self, folder: Path, key: str = "", entry: str = "terracrew.executor.main:run") -> Local:
        dispatcher = Local(entry, environment.for_zygote(os.environ, is_built_in=False))
        dispatcher.use_instance(key or str(folder))
        return dispatcher

    def opened_without_image(self, folder: Path) -> Local:
        return self.opened(folder, entry="terracrew.executor.missing:run")

    @asynccontextmanager
    async def away(self, dispatcher: Any) -> AsyncGenerator[None]:
        os.kill(dispatcher.zygote.pid, signal.SIGKILL)
        yield

    def executor_pid(self, directory: Path) -> int:
        process = ownership.process_of(directory)
        assert process is not None
        return process.pid

    def remains(self, directory: Path) -> bool:
        workspace = (directory / files.WORKSPACE).resolve()
        return members.found_in([directory.resolve(), workspace]) is not None
