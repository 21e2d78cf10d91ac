"""Attempts whose engines stand at a gate in the middle of their change, for tests of dispatchers that run them elsewhere."""

import asyncio
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
import pytest

from terracrew.attempt import directories
from terracrew.protocol.spec import JobType
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.dispatch.protocol import Dispatcher
from terracrew.testing.executor_processes import ExecutorProcesses, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.machine.network_gate import NetworkGate

H = TypeVar("H")


class HeldAttempts:
    def __init__(self, folder: Path) -> None:
        self.folder, self.hub, self.gate = folder, FakeExecutorHub(), NetworkGate()

    async def __aenter__(self) -> Self:
        await self.hub.start()
        await self.gate.listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.gate.close()
        await self.hub.stop()

    async def held(self, dispatcher: Dispatcher[H], start: ExecutorStart) -> H:
        """Start an executor, and return when its engine stands at the gate. Fails at once if it cannot be started."""
        handle = await dispatcher.start(start)
        ending: asyncio.Task[Any] = asyncio.create_task(dispatcher.watch(handle))
        reaching = asyncio.create_task(self.gate.reached())
        await asyncio.wait({ending, reaching}, return_when=asyncio.FIRST_COMPLETED)
        if ending.done():
            reaching.cancel()
            pytest.fail(f"the executor did not reach the gate: {ending.exception() or ending.result()}")
        ending.cancel()
        await reaching
        return handle

    def start(self, main: str = "", number: int = 1, hub: FakeExecutorHub | None = None) -> ExecutorStart:
        main = main or f'resource "terraform_data" "held" {{\n  {self.gate.provisioner()}\n}}\n'
        archive = module(self.folder / f"source-{number}", main=main)
        processes = ExecutorProcesses(hub or self.hub, self.folder)
        start = processes.start_of(processes.spec(JobType.APPLY, archive, attempt=number))
        assert start.granted
        directory = directories.create(self.folder, start.granted, start.server_url)
        return msgspec.structs.replace(start, directory=str(directory))
