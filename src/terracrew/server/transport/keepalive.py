"""The WebSockets of the hub. They send pings only on request, and report each answer or its absence to the application."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request
from websockets.protocol import State

KEEP_ALIVE = "websocket.keep_alive"
"""A message that ASGI does not have: send pings from now on. Runners send heartbeats, so their connections need no pings."""
PONG = "websocket.pong"
"""A message that ASGI does not have: the other end has answered a ping."""
END_TURN = "websocket.end_turn"
"""A message that ASGI does not have: the credential was checked, or its check waits for the database, so the next handshake
may begin."""
_SEND_NOW = "websocket.send_now"
"""An extension that ASGI does not have, see `send_now_of`."""
SILENT_CODE = 1011
"""The close code if this server disconnects because the other end did not answer. The other end may still be alive."""
STOPPING_CODE = 1012
"""The close code if this server disconnects because it is stopping."""
CLOSE_SECONDS = 3.0
"""How long the other end may take to answer a close. Uvicorn waits for ten seconds, and a refused connection
counts towards the limits for that time."""
MAX_BYTES_AFTER_CLOSE = 64 * 1024
"""After this many bytes nothing more is read. Nothing uses them, and a frame of 5 MB would be buffered until it is complete."""


def send_now_of(scope: Any) -> Callable[[bytes], bool] | None:
    """Return the function that sends a text frame without waiting, and returns whether it could. Not every connection has it."""
    extensions: dict[str, dict[str, Any]] = scope.get("extensions") or {}
    return extensions.get(_SEND_NOW, {}).get("function")


class HubWebSocket(WebSocketsSansIOProtocol):
    on_lost: Callable[[], None] | None = None
    """Called once when the connection has ended."""
    on_turn_end: Callable[[], None] | None = None
    """Called once when this connection does not occupy a turn for handshakes any more."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.close_timeout = CLOSE_SECONDS
        self._bytes_after_close = 0

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            self.scope["extensions"] = {**(self.scope.get("extensions") or {}), _SEND_NOW: {"function": self._send_now}}

    def data_received(self, data: bytes) -> None:
        if self.handshake_initiated and not self.handshake_complete:
            self.transport.close()  # a client says nothing before its handshake is answered (RFC 6455)
            return
        if self.close_sent:
            self._bytes_after_close += len(data)
            if self._bytes_after_close > MAX_BYTES_AFTER_CLOSE:
                return
        super().data_received(data)

    def send_receive_event_to_app(self) -> None:
        """Queue a message for the application, and stop reading if it has not taken the message before.

        Uvicorn stops reading after each message, and reads on when it is taken: two system calls for each. After a close it does not
        stop, because nobody takes messages any more, and the answer of the other end has to be read.
        """
        is_paused, self.read_paused = self.read_paused, True
        super().send_receive_event_to_app()
        self.read_paused = is_paused
        if not is_paused and not self.close_sent and self.queue.qsize() > 1:
            self.read_paused = True
            self.transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._end_turn()
        if self.on_lost is not None:
            self.on_lost()
            self.on_lost = None

    async def send(self, message: Any) -> None:
        if message["type"] == KEEP_ALIVE:
            super().start_keepalive()
            return
        if message["type"] == END_TURN:
            self._end_turn()
            return
        await super().send(message)
        if message["type"] == "websocket.close":
            self._end_turn()
        if message["type"] == "websocket.accept":
            # The headers would be kept in memory as long as the connection lasts, which takes megabytes for a fleet.
            self.request.headers.clear()
            self.response.headers.clear()

    def _send_now(self, text: bytes) -> bool:
        """Send a text frame, unless the client has not read what it was sent before, or the connection is not open."""
        is_open = self.handshake_complete and not self.disconnected and not self.close_sent
        if not is_open or not self.writable.is_set() or self.conn.state is not State.OPEN:
            return False
        self.conn.send_text(text)
        self.transport.write(b"".join(self.conn.data_to_send()))
        return True

    def _end_turn(self) -> None:
        if self.on_turn_end is not None:
            self.on_turn_end()
            self.on_turn_end = None

    def start_keepalive(self) -> None:
        """Do nothing. Uvicorn calls this when the connection is accepted, before the client is authenticated."""

    def handle_pong(self, event: Frame) -> None:
        is_awaited = self.pending_ping_payload is not None
        super().handle_pong(event)
        if is_awaited and self.pending_ping_payload is None:
            self.queue.put_nowait({"type": PONG})  # pyright: ignore[reportArgumentType]  (not of ASGI, see above)

    def keepalive_timeout(self) -> None:
        # This must be queued before the message about the end of the transport, which looks like that of a client that was killed.
        self.queue.put_nowait({"type": "websocket.disconnect", "code": SILENT_CODE, "reason": "keepalive ping timeout"})
        super().keepalive_timeout()
