"""Uvicorn's HTTP protocol with limits: on the size of headers, on the time that each phase may take, on connections.

Uvicorn itself limits neither headers nor the time that a request takes to arrive.
"""

import asyncio
from enum import StrEnum
from http import HTTPStatus
from typing import Any, cast

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from terracrew.logging import get_logger
from terracrew.server.transport import refusals
from terracrew.server.transport.connections import Connections
from terracrew.server.transport.handshakes import Handshakes
from terracrew.server.transport.keepalive import HubWebSocket

MAX_HEAD_BYTES = 64 * 1024
"""The limit for the request line and headers of one request, and for the chunk framing and trailers between two pieces of a body."""
MAX_HEADER_FIELDS = 200
HEAD_TIMEOUT_SECONDS = 10.0
"""The time from the connection, or from the first byte of a later request, to the end of the headers."""
IDLE_TIMEOUT_SECONDS = 75.0
"""How long a connection waits for its next request. A proxy closes it earlier: nginx after 60 s, Caddy after 30 s."""
BODY_WINDOW_SECONDS = 30.0
MIN_BODY_BYTES_PER_WINDOW = 15_000
"""A body that arrives more slowly than this, 500 bytes per second, is refused."""
DRAIN_SECONDS = 0.5
"""How long a connection that waits for a request stays open after the server was told to stop, so that one that is on its way is
answered."""
WRITE_STALL_SECONDS = 120.0
"""How long a client may leave a full send buffer unread."""
RETRY_AFTER_SECONDS = 2
_TOO_MANY = refusals.render(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "unavailable",
    "too many connections are open; close some, or try again in a moment",
    RETRY_AFTER_SECONDS,
)
HANDSHAKE_RETRY_AFTER_SECONDS = 5
_TOO_MANY_HANDSHAKES = refusals.render(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "unavailable",
    "too many WebSocket connections are being opened; try again in a moment",
    HANDSHAKE_RETRY_AFTER_SECONDS,
)
_NO_HANDSHAKE = refusals.render(HTTPStatus.BAD_REQUEST, "invalid", "this is not a valid WebSocket handshake")
_STOPPING = refusals.render(
    HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", "this server stops; connect again", RETRY_AFTER_SECONDS
)
_log = get_logger("terracrew.server.transport")


class LimitedConfig(uvicorn.Config):
    """Uvicorn's configuration, and the tables of connections and handshakes that its protocols share."""

    def __init__(self, app: Any, connections: Connections, **settings: Any) -> None:
        super().__init__(app, http=LimitedHttpProtocol, **settings)
        self.open_connections = connections
        self.handshakes = Handshakes()


class Phase(StrEnum):
    """What is being read from a connection."""

    HEAD = "head"
    BODY = "body"
    ANSWER = "answer"
    IDLE = "idle"


class LimitedHttpProtocol(HttpToolsProtocol):
    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._table = cast("LimitedConfig", config).open_connections
        self._handshakes = cast("LimitedConfig", config).handshakes
        self._handshake_network: str | None = None
        """Set while this connection waits for the turn of its WebSocket handshake."""
        self._key: str | None = None
        self._phase = Phase.HEAD
        self._timer: asyncio.TimerHandle | None = None
        self._deadline: float | None = None
        """When the phase ends, unless the next one begins before."""
        self._write_timer: asyncio.TimerHandle | None = None
        self._bytes_since_progress = 0
        self._body_bytes_in_window = 0
        self._has_begun = False
        self._refusal: tuple[HTTPStatus, str, str] | None = None

    # ---- the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]  (uvicorn's)
        super().connection_made(transport)
        self._key = self._table.admit(self.client[0] if self.client else "")
        if self._key is None:
            transport.write(_TOO_MANY)
            transport.close()
            return
        self._enter(Phase.HEAD)
        if self._table.is_draining:
            self.shutdown()

    def shutdown(self) -> None:
        """End this connection with the answer to the request that it has, or that arrives soon.

        Uvicorn closes a connection without a request at once, also one whose first request is on its way: its client does not
        learn whether the request was carried out.
        """
        if self._handshake_network is not None:
            self.transport.close()
        elif self._phase in (Phase.HEAD, Phase.IDLE):
            self.loop.call_later(DRAIN_SECONDS, self._end_drain)
        else:
            super().shutdown()

    def _end_drain(self) -> None:
        is_waiting = self._phase is Phase.IDLE or (self._phase is Phase.HEAD and not self._has_begun)
        if is_waiting and not self.transport.is_closing():
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timers()
        self._release()
        super().connection_lost(exc)

    def close_idle(self) -> None:
        """Close this connection, which has no request, to make room for another one."""
        self._stop_timers()
        self._release()
        self.transport.close()

    def handle_websocket_upgrade(self) -> None:
        self._stop_timers()
        assert self._key is not None
        self._table.upgrade(self, self._key)
        self._key = None
        if self._table.is_draining:
            self._table.release_upgraded()
            self.transport.write(_STOPPING)
            self.transport.close()
            return
        network = self._table.network_of(self.client[0] if self.client else "", self.headers)
        if self._handshakes.add(self, network):
            self._handshake_network = network
        else:
            self._table.refused_total += 1
            self._table.release_upgraded()
            self.transport.write(_TOO_MANY_HANDSHAKES)
            self.transport.close()

    def begin_handshake(self) -> None:
        if self.transport.is_closing():
            self._handshakes.end_turn(self)
            return
        try:
            super().handle_websocket_upgrade()
        except Exception:
            # The connection still belongs to this protocol, so `connection_lost` releases its place.
            self._handshakes.end_turn(self)
            self.transport.abort()
            raise
        self._handshake_network = None
        # `connection_lost` is called on the WebSocket's protocol from now on.
        websocket = cast("HubWebSocket", self.transport.get_protocol())
        websocket.on_lost = self._table.release_upgraded
        websocket.on_turn_end = lambda: self._handshakes.end_turn(self)
        if not websocket.handshake_initiated:
            # It was not a handshake (for example a POST, or a line of 10 kB). Uvicorn would leave the connection open without an answer.
            self.transport.write(_NO_HANDSHAKE)
            self.transport.close()

    def _release(self) -> None:
        if self._key is not None:
            self._table.release(self, self._key)
            self._key = None
        elif self._handshake_network is not None:
            self._handshakes.remove(self, self._handshake_network)
            self._handshake_network = None
            self._table.release_upgraded()

    # ---- what is read

    def data_received(self, data: bytes) -> None:
        if self._handshake_network is not None:
            self.transport.close()  # a client says nothing before its handshake is answered (RFC 6455)
            return
        if self._key is None or self.transport.is_closing():
            return
        self._unset_keepalive_if_required()
        if self._phase is Phase.IDLE:
            self._enter(Phase.HEAD)
        self._bytes_since_progress += len(data)
        assert self.parser is not None
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
            return
        except httptools.HttpParserError:
            self._refuse(
                *(self._refusal or (HTTPStatus.BAD_REQUEST, "invalid", "this is not a valid HTTP/1.1 request"))
            )
            return
        if self._bytes_since_progress > MAX_HEAD_BYTES and self._phase in (Phase.HEAD, Phase.BODY):
            self._refuse(*_too_large())

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._bytes_since_progress = 0
        self._has_begun = True
        self._enter(Phase.HEAD)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._phase is not Phase.HEAD:
            return  # this is a trailer: the application does not read trailers, and the list of headers must not grow any more
        if len(self.headers) >= MAX_HEADER_FIELDS:
            self._refusal = (
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                "too_large",
                f"a request may have {MAX_HEADER_FIELDS} header fields",
            )
            raise ValueError(self._refusal[2])
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > MAX_HEAD_BYTES:
            self._refusal = _too_large()
            raise ValueError(self._refusal[2])
        self._bytes_since_progress = 0
        self._has_begun = False
        super().on_headers_complete()
        if self._table.is_draining and self.cycle is not None:  # pyright: ignore[reportUnnecessaryComparison] (uvicorn's type is wrong)
            self.cycle.keep_alive = False
        self._enter(Phase.BODY)

    def on_body(self, body: bytes) -> None:
        self._bytes_since_progress = 0
        self._body_bytes_in_window += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._bytes_since_progress = 0
        super().on_message_complete()
        self._enter(Phase.IDLE if self._is_answered() else Phase.ANSWER)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._unset_keepalive_if_required()  # the timer of `Phase.IDLE` replaces uvicorn's
        if self._phase is Phase.ANSWER and self._is_answered():
            self._enter(Phase.IDLE)

    def _is_answered(self) -> bool:
        """Return whether every request that was read completely has its whole answer."""
        return self.cycle is None or self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]  (uvicorn's type is wrong)

    # ---- timers

    def _enter(self, phase: Phase) -> None:
        if self._phase is Phase.IDLE:
            self._table.mark_busy(self)
        self._phase = phase
        self._deadline = None
        if self._key is None or self.transport.is_closing():
            self._stop_timer()
            return
        if phase is Phase.HEAD:
            self._wait(HEAD_TIMEOUT_SECONDS)
        elif phase is Phase.BODY:
            self._body_bytes_in_window = 0
            self._wait(BODY_WINDOW_SECONDS)
        elif phase is Phase.IDLE:
            self._table.mark_idle(self, self._key)
            self._wait(IDLE_TIMEOUT_SECONDS)
        # In `Phase.ANSWER`, the application decides how long an answer may take.

    def _wait(self, seconds: float) -> None:
        """Let the phase end after this time.

        A request goes through four phases, so a timer that runs is not replaced. It never runs for longer than the shortest of
        these times, and is started again if the phase has time left.
        """
        self._deadline = self.loop.time() + seconds
        if self._timer is None:
            self._timer = self.loop.call_later(_tick(seconds), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._deadline is None:
            return
        left = self._deadline - self.loop.time()
        if left > 0:
            self._timer = self.loop.call_later(_tick(left), self._on_timer)
        elif self._phase is Phase.HEAD:
            self._on_head_timeout()
        elif self._phase is Phase.BODY:
            self._on_body_window()
        else:
            self.close_idle()

    def _on_head_timeout(self) -> None:
        if self.flow.read_paused:  # the client may have sent the headers, and this server does not read
            self._enter(Phase.HEAD)
        elif self._has_begun:
            wait = f"the headers of a request did not arrive within {HEAD_TIMEOUT_SECONDS:g} seconds"
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, "unavailable", wait)
        else:
            self.transport.close()  # there is no request to answer

    def _on_body_window(self) -> None:
        waits_for_us = self.flow.read_paused or (self.cycle and self.cycle.waiting_for_100_continue)
        if waits_for_us or self._body_bytes_in_window >= MIN_BODY_BYTES_PER_WINDOW:
            self._body_bytes_in_window = 0
            self._wait(BODY_WINDOW_SECONDS)
            return
        least = f"{MIN_BODY_BYTES_PER_WINDOW} bytes in {BODY_WINDOW_SECONDS:g} seconds"
        slow = f"the body of this request arrived too slowly: fewer than {least}"
        self._refuse(HTTPStatus.REQUEST_TIMEOUT, "unavailable", slow)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(WRITE_STALL_SECONDS, self._on_write_stall)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_write_timer()

    def _on_write_stall(self) -> None:
        _log.info("a client does not read its answer; the connection is closed", client=self.client)
        self.transport.abort()

    def _stop_timers(self) -> None:
        self._stop_timer()
        self._stop_write_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    # ---- refusing

    def _refuse(self, status: HTTPStatus, code: str, detail: str) -> None:
        """Answer the request that is being read, unless an answer is under way already, and close."""
        self._stop_timer()
        if self._can_answer():
            self.transport.write(refusals.render(status, code, detail))
        if not self._is_answered():
            # The application must not write a second answer behind this one.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()

    def _can_answer(self) -> bool:
        if self._phase is Phase.HEAD:
            return self._is_answered()
        is_untouched = self.cycle is None or not (self.cycle.response_started or self.pipeline)  # pyright: ignore[reportUnnecessaryComparison]
        return self._phase is Phase.BODY and is_untouched


def _tick(seconds: float) -> float:
    return min(seconds, HEAD_TIMEOUT_SECONDS, BODY_WINDOW_SECONDS, IDLE_TIMEOUT_SECONDS)


def _too_large() -> tuple[HTTPStatus, str, str]:
    return (
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        "too_large",
        f"the address and headers of a request may have {MAX_HEAD_BYTES} bytes together",
    )
