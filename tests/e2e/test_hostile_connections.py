"""A stranger without any credential tries to exhaust a running server by connections, headers and slow requests."""

import contextlib
import json
import select
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import urllib3
import websockets.sync.client
from websockets.exceptions import InvalidStatus

from terracrew.server.transport.http import MAX_HEAD_BYTES
from tests.e2e.constants import constants, environment
from tests.e2e.system import System, eventually, running

pytestmark = pytest.mark.feature("X4.bounded")
MAX_HANDSHAKES = 300
HEAD_SECONDS, IDLE_SECONDS, BODY_SECONDS, MAX_PER_ADDRESS = 2.0, 2.0, 1.0, 400
IMPATIENT = constants(
    server__transport__http__HEAD_TIMEOUT_SECONDS=HEAD_SECONDS,
    server__transport__http__IDLE_TIMEOUT_SECONDS=IDLE_SECONDS,
    server__transport__http__BODY_WINDOW_SECONDS=BODY_SECONDS,
    server__transport__handshakes__MAX_WAITING_PER_NETWORK=MAX_HANDSHAKES,
) | {"TERRACREW_SERVER_MAX_CONNECTIONS_PER_ADDRESS": str(MAX_PER_ADDRESS)}
_LISTENING = "0A"
MEGABYTE = 1 << 20
MAX_GROWTH_BYTES = 24 * MEGABYTE
"""What an attack may add to the memory of the server; each of them sends far more than this."""


class Attacked:
    """A running server and its process."""

    def __init__(self, system: System, pid: int) -> None:
        self.system = system
        self.process = psutil.Process(pid)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.system.port), timeout=20)

    def resident_bytes(self) -> int:
        return self.process.memory_info().rss

    def open_connections(self) -> int:
        """Count the connections that the server has open. Only root could list the files of its process, which forbids it."""
        found = 0
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            is_held = inode != "0"  # the kernel alone keeps a socket that no process has or has yet accepted
            found += is_held and state != _LISTENING and int(local.rpartition(":")[2], 16) == self.system.port
        return found

    def is_healthy(self) -> bool:
        return urllib3.request("GET", f"{self.system.url}/healthz", retries=False, timeout=5).status == 200


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    with running(Path(tmp_path_factory.mktemp("connections"))) as system, environment(system, IMPATIENT):
        system.starts_real_commands = True  # their memory is measured
        process = system.start_server(runner=False)
        yield Attacked(system, process.pid)


def flood(connection: socket.socket, first: bytes, piece: bytes, total_bytes: int) -> int:
    """Send until the server closes the connection; returns how many bytes it took."""
    sent = 0
    with contextlib.suppress(ConnectionError):
        connection.sendall(first)
        while sent < total_bytes:
            connection.sendall(piece)
            sent += len(piece)
    return sent


def received(connection: socket.socket) -> bytes:
    """All that the server sends until it closes. A reset may follow what it has written."""
    answer = b""
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(65536):
            answer += piece
    return answer


ENDLESS: dict[str, tuple[bytes, bytes, int]] = {
    "200 MB of headers": (
        b"GET / HTTP/1.1\r\nHost: localhost\r\n",
        (b"X-Filler: " + b"x" * 1000 + b"\r\n") * 1000,
        200 * MEGABYTE,
    ),
    "one header of 200 MB": (b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Filler: ", b"x" * MEGABYTE, 200 * MEGABYTE),
    "a URL of 50 MB": (b"GET /", b"a" * MEGABYTE, 50 * MEGABYTE),
    "a name of 50 MB": (b"GET / HTTP/1.1\r\n", b"a" * MEGABYTE, 50 * MEGABYTE),
    "empty lines": (b"", b"\r\n" * 50_000, 50 * MEGABYTE),
    "200 MB of trailers": (
        b"POST /login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        (b"X-Filler: " + b"x" * 1000 + b"\r\n") * 1000,
        200 * MEGABYTE,
    ),
    "one trailer of 50 MB": (
        b"POST /login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Filler: ",
        b"x" * MEGABYTE,
        50 * MEGABYTE,
    ),
    "a WebSocket with 200 MB of headers": (
        b"GET /runnerhub HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n",
        (b"X-Filler: " + b"x" * 1000 + b"\r\n") * 1000,
        200 * MEGABYTE,
    ),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_no_request_head_fills_the_memory(server: Attacked, kind: str) -> None:
    """One connection sent 200 MB of headers in a quarter of a second, and the server kept all of them."""
    first, piece, total = ENDLESS[kind]
    before = server.resident_bytes()
    with server.connect() as connection:
        sent = flood(connection, first, piece, total)
        grown = server.resident_bytes() - before
    assert sent < total, "the connection was closed before all of it was sent"
    assert grown < MAX_GROWTH_BYTES
    assert server.is_healthy()


def test_headers_that_are_too_large_are_answered_in_words(server: Attacked) -> None:
    with server.connect() as connection:
        connection.sendall(
            b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Filler: " + b"x" * (MAX_HEAD_BYTES + 1) + b"\r\n\r\n"
        )
        head, _, body = received(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 ")
    assert b"application/problem+json" in head
    assert json.loads(body)["code"] == "too_large"
    with server.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: 1\r\n" % number for number in range(500)) + b"\r\n")
        assert received(connection).startswith(b"HTTP/1.1 431 ")


def test_headers_just_below_the_limit_are_served(server: Attacked) -> None:
    answer = urllib3.request("GET", f"{server.system.url}/healthz", headers={"X-Filler": "x" * (MAX_HEAD_BYTES - 500)})
    assert answer.status == 200


def test_300_half_sent_requests_are_all_closed_in_time(server: Attacked) -> None:
    """300 of 300 half-sent requests were still open after 100 seconds."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(server.connect()) for _ in range(300)]
        for connection in connections:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-")
        assert server.is_healthy(), "others are served meanwhile"
        eventually(lambda: server.open_connections() >= 300, what="300 open connections")
        started = time.monotonic()
        answers = [received(connection) for connection in connections]
        assert time.monotonic() - started < HEAD_SECONDS + 8
    assert all(answer.startswith(b"HTTP/1.1 408 ") for answer in answers)
    eventually(lambda: server.open_connections() < 10, what="the end of all connections")


def test_a_byte_now_and_then_does_not_keep_a_request_alive(server: Attacked) -> None:
    """Every byte that arrived used to reset the only timer there was."""
    with server.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\n")
        started = time.monotonic()
        connection.settimeout(0.2)
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - started < HEAD_SECONDS + 8:
                connection.sendall(b"X: 1\r\n")
                with contextlib.suppress(TimeoutError):
                    if connection.recv(65536):
                        break
        assert time.monotonic() - started < HEAD_SECONDS + 5


def _nothing(connection: socket.socket) -> None:
    pass


def _one_request(connection: socket.socket) -> None:
    connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")


def _answered_before_its_body(connection: socket.socket) -> None:
    connection.sendall(b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20000\r\n\r\n")
    assert b" 413 " in connection.recv(65536)
    connection.sendall(b"x" * 20000)


@pytest.mark.parametrize("behave", [_nothing, _one_request, _answered_before_its_body])
def test_a_connection_that_does_nothing_more_is_closed(
    server: Attacked, behave: Callable[[socket.socket], None]
) -> None:
    with server.connect() as connection:
        behave(connection)
        started = time.monotonic()
        received(connection)
        assert time.monotonic() - started < max(HEAD_SECONDS, IDLE_SECONDS) + 5


def test_a_body_that_trickles_in_is_given_up(server: Attacked) -> None:
    with server.connect() as connection:
        connection.sendall(b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n")
        connection.sendall(b"Content-Type: application/x-www-form-urlencoded\r\n\r\nname=")
        started = time.monotonic()
        assert received(connection).startswith(b"HTTP/1.1 408 ")
        assert time.monotonic() - started < BODY_SECONDS + 5


def test_one_address_has_so_many_connections_and_idle_ones_make_room(server: Attacked) -> None:
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(server.connect()) for _ in range(5)]
        for connection in idle:
            _one_request(connection)
            assert b" 200 " in connection.recv(65536)
        for _ in range(MAX_PER_ADDRESS - 5):
            stack.enter_context(server.connect()).sendall(b"GET ")
        assert server.is_healthy(), "an idle connection made room"
        for _ in range(10):  # more than there are idle connections
            stack.enter_context(server.connect()).sendall(b"GET ")
        with server.connect() as refused:
            answer = received(refused)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: " in answer
    eventually(server.is_healthy, what="an answer after the connections have gone")


def test_an_upgraded_connection_is_counted_until_it_ends_and_a_bad_handshake_is_refused(server: Attacked) -> None:
    with server.connect() as connection:
        connection.sendall(
            b"GET /runnerhub HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        )
        assert received(connection).startswith(b"HTTP/1.1 4")
    for method, more in ((b"POST", b"Content-Length: 9000\r\n"), (b"GET", b"X-Long: " + b"x" * 10_000 + b"\r\n")):
        with server.connect() as connection:
            upgrade = b"Host: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            connection.sendall(method + b" /runnerhub HTTP/1.1\r\n" + upgrade + more + b"\r\n")
            assert received(connection).startswith(b"HTTP/1.1 400 ")
    url = server.system.url.replace("http", "ws")
    with websockets.sync.client.connect(f"{url}/runnerhub", additional_headers={"Authorization": "Bearer x"}) as hub:
        assert "unauthenticated" in str(hub.recv(timeout=10))
    with pytest.raises(InvalidStatus), websockets.sync.client.connect(f"{url}/elsewhere"):
        pass
    eventually(lambda: server.open_connections() < 10, what="the end of all connections")
    assert server.process.is_running()


RUSH_CONNECTIONS = 350
HANDSHAKE = (
    b"GET /runnerhub HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer guessed\r\n\r\n"
)


@pytest.mark.parametrize("is_connected_before", [True, False])
def test_a_rush_of_websockets_leaves_the_server_to_others(server: Attacked, is_connected_before: bool) -> None:
    """3,000 connections without a valid credential kept /healthz waiting until every one of them was refused: 8 seconds.

    A connection that was not accepted yet waited longer still: one was accepted in each turn of the event loop.
    On a busy machine this process may be woken after everything is answered, hence the repetitions: a server at fault fails each.
    """
    assert any(_is_answered_within_a_rush(server, is_connected_before) for _ in range(5)), (
        "the answer waited for all handshakes"
    )


def _is_answered_within_a_rush(server: Attacked, is_connected_before: bool) -> bool:
    with contextlib.ExitStack() as stack:
        if not is_connected_before:
            server.process.suspend()  # so that all of them arrive at once
        rush = [stack.enter_context(server.connect()) for _ in range(RUSH_CONNECTIONS)]
        health = stack.enter_context(server.connect())
        if is_connected_before:
            eventually(lambda: server.open_connections() > len(rush), what="the connections of the rush")
            server.process.suspend()
        for connection in rush:
            connection.sendall(HANDSHAKE)
        health.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        server.process.resume()
        assert b" 200 " in health.recv(65536)
        answered, _, _ = select.select(rush, [], [], 0)
        heads = [connection.recv(65536) for connection in rush]
    refused = [head for head in heads if not head.startswith(b"HTTP/1.1 101 ")]
    assert len(refused) <= RUSH_CONNECTIONS - MAX_HANDSHAKES
    assert all(head.startswith(b"HTTP/1.1 503 ") and b"retry-after: 5" in head for head in refused)
    assert refused or not is_connected_before
    eventually(lambda: server.open_connections() < 10, what="the end of all connections")
    return len(answered) < RUSH_CONNECTIONS * 2 / 3


def test_a_refused_websocket_neither_stays_nor_fills_the_memory(server: Attacked) -> None:
    """Each of them was kept for ten seconds, and up to 5 MB of a frame that nobody would ever read with it."""
    before = server.resident_bytes()
    upgrade = (
        b"GET /runnerhub HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    unfinished = b"\x82\xff" + (5 * MEGABYTE).to_bytes(8, "big") + b"mask" + b"x" * (4 * MEGABYTE)
    with contextlib.ExitStack() as stack:
        refused = [stack.enter_context(server.connect()) for _ in range(30)]
        for connection in refused:
            connection.sendall(upgrade)
            answer = b""
            while b"is_final" not in answer:
                answer += connection.recv(65536)
        started = time.monotonic()
        for connection in refused:
            with contextlib.suppress(OSError):
                connection.sendall(unfinished)
        assert server.resident_bytes() - before < MAX_GROWTH_BYTES
        eventually(lambda: server.open_connections() < 10, what="the end of all connections")
        assert time.monotonic() - started < 8
