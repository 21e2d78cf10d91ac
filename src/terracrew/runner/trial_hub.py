"""The server of a no-op job: it is in the runner's own process, on loopback, and knows one attempt.

A runner on trial has no job of its server yet, but an executor ends only when everything is delivered, and applies only what it has
permission for. So it is given a server that says yes, and keeps nothing but the end of the log and the result.
"""

import logging
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http import HTTPStatus
from secrets import compare_digest

from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from terracrew.client.hub import PATH
from terracrew.protocol import events, frames, messages, version
from terracrew.protocol.events import Kind, Result

log = logging.getLogger(__name__)

_KEPT_LINES_COUNT = 5
_MAX_LINE_CHARACTERS = 300
_CLOSE_SECONDS = 1.0


class TrialHub:
    """Takes what the executor of one attempt delivers."""

    def __init__(self, credential: str) -> None:
        self._credential = credential
        self._mark = 0
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES_COUNT)
        self.result: Result | None = None
        """How the attempt ended; None if it has not said so."""

    @property
    def last_lines(self) -> str:
        """The end of its log, in one line."""
        return " ".join(line for line in self._lines if line)

    @asynccontextmanager
    async def listen(self) -> AsyncGenerator[str]:
        """Yield the address that its executor connects to."""
        async with serve(
            self._converse,
            "127.0.0.1",
            0,
            process_request=self._check,
            compression=None,
            max_size=messages.MAX_GRANT_FRAME_BYTES,
            close_timeout=_CLOSE_SECONDS,
        ) as listening:
            port = next(iter(listening.sockets)).getsockname()[1]
            yield f"http://127.0.0.1:{port}"

    def _check(self, connection: ServerConnection, request: Request) -> Response | None:
        """Refuse other processes of this machine."""
        given = request.headers.get("Authorization", "")
        if request.path == PATH and compare_digest(given.encode(), f"Bearer {self._credential}".encode()):
            return None
        return connection.respond(HTTPStatus.FORBIDDEN, "this is not for you\n")

    async def _converse(self, connection: ServerConnection) -> None:
        try:
            async for frame in connection:
                answer = self._take_batch(frame) if isinstance(frame, bytes) else self._take_message(frame)
                await connection.send(messages.encode(answer), text=True)
        except ValueError:
            log.exception("the executor of the no-op job sent something that is not part of the protocol")

    def _take_message(self, frame: str) -> messages.ExecutorWelcome | messages.Begun:
        message: messages.FromExecutor = messages.decode_from_executor(frame)
        if isinstance(message, messages.Begin):
            return messages.Begun(message.state_version)
        return messages.ExecutorWelcome(self._mark, version.NEWEST_VERSION, has_result=self.result is not None)

    def _take_batch(self, frame: bytes) -> messages.Ack:
        header, body = frames.unpack(frame)
        if header.first > self._mark + 1:
            raise ValueError(f"event {header.first} came after event {self._mark}")
        for record in list(events.unpack(body))[self._mark + 1 - header.first :]:
            self._mark += 1
            if record.kind == Kind.LOG:
                text = record.payload.decode(errors="replace")
                self._lines.extend(line.strip()[:_MAX_LINE_CHARACTERS] for line in text.splitlines())
            elif record.kind == Kind.FACT and isinstance(fact := events.fact_of(record), Result):
                self.result = fact
        return messages.Ack(self._mark)
