"""The WebSockets of the hub: pings only where they are asked for, and what becomes of them is told."""

from collections.abc import Callable
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

KEEP_ALIVE = "websocket.keep_alive"
"""Beside the messages of ASGI: have the other end answer pings from now on. Runners need none, they have heartbeats."""
PONG = "websocket.pong"
"""Beside the messages of ASGI: the other end has answered a ping."""
SILENT = 1011
"""The code of a disconnection that was ours, since the other end did not answer. It was not seen to go."""
STOPPING = 1012
"""The code of a disconnection that was ours, since this server stops."""


class HubWebSocket(WebSocketsSansIOProtocol):
    on_lost: Callable[[], None] | None = None
    """Called once when the connection has ended."""

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.on_lost is not None:
            self.on_lost()
            self.on_lost = None

    async def send(self, message: Any) -> None:
        if message["type"] == KEEP_ALIVE:
            super().start_keepalive()
            return
        await super().send(message)
        if message["type"] == "websocket.accept":
            # They are referred to for as long as the connection lasts, and for a fleet that is megabytes.
            self.request.headers.clear()
            self.response.headers.clear()

    def start_keepalive(self) -> None:
        """Called when the connection is accepted, which is before it is known whose it is."""

    def handle_pong(self, event: Frame) -> None:
        is_awaited = self.pending_ping_payload is not None
        super().handle_pong(event)
        if is_awaited and self.pending_ping_payload is None:
            self.queue.put_nowait({"type": PONG})  # pyright: ignore[reportArgumentType]  (not of ASGI, see above)

    def keepalive_timeout(self) -> None:
        # Before the one that the end of the transport puts there, which looks like that of a client that was killed.
        self.queue.put_nowait({"type": "websocket.disconnect", "code": SILENT, "reason": "keepalive ping timeout"})
        super().keepalive_timeout()
