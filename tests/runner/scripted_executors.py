"""Where the executors of these tests appear: each connects, says what it sees, and waits to be told what to do."""

import asyncio
import json
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

TIMEOUT_SECONDS = 60.0


class ScriptedExecutor:
    def __init__(self, facts: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.facts, self._reader, self._writer = facts, reader, writer
        self.pid: int = facts["pid"]

    async def tell(self, line: str) -> dict[str, Any]:
        """Say it; the answer is empty where the executor ended."""
        self._writer.write(line.encode() + b"\n")
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return json.loads(await self._reader.readline() or b"{}")

    async def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            with suppress(ConnectionResetError):
                await self._reader.read()


class ScriptedExecutors:
    def __init__(self, path: str) -> None:
        self.path = path
        self._executors: asyncio.Queue[ScriptedExecutor] = asyncio.Queue()

    async def next(self) -> ScriptedExecutor:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await self._executors.get()

    @property
    def is_empty(self) -> bool:
        return self._executors.empty()

    async def enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._executors.put_nowait(ScriptedExecutor(json.loads(await reader.readline()), reader, writer))


@asynccontextmanager
async def opened() -> AsyncIterator[ScriptedExecutors]:
    with tempfile.TemporaryDirectory(prefix="executors") as directory:
        executors = ScriptedExecutors(f"{directory}/socket")
        writers: list[asyncio.StreamWriter] = []

        async def enter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers.append(writer)
            await executors.enter(reader, writer)

        server = await asyncio.start_unix_server(enter, executors.path, limit=16 << 20)
        try:
            yield executors
        finally:
            server.close()
            for writer in writers:  # an executor that is still there reads the end, and ends
                writer.close()
