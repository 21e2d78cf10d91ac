"""A fake of the server's hub as an executor sees it, on a real socket; it misbehaves as a test tells it to."""

import asyncio
import contextlib
import hashlib
import json
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import uvicorn
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from terracrew.protocol import events, frames, messages, version
from terracrew.protocol.events import Fact, Kind, Record, Result, StateFact, Stream
from terracrew.protocol.start import FETCH_PATH, TICKET_HEADER, StartRevoked, StartWanted
from terracrew.protocol.transfers import PART_BYTES, UploadStaged, UploadWanted, part_count

HUB, API, KEY = "hub-credential-0123456789", "api-credential-0123456789", bytes(range(32))
_JSON = {"Content-Type": "application/json"}
_HTML = [(b"content-type", b"text/html")]
_CODES = {413: "too_large", 503: "unavailable"}
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class FakeExecutorHub:
    """Stores what is above its mark, acknowledges, gives permits; tests read what it has and set how it behaves."""

    def __init__(self, credential: str = HUB) -> None:
        self._credential = credential
        self.records: list[Record] = []
        self.hellos: list[messages.ExecutorHello] = []
        self.begins: list[tuple[int, int]] = []
        """State version asked for, and the mark at that moment."""
        self.refused_numbers: list[tuple[int, int]] = []
        """First number of a batch that left a gap, and the mark then: always a fault of the executor."""
        self.plan_attempts: list[int | None] = []
        """Whose plan each of them named."""
        self.needs_approval = False
        """Whether a plan has to be a kept one."""
        self.plan = b""
        """The saved plan: uploaded by this attempt, or to be resumed by it."""
        self.plan_puts = 0
        self.refuse_plan: Callable[[], int | None] = lambda: None
        """The status that a plan is refused with, if it is."""
        self.answer_begin: Callable[[int], Any] = messages.Begun
        self.welcome: Callable[[int], Any] = lambda mark: messages.ExecutorWelcome(mark, version.NEWEST_VERSION)
        self.ack_delay = 0.0
        self.is_acknowledging = True
        self.drop_after: list[int] = []
        """Drop the connection when this many batches have come on it; one entry for each connection."""
        self.archive = b""
        self.sends_archive = asyncio.Event()
        """Cleared by a test that makes an executor wait for its archive."""
        self.sends_archive.set()
        self.state, self.state_version = b"", 0
        self.state_problem: dict[str, str] | None = None
        self.puts: dict[int, tuple[bytes, bool]] = {}
        self.foreign: Callable[[str, str, int], int | None] = lambda _method, _name, _size: None
        """The status with which a proxy answers a request (method, name, size of its body) instead of this server."""
        self.own_refusal = ""
        """The code with which this server itself refuses every upload, if it does."""
        self.largest_put = 0
        self.staged: dict[str, tuple[UploadWanted, dict[int, bytes]]] = {}
        self.cloud_tokens: list[tuple[str, str, str]] = []
        """Audience, phase and token of each that was asked for."""
        self.cloud_token_life = 600.0
        self.starts: dict[str, bytes] = {}
        """Starts that can be fetched, by the hash of their ticket."""
        self.claims: dict[str, str] = {}
        """Which claim has fetched the start of a ticket."""
        self.batches = 0
        self.most_unacknowledged = 0
        self._sends: set[Send] = set()
        self._changed = asyncio.Condition()
        self._port = 0
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None

    # ---- life

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Listen, on the same port as before after a stop."""
        listening = socket.create_server(("127.0.0.1", self._port), backlog=64)
        self._port = listening.getsockname()[1]
        config = uvicorn.Config(
            self,
            log_level="error",
            lifespan="off",
            ws="websockets-sansio",
            ws_max_size=8 << 20,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._serving = asyncio.create_task(
            self._server._serve([listening])  # pyright: ignore[reportPrivateUsage] (without its signal handlers)
        )

    async def stop(self) -> None:
        assert self._server
        assert self._serving
        await self.drop()
        self._server.should_exit = True
        await asyncio.wait_for(self._serving, 10)

    async def drop(self) -> None:
        for send in tuple(self._sends):
            with contextlib.suppress(Exception):
                await send({"type": "websocket.close", "code": 1012})
        self._sends.clear()

    async def tell(self, message: Any) -> None:
        for send in self._sends:
            await send({"type": "websocket.send", "text": messages.encode(message).decode()})

    # ---- what it has

    @property
    def mark(self) -> int:
        return len(self.records)

    @property
    def facts(self) -> list[Fact]:
        return [events.fact_of(record) for record in self.records if record.kind == Kind.FACT]

    def facts_of(self, kind: type[Any]) -> list[Any]:
        return [fact for fact in self.facts if isinstance(fact, kind)]

    @property
    def result(self) -> Result:
        [result] = self.facts_of(Result)
        return result

    @property
    def has_result(self) -> bool:
        return bool(self.facts_of(Result))

    @property
    def states(self) -> list[tuple[int, StateFact, bytes]]:
        """Number, fact and plain text of every state."""
        found = list[tuple[int, StateFact, bytes]]()
        for number, record in enumerate(self.records, start=1):
            if record.kind == Kind.STATE:
                fact, sealed = events.state_of(record)
                sealed, is_plain = (sealed, False) if fact.is_inline else self.puts[number]
                found.append((number, fact, sealed if is_plain else unseal(sealed)))
        return found

    def log(self, stream: Stream = Stream.OUTPUT, step: str | None = None) -> bytes:
        return b"".join(
            record.payload
            for record in self.records
            if record.kind == Kind.LOG and record.stream == stream and step in (None, record.step_name)
        )

    async def until(self, predicate: Callable[[], object], within: float = 120) -> None:
        async with self._changed:
            await asyncio.wait_for(self._changed.wait_for(lambda: bool(predicate())), within)

    # ---- the protocol

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == FETCH_PATH:
            await self._fetch_start(receive, send)
        elif dict(scope["headers"]).get(b"authorization") != f"Bearer {self._credential}".encode():
            if scope["type"] == "websocket":
                await receive()
                await send({"type": "websocket.accept"})
                refusal = messages.Refused("unauthenticated", "this credential is not known", is_final=True)
                await send({"type": "websocket.send", "text": messages.encode(refusal).decode()})
                await send({"type": "websocket.close", "code": 4403})
            else:
                await _problem(send, 401, "unauthenticated")
        elif status := self._foreign_handshake(scope):
            await receive()
            await send({"type": "websocket.http.response.start", "status": status, "headers": _HTML})
            await send({"type": "websocket.http.response.body", "body": b"<html>a proxy</html>"})
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.accept"})
            self._sends.add(send)
            try:
                await self._converse(receive, send)
            finally:
                self._sends.discard(send)

    async def _converse(self, receive: Receive, send: Send) -> None:
        limit = self.drop_after.pop(0) if self.drop_after else None
        unacknowledged = 0
        while (event := await receive())["type"] == "websocket.receive":
            if event.get("text") is not None:
                await self._message(messages.decode_from_executor(event["text"]), send)
                continue
            self.batches += 1
            if limit is not None:
                limit -= 1
                if limit < 0:
                    await send({"type": "websocket.close", "code": 1012})
                    return
            header, body = frames.unpack(event["bytes"])
            await self._store(header, body)
            if not self.is_acknowledging:
                unacknowledged += 1
                self.most_unacknowledged = max(self.most_unacknowledged, unacknowledged)
                continue
            if self.ack_delay:
                await asyncio.sleep(self.ack_delay)
            await send({"type": "websocket.send", "text": messages.encode(messages.Ack(self.mark)).decode()})

    async def _store(self, header: frames.BatchHeader, body: bytes) -> None:
        records = list(events.unpack(body))
        assert len(records) == header.count
        if header.first > self.mark + 1:
            self.refused_numbers.append((header.first, self.mark))
            return
        for number, record in enumerate(records, start=header.first):
            if record.kind == Kind.STATE and not events.state_of(record)[0].is_inline:
                assert number in self.puts, "a state's event came before the state"
        async with self._changed:
            self.records += records[self.mark + 1 - header.first :]
            self._changed.notify_all()

    async def _message(self, message: messages.FromExecutor, send: Send) -> None:
        match message:
            case messages.ExecutorHello():
                answer = self.welcome(self.mark)
                async with self._changed:
                    self.hellos.append(message)
                    self._changed.notify_all()
            case messages.Begin(state_version, plan_attempt):
                if self.needs_approval and plan_attempt is None:
                    answer = messages.BeginRefused("approval", "A person has to look at this plan")
                else:
                    answer = self.answer_begin(state_version)
                async with self._changed:
                    self.plan_attempts.append(plan_attempt)
                    self.begins.append((state_version, self.mark))
                    self._changed.notify_all()
        if answer is not None:
            await send({"type": "websocket.send", "text": messages.encode(answer).decode()})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b"".join([chunk async for chunk in _body(receive)])
        name = re.fullmatch(r"/runnerhub/attempts/[^/]+/\d+/(.+)", scope["path"])
        self.largest_put = max(self.largest_put, len(body))
        if status := self.foreign(scope["method"], name[1] if name else "", len(body)):
            await _respond(send, status, b"<html>a proxy</html>", {"Content-Type": "text/html", "Server": "proxy"})
            return
        if upload := dict(scope["headers"]).get(b"x-upload"):
            wanted, parts = self.staged[upload.decode()]
            body = b"".join(parts[index] for index in range(part_count(wanted.size)))
            assert hashlib.sha256(body).hexdigest() == wanted.sha256
            assert name
            assert name[1] == wanted.target
        match (scope["method"], name[1].split("/") if name else []):
            case ("PUT", ["uploads"]) if self.own_refusal:
                await _problem(send, 409, self.own_refusal)
            case ("PUT", ["uploads"]):
                wanted = msgspec.json.decode(body, type=UploadWanted)
                _, parts = self.staged.setdefault(wanted.sha256, (wanted, {}))
                missing = [index for index in range(part_count(wanted.size)) if index not in parts]
                await _respond(send, 200, msgspec.json.encode(UploadStaged(wanted.sha256, PART_BYTES, missing)), _JSON)
            case ("PUT", ["uploads", upload_id, index]):
                self.staged[upload_id][1][int(index)] = body
                await _respond(send, 204, b"")
            case ("GET", ["archive"]):
                await self.sends_archive.wait()
                await _respond(send, 200, self.archive)
            case ("GET", ["state"]) if self.state_problem:
                problem = json.dumps({"detail": "", **self.state_problem}).encode()
                await _respond(send, 409, problem, {"Content-Type": "application/problem+json"})
            case ("GET", ["state"]):
                await _respond(send, 200, self.state, {"X-State-Version": str(self.state_version)})
            case ("PUT", ["states", number]):
                self.puts[int(number)] = body, dict(scope["headers"]).get(b"x-plain") == b"1"
                await _respond(send, 204, b"")
            case ("PUT", ["plan"]):
                status = self.refuse_plan()
                async with self._changed:
                    self.plan_puts += 1
                    self._changed.notify_all()
                if status is not None:
                    await _problem(send, status, _CODES[status])
                else:
                    self.plan = body
                    await _respond(send, 204, b"")
            case ("GET", ["plan"]) if self.plan:
                await _respond(send, 200, self.plan)
            case ("PUT", ["start"]):
                ticket = dict(scope["headers"])[TICKET_HEADER.lower().encode()].decode()
                self.starts[ticket] = body
                await _respond(send, 204, b"")
            case ("DELETE", ["start"]):
                self.starts.clear()
                answer = StartRevoked(was_fetched=bool(self.claims))
                await _respond(send, 200, msgspec.json.encode(answer), _JSON)
            case ("POST", ["cloud-token"]):
                wanted = json.loads(body)
                token = f"{wanted['phase']}-token-{len(self.cloud_tokens)}"
                async with self._changed:
                    self.cloud_tokens.append((wanted["audience"], wanted["phase"], token))
                    self._changed.notify_all()
                body = json.dumps({"token": token, "expires_in": self.cloud_token_life}).encode()
                await _respond(send, 200, body, _JSON)
            case _:
                await _problem(send, 404, "not_found")

    async def _fetch_start(self, receive: Receive, send: Send) -> None:
        """Give a start to the first claim that comes with its ticket."""
        body = b"".join([chunk async for chunk in _body(receive)])
        wanted = msgspec.json.decode(body, type=StartWanted)
        ticket = hashlib.sha256(wanted.ticket.encode()).hexdigest()
        if ticket not in self.starts or self.claims.setdefault(ticket, wanted.claim) != wanted.claim:
            await _problem(send, 401, "unauthenticated")
        elif status := self.foreign("POST", "starts", len(body)):  # the answer is lost on its way
            await _respond(send, status, b"<html>a proxy</html>", {"Content-Type": "text/html"})
        else:
            await _respond(send, 200, self.starts[ticket])

    def _foreign_handshake(self, scope: Scope) -> int | None:
        return self.foreign("CONNECT", "", 0) if scope["type"] == "websocket" else None


def unseal(sealed: bytes, owner: str = "job_1:1") -> bytes:
    return AESGCM(KEY).decrypt(sealed[:12], sealed[12:], owner.encode())


async def _body(receive: Receive) -> AsyncIterator[bytes]:
    while True:
        event = await receive()
        yield event.get("body", b"")
        if not event.get("more_body"):
            return


async def _problem(send: Send, status: int, code: str) -> None:
    body = json.dumps({"status": status, "code": code, "detail": f"refused with {code}"}).encode()
    await _respond(send, status, body, {"Content-Type": "application/problem+json"})


async def _respond(send: Send, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
    headers = {"Content-Type": "application/octet-stream", **(headers or {})}
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
