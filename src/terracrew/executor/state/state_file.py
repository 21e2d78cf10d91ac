"""The file in which an engine keeps its state, if it cannot use the attempt's backend: it is written, followed, and read at the end."""

import asyncio
import contextlib
import hashlib
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from terracrew.errors import Invalid, TerracrewError
from terracrew.executor.state import leftover

_LOOK_SECONDS = 0.1
"""How often the file is looked at. At most this much of a change is lost if the machine dies with the engine."""


class StateFile:
    def __init__(self, path: Path, place: Path) -> None:
        """The engine can write everywhere in `place`, and might lead out of it by a link."""
        self.path, self._place = path, place
        self._seen: tuple[int, int, int] | None = None
        """The inode, the time and the size of the file that was recorded last."""
        self.sha256 = ""
        """The hash of the content that was placed or recorded last."""

    def placed(self, content: bytes) -> None:
        """Note that the file was written with this content, before a command."""
        self._seen = self._stat()
        self.recorded(content)

    @asynccontextmanager
    async def followed(self, write: Callable[[bytes], Awaitable[object]]) -> AsyncGenerator[None]:
        """Give every new content of the file to `write` while the block runs. `changed` returns what is new after that."""
        has_ended = asyncio.Event()
        following = asyncio.create_task(self._follow(write, has_ended))
        try:
            yield
        finally:
            has_ended.set()
            await following  # a write that has begun goes on to its end

    def changed(self) -> bytes | None:
        """Return the content of the file if it is not the one that was placed or recorded last.

        Raises Invalid if the engine has removed the file, or put something in its place that is not a state.
        """
        try:
            content = leftover.read(self.path, self._place)
        except OSError as error:
            raise Invalid(
                f"the engine has removed its state, {self.path.name}, or replaced it: {error.strerror}"
            ) from error
        if content is None:
            raise Invalid(leftover.too_large(self.path.name))
        return content if hashlib.sha256(content).hexdigest() != self.sha256 else None

    def recorded(self, content: bytes) -> None:
        """Note that a content is recorded."""
        self.sha256 = hashlib.sha256(content).hexdigest()

    async def _follow(self, write: Callable[[bytes], Awaitable[object]], has_ended: asyncio.Event) -> None:
        while not has_ended.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(has_ended.wait(), _LOOK_SECONDS)
            if (found := self._stat()) is None or found == self._seen:
                continue
            self._seen = found
            # What cannot be read or written now is tried again with the next content, and at the end.
            with contextlib.suppress(OSError, TerracrewError):
                if content := self.changed():
                    await write(content)
                    self.recorded(content)

    def _stat(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size
