"""Holds a provisioner at a known place over the network, for engines that cannot see the files of the test."""

import asyncio


class NetworkGate:
    """What `testing.executor_processes.Gate` does, for an engine in a container with the network of this machine."""

    def __init__(self) -> None:
        self._server: asyncio.Server | None = None
        self._arrivals = asyncio.Queue[asyncio.StreamWriter]()
        self._waiting: asyncio.StreamWriter | None = None
        self.port = 0

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._arrived, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _arrived(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        await self._arrivals.put(writer)

    def provisioner(self, before: str = "true", after: str = "true") -> str:
        command = f"{before}; echo at the gate; nc 127.0.0.1 {self.port}; {after}"
        return f'provisioner "local-exec" {{ command = "{command}" }}'

    async def reached(self) -> None:
        if self._waiting is None:
            self._waiting = await asyncio.wait_for(self._arrivals.get(), 120)

    async def open(self) -> None:
        await self.reached()
        assert self._waiting
        self._waiting.close()
        self._waiting = None

    async def close(self) -> None:
        assert self._server
        self._server.close()
        for writer in (*([self._waiting] if self._waiting else []), *_drained(self._arrivals)):
            writer.close()


def _drained(queue: asyncio.Queue[asyncio.StreamWriter]) -> list[asyncio.StreamWriter]:
    return [queue.get_nowait() for _ in range(queue.qsize())]
