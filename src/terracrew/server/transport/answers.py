"""Sends the head of an answer together with the beginning of its body: one system call, and one packet that wakes the client once."""

import asyncio

MAX_JOINED_BYTES = 64 * 1024
"""A larger piece of a body is not copied."""


class AnswerTransport:
    """What uvicorn writes one answer to. The first piece, which is the head, waits for the second one for two turns of the event loop.

    An application sends the first piece of a body in the same turn as the head, or in the next one if it makes a task for its stream.
    """

    __slots__ = ("_has_begun", "_held", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._held = b""
        self._has_begun = False

    def write(self, data: bytes) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._held = data
            self._loop.call_soon(self._wait)
        elif self._held and len(data) <= MAX_JOINED_BYTES:
            held, self._held = self._held, b""
            self._transport.write(held + data)
        else:
            self._flush()
            self._transport.write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def _wait(self) -> None:
        if self._held:
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        held, self._held = self._held, b""
        if held and not self._transport.is_closing():
            self._transport.write(held)
