"""The dispatcher `local` keeps the contract of a dispatcher, with real executors and the real OpenTofu."""

import os
import signal
from pathlib import Path

import pytest

from terracrew.attempt import files, ownership
from terracrew.runner import environment
from terracrew.runner.dispatch.local import Local
from terracrew.runner.processes import search
from terracrew.testing.dispatcher_contract import DispatcherContract

pytestmark = [
    pytest.mark.engine,
    pytest.mark.feature("D1.local", "D6.watched", "J9.escalation", "J9.reported", "O4.adopted"),
    pytest.mark.timeout(300),
]


class TestLocal(DispatcherContract):
    def opened(self, folder: Path) -> Local:
        return Local("terracrew.executor.main:run", environment.for_zygote(os.environ, is_built_in=False))

    def kill_executor(self, directory: Path) -> None:
        process = ownership.process_of(directory)
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)

    def remains(self, directory: Path) -> bool:
        workspace = (directory / files.WORKSPACE).resolve()
        return search.found_in([directory.resolve(), workspace]) is not None
