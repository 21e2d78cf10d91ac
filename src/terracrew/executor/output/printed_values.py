"""Receives what a command prints for the executor and not for the log: the description of a plan, or outputs.

Some of the values are sensitive, so they stay in memory. They also decide what a person is asked, so nothing but the command may
write them. A plug-in can open the standard output of the program that started it, through `/proc`, if that is a file, a file in
memory or a pipe. Linux does not let anybody open a socket in this way.
"""

import asyncio
import contextlib
import socket
from collections.abc import Generator

from terracrew.errors import Invalid

_READ_BYTES = 1 << 18


class PrintedValues:
    def __init__(self) -> None:
        self._reading, self._writing = socket.socketpair()
        self._reading.setblocking(False)
        self._content = bytearray()
        self._size = self._max_bytes = 0

    @property
    def descriptor(self) -> int:
        """The standard output of the command. Engines that wait at their gates have it, too, and print nothing."""
        return self._writing.fileno()

    @contextlib.contextmanager
    def received(self, max_bytes: int) -> Generator[None]:
        """Receive what is printed while the block runs. The command has ended at its end, so that `take` finds everything."""
        self._drain()
        self._forget(max_bytes)
        loop = asyncio.get_running_loop()
        loop.add_reader(self._reading, self._receive)
        try:
            yield
            self._drain()
        except BaseException:
            self._forget()
            raise
        finally:
            loop.remove_reader(self._reading)

    def take(self, what: str) -> bytes:
        """Return what was received. Raises Invalid if that was too much; the rest was then not kept."""
        content, size, max_bytes = bytes(self._content), self._size, self._max_bytes
        self._forget()
        if size > max_bytes:
            raise Invalid(f"the engine printed {what} of {size:,} bytes, and at most {max_bytes:,} are kept")
        return content

    def _receive(self) -> bool:
        """Receive one piece. Returns whether there was one. What is too much is received nevertheless: the command would wait."""
        try:
            piece = self._reading.recv(_READ_BYTES)
        except BlockingIOError:
            return False
        self._size += len(piece)
        if self._size <= self._max_bytes:
            self._content += piece
        else:
            self._content.clear()
        return bool(piece)

    def _drain(self) -> None:
        while self._receive():
            pass

    def _forget(self, max_bytes: int = 0) -> None:
        self._content = bytearray()
        self._size, self._max_bytes = 0, max_bytes
