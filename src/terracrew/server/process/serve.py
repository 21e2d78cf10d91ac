"""Serves the application: binds the socket, runs uvicorn, and on a stop closes the event streams first."""

import asyncio
import contextlib
import os
import resource
import signal
import socket
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

import uvicorn
import uvloop

from terracrew.errors import Conflict, Invalid
from terracrew.server.addresses import parse_networks
from terracrew.server.app import make_app
from terracrew.server.context import Server
from terracrew.server.http.request import App
from terracrew.server.membership import Closing
from terracrew.server.process.waiting import BACKLOG_CONNECTIONS
from terracrew.server.transport.connections import Connections
from terracrew.server.transport.front import Front
from terracrew.server.transport.http import LimitedConfig
from terracrew.server.transport.keepalive import HubWebSocket
from terracrew.settings.server import ServerSettings

MAX_FRAME_BYTES = 5 * 1024 * 1024
PING_SECONDS = 20
"""The time between pings to a silent connection, and how long it may take to answer one."""
DATE_SECONDS = 1.0
"""The resolution of the header `Date`."""
GRACE_SECONDS = 5
"""How long running requests may still take after the server was told to stop."""
MAX_ACCEPTS_PER_TURN = 8
"""libuv accepts one connection for each listening descriptor and turn of the event loop; this many descriptors share the
socket. With one, a new connection waits for as many turns as others arrived before it."""
MAX_DESCRIPTORS = 65_536
RESERVED_DESCRIPTOR_COUNT = 256
"""The descriptors that connections may not use, because files, the database and pipes need them."""
T = TypeVar("T")


def bind(settings: ServerSettings) -> socket.socket:
    """Bind the address before anything else is opened. No connection is accepted yet."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host or None, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise Invalid(f"host: {settings.host!r} is not an address to listen on: {error.strerror}") from None
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise Conflict(
            f"cannot listen on {settings.host}:{settings.port}: {os.strerror(error.errno or 0).lower()}. "
            "Is another server running there? --port chooses another one",
            host=settings.host,
            port=settings.port,
        ) from None
    return listener


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a server's main coroutine on the fast event loop."""
    _allow_connections()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


async def serve(
    server: Server, listener: socket.socket, started: asyncio.Event | None = None, app: App | None = None
) -> None:
    """Answer requests until `server.closing` is set, then finish those that are being answered.

    `app` is an application that is attached to the server already. Without it, a new one is made.
    """
    settings = server.settings
    connections = Connections(
        _max_connections(settings), settings.max_connections_per_address, parse_networks(settings.trusted_proxies)
    )
    config = LimitedConfig(
        Front(app or make_app(server), settings),
        connections,
        proxy_headers=False,  # `Front` reads them, because uvicorn trusts loopback by default
        ws=HubWebSocket,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=BACKLOG_CONNECTIONS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        ws_max_size=MAX_FRAME_BYTES,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        ws_per_message_deflate=False,
    )
    web = ClosingUvicorn(config, started, server.closing, connections.drain)
    try:
        await web.serve([listener, *(listener.dup() for _ in range(MAX_ACCEPTS_PER_TURN - 1))])
    finally:
        server.closing.set()


@contextlib.contextmanager
def stopped_by_signals(closing: Closing, reload: Callable[[], None], restart: Callable[[], None]) -> Generator[None]:
    """Let SIGINT and SIGTERM stop the server instead of ending the process, SIGUSR2 restart it, and SIGHUP read the settings again."""
    loop = asyncio.get_running_loop()
    handlers = {
        signal.SIGINT: closing.stop,
        signal.SIGTERM: closing.stop,
        signal.SIGUSR2: restart,
        signal.SIGHUP: reload,
    }
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # a second one must not end the process that restarts


def _allow_connections() -> None:
    """Raise the limit of open descriptors. Each connection needs one, and the usual 1,024 are not enough for a crew."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(MAX_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _max_connections(settings: ServerSettings) -> int:
    """Return the configured limit, lowered so that descriptors are left for files and the database."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        settings.max_connections
        if soft < 0
        else max(1, min(settings.max_connections, soft - RESERVED_DESCRIPTOR_COUNT))
    )


class ClosingUvicorn(uvicorn.Server):
    def __init__(
        self,
        config: uvicorn.Config,
        is_serving: asyncio.Event | None,
        closing: asyncio.Event,
        drain: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._is_serving = is_serving
        self._closing = closing
        self._drain = drain

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._is_serving is not None and self.started:
            self._is_serving.set()

    async def main_loop(self) -> None:
        """Set the header `Date` every second until the server closes. Uvicorn's own method wakes ten times a second."""
        while not self._closing.is_set():
            await self.on_tick(0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DATE_SECONDS):
                    await self._closing.wait()
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept nothing more, answer what has been accepted, and close."""
        self._drain()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        # Uvicorn's own method raises the signal again at the end, which would end the process before the database is closed.
        yield
