"""A fake of the server's hub as a runner sees it, on a real socket; it leaves every decision to the test."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import parse_qs

import msgspec
import uvicorn

from terracrew.protocol import messages, version
from terracrew.protocol.messages import FromRunner, RunnerHello, RunnerWelcome
from terracrew.protocol.transfers import AttemptOutcome

M = TypeVar("M", bound=FromRunner)
BOUND = 60.0
RELEASES = "/runnerhub/releases/"


class Peer:
    """One connection of a runner, as the server sees it."""

    def __init__(self, send: Any, hello: RunnerHello, token: str) -> None:
        self._send_event, self.hello, self.token = send, hello, token
        self._inbox: asyncio.Queue[FromRunner] = asyncio.Queue()
        self._all: list[FromRunner] = []
        self.closed = asyncio.Event()

    async def send(self, message: msgspec.Struct) -> None:
        await self._send_event({"type": "websocket.send", "text": messages.encode(message).decode()})

    async def hang_up(self) -> None:
        await self._send_event({"type": "websocket.close", "code": 1012})

    async def receive(self, kind: type[M]) -> M:
        """Return the next message of this kind; skip all others."""
        async with asyncio.timeout(BOUND):
            while True:
                message = await self._inbox.get()
                if isinstance(message, kind):
                    return message

    def received(self, kind: type[M]) -> list[M]:
        """Return all messages of this kind that have arrived on this connection."""
        return [message for message in self._all if isinstance(message, kind)]

    def take(self, message: FromRunner) -> None:
        self._all.append(message)
        self._inbox.put_nowait(message)


class FakeRunnerHub:
    """Gives out access tokens and welcomes runners; each welcome runner is a `Peer`."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.forms: list[dict[str, str]] = []
        self.token_status = 200
        self.expires_in = 3600.0
        self.refusal: messages.Refused | None = None
        self.has_refused = asyncio.Event()
        self.foreign: dict[str, int] = {}
        """The status with which a proxy answers instead of this server: at the `token` endpoint, or to the `handshake`."""
        self.has_answered_foreign = asyncio.Event()
        self.welcome = RunnerWelcome(
            instance_id="ins_1", epoch=1, protocol=version.NEWEST_VERSION, heartbeat_seconds=0.1, unknown=[]
        )
        self.outcome = AttemptOutcome(None, 1)
        """What it answers to a runner that asks how its one job ended."""
        self.asked_with: list[str] = []
        """The credentials with which runners have asked for it."""
        self.files: dict[str, bytes] = {}
        """The files of releases that runners may fetch, by their names."""
        self.ranges: list[tuple[str, int]] = []
        """The files that runners have asked for, each with the byte from which on."""
        self.cut_after: list[int] = []
        """After how many bytes the next answers with a file break off."""
        self._peers: asyncio.Queue[Peer] = asyncio.Queue()

    async def peer(self) -> Peer:
        """The next runner that connects and is welcome."""
        async with asyncio.timeout(BOUND):
            return await self._peers.get()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if status := self.foreign.get("token" if scope["type"] == "http" else "handshake"):
            await self._answer_foreign(scope["type"], status, receive, send)
        elif scope["type"] == "http" and scope["path"] == "/connect/token":
            await self._give_token(receive, send)
        elif scope["type"] == "http" and scope["path"].endswith("/outcome"):
            self.asked_with.append(dict(scope["headers"])[b"authorization"].decode().removeprefix("Bearer "))
            await self._answer_json(send, msgspec.json.encode(self.outcome))
        elif scope["type"] == "http" and scope["path"].startswith(RELEASES):
            await self._give_file(scope, send)
        elif scope["type"] == "websocket" and scope["path"] == "/runnerhub":
            await self._serve(scope, receive, send)

    async def _answer_foreign(self, kind: str, status: int, receive: Any, send: Any) -> None:
        await receive()
        prefix = "http.response" if kind == "http" else "websocket.http.response"
        headers = [(b"content-type", b"text/html"), (b"location", b"https://login.example/")]
        await send({"type": f"{prefix}.start", "status": status, "headers": headers})
        await send({"type": f"{prefix}.body", "body": b"<html>Sign in</html>"})
        self.has_answered_foreign.set()

    async def _give_token(self, receive: Any, send: Any) -> None:
        body = b""
        while True:
            part = await receive()
            body += part["body"]
            if not part.get("more_body"):
                break
        self.forms.append({name: values[0] for name, values in parse_qs(body.decode()).items()})
        token = f"token-{len(self.forms)}"
        answer = {"access_token": token, "token_type": "Bearer", "expires_in": self.expires_in}
        if self.token_status != 200:
            words = "client id or secret is wrong"
            answer = {"error": "invalid_client", "code": "unauthenticated", "error_description": words}
        await self._answer_json(send, msgspec.json.encode(answer), self.token_status)

    async def _answer_json(self, send: Any, body: bytes, status: int = 200, kind: str = "application/json") -> None:
        headers = [(b"content-type", kind.encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _give_file(self, scope: Any, send: Any) -> None:
        """Answer with a file of a release, from the byte on that the request names."""
        name = scope["path"].rpartition("/")[2]
        headers = dict(scope["headers"])
        first = int(headers[b"range"].decode().removeprefix("bytes=").removesuffix("-"))
        self.ranges.append((name, first))
        if name not in self.files:
            problem = b'{"code": "not_found", "detail": "there is no such file of a release"}'
            await self._answer_json(send, problem, 404, "application/problem+json")
            return
        content = self.files[name][first:]
        length = [(b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": 206, "headers": length})
        if (cut := self.cut_after.pop(0) if self.cut_after else None) is not None:
            await send({"type": "http.response.body", "body": content[:cut], "more_body": True})
            return  # the connection is closed in the middle of the answer
        await send({"type": "http.response.body", "body": content})

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        if self.refusal is not None:
            await send({"type": "websocket.send", "text": messages.encode(self.refusal).decode()})
            await send({"type": "websocket.close", "code": 1008})
            self.has_refused.set()
            return
        hello = messages.decode_from_runner((await receive())["text"])
        assert isinstance(hello, RunnerHello)
        peer = Peer(send, hello, dict(scope["headers"])[b"authorization"].decode().removeprefix("Bearer "))
        await peer.send(self.welcome)
        self._peers.put_nowait(peer)
        while (event := await receive())["type"] == "websocket.receive":
            peer.take(messages.decode_from_runner(event["text"]))
        peer.closed.set()


@asynccontextmanager
async def serving(port: int = 0) -> AsyncGenerator[FakeRunnerHub]:
    listener = socket.create_server(("127.0.0.1", port))
    app = FakeRunnerHub(listener.getsockname()[1])
    config = uvicorn.Config(
        app, ws="websockets-sansio", lifespan="off", log_level="warning", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve([listener]))
    try:
        yield app
    finally:
        server.should_exit = True
        await task
        listener.close()
