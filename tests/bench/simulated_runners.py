"""Simulates runners that take every job, and executors that report a job as done without starting a process.

They send the same messages as a real runner and a real executor: one connection for each runner,
and one for each attempt, opened with the credential of the grant.
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from urllib.parse import urlencode, urlsplit

import msgspec

from terracrew.protocol import events, frames, messages, version
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import STEPS_OF
from terracrew.runner.attempts.slots import Slots
from tests.bench.wire import BINARY, TEXT, HttpClient, WebSocket

_TOKENS_AT_ONCE = 8
_PIECE_BYTES = 8 << 10


class Access(msgspec.Struct, frozen=True):
    """The record of a runner and its worker token."""

    runner_id: str
    client_id: str
    token: str


class SimulatedRunners:
    def __init__(self, url: str, capacity: int, log_kb: int = 0) -> None:
        self._url = url
        self.log = _log(log_kb << 10)
        """What each job prints, in the pieces in which an engine would print it."""
        self.host = urlsplit(url).netloc
        self.capacity = capacity
        self.executor: Callable[[messages.Granted, Callable[[], None]], SimulatedExecutor] = partial(
            SimulatedExecutor, self
        )
        self.on_granted: Callable[[str], None] = lambda _: None
        """A job is this crew's; called as the grant arrives."""
        self.on_done: Callable[[str], None] = lambda _: None
        """The job's result is stored: the acknowledgement has arrived."""

    async def gather(self, members: Sequence[Access]) -> None:
        """Connect all of them, and return when each has been welcomed."""
        waiting = list(members)

        async def some() -> None:
            client = await HttpClient.open(self._url, "")
            while waiting:
                await self._join(client, waiting.pop())
            client.close()

        await asyncio.gather(*(some() for _ in range(_TOKENS_AT_ONCE)))

    async def _join(self, client: HttpClient, access: Access) -> None:
        form = {"grant_type": "client_credentials", "client_id": access.client_id, "client_secret": access.token}
        kind = "application/x-www-form-urlencoded"
        answer = await client.call("POST", "/connect/token", urlencode(form).encode(), kind)
        runner = SimulatedRunner(self, access, answer["access_token"])
        await self.connect(runner.socket)
        async with asyncio.timeout(30):
            await runner.is_welcome.wait()

    async def connect(self, socket: WebSocket) -> None:
        host, _, port = self.host.partition(":")
        await asyncio.get_running_loop().create_connection(lambda: socket, host, int(port))


def _log(size: int) -> list[bytes]:
    """Return lines as an apply prints them. Their ids are random, so that they are not compressed better than real ones."""
    chance = random.Random(1)
    text = b""
    while len(text) < size:
        text += f"module.net.aws_subnet.s[{len(text)}]: Creation complete after {len(text) % 9}s [id={chance.getrandbits(68):x}]\n".encode()
    return [text[at : at + _PIECE_BYTES] for at in range(0, len(text), _PIECE_BYTES)]


class SimulatedRunner:
    """Claims ahead for its free slots, and claims every offer at once; the server counts its slots."""

    def __init__(self, crew: SimulatedRunners, access: Access, token: str) -> None:
        self._crew, self._access = crew, access
        self._held: set[AttemptRef] = set()
        self._slots = Slots(crew.capacity)
        self._executors: set[asyncio.Task[None]] = set()
        self._heartbeat_seconds = 0.0
        self.is_welcome = asyncio.Event()
        self.socket = WebSocket(crew.host, token)
        self.socket.on_open = self._greet
        self.socket.on_message = self._heed

    def _greet(self) -> None:
        self._send(
            messages.RunnerHello(
                runner_id=self._access.runner_id,
                instance="simulated",
                instance_key=self._access.token,
                version="0.1.0",
                oldest_protocol=version.OLDEST_VERSION,
                newest_protocol=version.NEWEST_VERSION,
                capacity=self._crew.capacity,
                engines={"tofu": "1.12.6"},
                attempts=[],
            )
        )

    def _heed(self, frame: bytes) -> None:
        match messages.decode_to_runner(frame):
            case messages.Granted() as granted:
                self._crew.on_granted(granted.spec.job_id)
                ref = AttemptRef(granted.spec.job_id, granted.spec.attempt)
                self._held.add(ref)
                self._slots.use_credit()
                self._slots.take(ref)
                self._send_credits()
                executor = self._crew.executor(granted, lambda: self._ended(ref))
                task = asyncio.get_running_loop().create_task(self._crew.connect(executor.socket))
                self._executors.add(task)
                task.add_done_callback(self._executors.discard)
            case messages.RunnerWelcome() as welcome:
                self._send_credits()
                self.is_welcome.set()
                self._heartbeat_seconds = welcome.heartbeat_seconds
                first = random.uniform(0, self._heartbeat_seconds)
                asyncio.get_running_loop().call_later(first, self._beat)
            case messages.Refused() as refused:
                raise RuntimeError(f"a simulated runner was refused: {refused}")
            case _:
                pass

    def _ended(self, ref: AttemptRef) -> None:
        self._held.discard(ref)
        self._slots.freed(ref)
        self._send_credits()
        self._crew.on_done(ref.job_id)

    def _send_credits(self) -> None:
        if (message := self._slots.credits_to_send()) is not None:
            self._send(message)

    def _beat(self) -> None:
        self._send(messages.Heartbeat("0.1.0", is_draining=False, attempts=sorted(self._held)))
        asyncio.get_running_loop().call_later(self._heartbeat_seconds, self._beat)

    def _send(self, message: messages.FromRunner) -> None:
        self.socket.send((TEXT, messages.encode(message)))


class SimulatedExecutor:
    """Sends a hello and at once delivers a whole job; the first connection of an attempt need not wait for the welcome."""

    def __init__(self, crew: SimulatedRunners, granted: messages.Granted, ended: Callable[[], None]) -> None:
        self._spec, self._log = granted.spec, crew.log
        self._ended = ended
        self._last = 0
        self.socket = WebSocket(crew.host, granted.credentials.hub)
        self.socket.on_open = self._deliver
        self.socket.on_message = self._heed

    def _deliver(self) -> None:
        hello = messages.ExecutorHello(
            self._spec.job_id,
            self._spec.attempt,
            "0.1.0",
            oldest_protocol=version.OLDEST_VERSION,
            newest_protocol=version.NEWEST_VERSION,
        )
        records: list[bytes] = []
        steps = STEPS_OF[self._spec.type]
        for step in steps:
            records += [
                events.pack_fact(events.StepStatus(step, "RUNNING"), step, time.time()),
                events.pack_fact(events.StepStatus(step, "SUCCEEDED", 0), step, time.time()),
            ]
        records += [
            events.pack(events.Kind.LOG, events.Stream.OUTPUT, steps[-1], time.time(), piece) for piece in self._log
        ]
        records.append(events.pack_fact(events.Result("SUCCEEDED"), steps[-1], time.time()))
        self._last = len(records)
        self.socket.send((TEXT, messages.encode(hello)), (BINARY, frames.pack(1, self._last, b"".join(records))))

    def _heed(self, frame: bytes) -> None:
        match messages.decode_to_executor(frame):
            case messages.Ack(mark) if mark >= self._last:
                self._ended()
                self.socket.close()
            case messages.Refused() as refused:
                raise RuntimeError(f"a simulated executor was refused: {refused}")
            case _:
                pass
