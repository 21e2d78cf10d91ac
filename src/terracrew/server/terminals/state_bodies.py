"""Receives states that command lines send. Many of them arrive at once, and slowly, but only a few large ones are in memory."""

import asyncio
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

from terracrew.errors import TooLarge
from terracrew.server.uploads.service import Staging

BLOCK_BYTES = 1024 * 1024
"""What is larger goes to the disk while it arrives, encrypted in blocks of this size: no plain state is ever on the disk."""
MAX_LARGE_BODIES = 2
"""How many large bodies are in memory at once."""
_CONTEXT = "state that arrives"


class StateBodies:
    def __init__(self, staging: Staging, folder: Path) -> None:
        self._staging, self._folder = staging, folder
        self._turns = asyncio.Semaphore(MAX_LARGE_BODIES)

    @asynccontextmanager
    async def received(self, body: AsyncIterator[bytes], max_bytes: int) -> AsyncGenerator[bytes]:
        """Wait until a body has arrived, and then for the turn to have it in memory until the block ends."""
        size, lengths, block = 0, list[int](), bytearray()
        with tempfile.TemporaryFile(dir=self._folder, prefix="state-") as file:
            async for piece in body:
                size += len(piece)
                if size > max_bytes:
                    raise TooLarge(f"this has more than {max_bytes:,} bytes, which is too large for a state")
                block += piece
                if len(block) > BLOCK_BYTES:
                    self._staging.disk.require()
                    lengths.append(file.write(self._staging.keys.encrypt(bytes(block), _CONTEXT)))
                    block = bytearray()
            if not lengths:
                yield bytes(block)
                return
            async with self._turns:
                yield await asyncio.to_thread(self._read, file, lengths, block)

    def _read(self, file: IO[bytes], lengths: list[int], rest: bytearray) -> bytes:
        file.seek(0)
        blocks = (self._staging.keys.decrypt(file.read(length), _CONTEXT) for length in lengths)
        return b"".join([*blocks, rest])
