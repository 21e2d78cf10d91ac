"""The head of an answer leaves together with the beginning of its body, and is never kept for longer than two turns of the loop."""

import asyncio
from typing import Any

import pytest
from uvicorn.server import ServerState

from terracrew.server.transport.answers import MAX_JOINED_BYTES, AnswerTransport
from terracrew.server.transport.connections import Connections
from terracrew.server.transport.http import LimitedConfig, LimitedHttpProtocol
from terracrew.server.transport.keepalive import HubWebSocket


class Written:
    """A transport that takes down each piece that is written."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.pieces.append(data)

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_extra_info(self, name: str) -> Any:
        return {"peername": ("127.0.0.1", 5), "sockname": ("127.0.0.1", 80)}.get(name)


def answering(written: Written) -> AnswerTransport:
    return AnswerTransport(written, asyncio.get_running_loop())  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("turns", [0, 1])
async def test_head_and_body_are_one_piece(turns: int) -> None:
    written = Written()
    answer = answering(written)
    answer.write(b"head")
    for _ in range(turns):
        await asyncio.sleep(0)
    answer.write(b"body")
    answer.write(b"more")
    await asyncio.sleep(0.001)
    assert written.pieces == [b"headbody", b"more"]


async def test_the_head_does_not_wait_for_a_body_that_comes_later() -> None:
    written = Written()
    answer = answering(written)
    answer.write(b"head")
    for _ in range(3):
        await asyncio.sleep(0)
    assert written.pieces == [b"head"]
    answer.write(b"body")
    assert written.pieces == [b"head", b"body"]


async def test_a_large_body_is_not_copied() -> None:
    written, large = Written(), b"x" * (MAX_JOINED_BYTES + 1)
    answer = answering(written)
    answer.write(b"head")
    answer.write(large)
    assert written.pieces == [b"head", large]
    assert written.pieces[1] is large


async def test_what_waits_is_written_before_the_connection_closes_and_not_after_it() -> None:
    written, cut = Written(), Written()
    answer = answering(written)
    answer.write(b"head")
    answer.close()
    assert (written.pieces, written.is_closed, answer.is_closing()) == ([b"head"], True, True)
    lost = answering(cut)
    lost.write(b"head")
    cut.close()
    await asyncio.sleep(0.001)
    assert cut.pieces == []


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_an_answer_is_written_in_one_piece(method: str) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        del scope, receive
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    config = LimitedConfig(app, Connections(10, 10), ws=HubWebSocket, lifespan="off", log_config=None)
    config.load()
    protocol, written = LimitedHttpProtocol(config, ServerState(), {}), Written()
    protocol.connection_made(written)  # pyright: ignore[reportArgumentType]
    for _ in range(2):  # on one connection
        protocol.data_received(f"{method} / HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        await asyncio.sleep(0.001)
    first, second = written.pieces
    assert first == second
    assert first.startswith(b"HTTP/1.1 200 OK\r\n")
    assert first.endswith(b"\r\n\r\nok" if method == "GET" else b"\r\n\r\n")
    protocol.connection_lost(None)
