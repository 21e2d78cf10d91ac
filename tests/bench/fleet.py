"""Simulates a fleet of runners in one process: `python -m tests.bench.fleet` reads one order from each line and reports its result.

Each runner reconnects as a real one does: with the product's own delays and timeouts, and with its token as long as that is valid.
It keeps each job that it is granted, with an executor that stays connected, until the fleet is told to finish.
"""

import asyncio
import contextlib
import os
import random
import sys
import time
from typing import Literal
from urllib.parse import urlencode, urlsplit

import msgspec
import uvloop

from terracrew.backoff import Backoff
from terracrew.errors import TerracrewError, Unavailable, Unreachable, tree
from terracrew.protocol import events, frames, messages, version
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import STEPS_OF
from tests.bench.simulated_runners import Access
from tests.bench.wire import BINARY, TEXT, HttpClient, HttpError, WebSocket, allow_connections

_AT_ONCE = 32
_OPEN_SECONDS, _HELLO_SECONDS, _RENEW_AFTER = 10.0, 15.0, 0.7
"""The same values as in a real runner."""


class Muster(msgspec.Struct, frozen=True):
    """The first line of input: the runners, and the server that they connect to."""

    url: str
    members: list[Access]
    capacity: int = 10


class Order(msgspec.Struct, frozen=True):
    """`gather`: connect this many runners. `return`: wait until all have disconnected and reconnected. `finish`: end all held jobs."""

    what: Literal["gather", "return", "finish"]
    count: int = 0
    is_without_tokens: bool = False


class Report(msgspec.Struct, frozen=True):
    moments: list[float]
    """By the clock that all processes of this machine share: when each came, or each job was done."""
    refused: list[str]
    tries: int
    """Attempts to connect, those that failed included."""
    cpu_seconds: float
    """That this process has taken for it."""


class Fleet:
    def __init__(self, muster: Muster) -> None:
        self.url, self.capacity = muster.url, muster.capacity
        self.host = urlsplit(muster.url).netloc
        self.runners = [Runner(self, access) for access in muster.members]
        self.executors: dict[AttemptRef, Executor] = {}
        self.refused: list[str] = []
        self.tries = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, task: "asyncio.Task[None]") -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def obey(self, order: Order) -> Report:
        self.refused, self.tries = [], 0
        cpu = time.process_time()
        match order.what:
            case "gather":
                moments = await self._gather(self.runners[: order.count])
            case "return":
                for runner in self.runners:
                    runner.is_back.clear()
                    if order.is_without_tokens:
                        runner.renew_at = 0.0
                await asyncio.gather(*(runner.is_back.wait() for runner in self.runners if runner.task))
                moments = [runner.came_at for runner in self.runners if runner.task]
            case "finish":
                moments = [await executor.finish() for executor in list(self.executors.values())]
        return Report(sorted(moments), self.refused, self.tries, time.process_time() - cpu)

    async def _gather(self, runners: "list[Runner]") -> list[float]:
        """Connect a few at a time, because this part is not measured."""
        gate = asyncio.Semaphore(_AT_ONCE)

        async def one(runner: Runner) -> float:
            async with gate:
                if runner.task is None:
                    runner.task = asyncio.create_task(runner.stay())
                await runner.is_back.wait()
            return runner.came_at

        return await asyncio.gather(*map(one, runners))


class Client:
    """A client that stays connected to the hub: it reconnects until it is refused for a reason that cannot change."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._delays = Backoff()
        self._socket: WebSocket | None = None
        self._answer: asyncio.Future[bytes] | None = None

    async def stay(self) -> None:
        while True:
            try:
                await self._step()
                return
            except TerracrewError as error:
                if not isinstance(error, Unreachable):
                    self.fleet.refused.append(f"{error.code}: {error.message}")
                await asyncio.sleep(self._delays.next(error))
            except Exception as error:  # nobody awaits this task: what is wrong is told in the report
                self.fleet.refused.append(repr(error))
                raise

    async def _connected(self, token: str, hello: msgspec.Struct) -> "tuple[bytes, asyncio.Future[None]]":
        """Handle the answer to the hello, and the loss of the connection."""
        loop = asyncio.get_running_loop()
        opened, lost = loop.create_future(), loop.create_future()
        self.fleet.tries += 1
        self._answer = answer = loop.create_future()
        self._socket = socket = WebSocket(self.fleet.host, token)

        def on_lost() -> None:
            lost.set_result(None)
            opened.cancel()
            answer.cancel()

        socket.on_open = lambda: None if opened.done() else opened.set_result(None)
        socket.on_message, socket.on_lost = self._hear, on_lost
        host, _, port = self.fleet.host.partition(":")
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                await loop.create_connection(lambda: socket, host, int(port))
                await opened
            async with asyncio.timeout(_HELLO_SECONDS):
                self._send(hello)
                return await answer, lost
        except (OSError, TimeoutError, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and not lost.done():
                raise
            socket.drop()
            raise Unreachable(f"{type(error).__name__}: {error}") from error

    def _hear(self, frame: bytes) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(frame)
        else:
            self._heed(frame)

    def _send(self, message: msgspec.Struct) -> None:
        assert self._socket is not None
        self._socket.send((TEXT, messages.encode(message)))

    async def _step(self) -> None:
        raise NotImplementedError

    def _heed(self, frame: bytes) -> None:
        raise NotImplementedError


class Runner(Client):
    def __init__(self, fleet: Fleet, access: Access) -> None:
        super().__init__(fleet)
        self._access = access
        self._held: set[AttemptRef] = set()
        self._token, self._resume = "", ""
        self._heartbeat = 10.0
        self._beating: asyncio.TimerHandle | None = None
        self.renew_at = 0.0
        self.is_back = asyncio.Event()
        self.came_at = 0.0
        self.task: asyncio.Task[None] | None = None

    async def _step(self) -> None:
        if time.monotonic() >= self.renew_at:
            await self._renew()
        hello = messages.RunnerHello(
            runner_id=self._access.runner_id,
            instance="simulated",
            instance_key=self._access.token,
            version="0.1.0",
            oldest_protocol=version.OLDEST_VERSION,
            newest_protocol=version.NEWEST_VERSION,
            capacity=self.fleet.capacity,
            engines={"tofu": "1.12.6"},
            attempts=sorted(self._held),
            resume=self._resume,
        )
        answer, lost = await self._connected(self._token, hello)
        match messages.decode_to_runner(answer):
            case messages.RunnerWelcome() as welcome:
                self._delays.reset()
                self._heartbeat, self._resume = welcome.heartbeat_seconds, welcome.resume
                self.came_at = time.monotonic()
                self.is_back.set()
                self._beating = asyncio.get_running_loop().call_later(self._heartbeat, self._beat)
                self._send(messages.Credits(max(0, self.fleet.capacity - len(self._held)), 0))
            case messages.Refused(code, text):
                raise tree().get(code, Unavailable)(text)
            case other:
                raise Unavailable(f"the hello was answered with {other}")
        await lost
        self._beating.cancel()
        raise Unreachable("the connection was closed")

    async def _renew(self) -> None:
        form = {
            "grant_type": "client_credentials",
            "client_id": self._access.client_id,
            "client_secret": self._access.token,
        }
        kind = "application/x-www-form-urlencoded"
        try:
            async with asyncio.timeout(_HELLO_SECONDS):
                client = await HttpClient.open(self.fleet.url, "")
                try:
                    answer = await client.call("POST", "/connect/token", urlencode(form).encode(), kind)
                finally:
                    client.close()
        except (OSError, TimeoutError) as error:
            raise Unreachable(f"{type(error).__name__}: {error}") from error
        except HttpError as error:  # a real runner comes again after a 503, and so does this one
            if error.status != 503:
                raise
            raise Unreachable(str(error)) from error
        # The first time, at any time: a fleet that has been there for long renews all the time, not all at once.
        share = random.random() if not self._token else 1.0
        self._token, self.renew_at = (
            answer["access_token"],
            time.monotonic() + share * _RENEW_AFTER * answer["expires_in"],
        )

    def _beat(self) -> None:
        self._send(messages.Heartbeat("0.1.0", is_draining=False, attempts=sorted(self._held)))
        self._beating = asyncio.get_running_loop().call_later(self._heartbeat, self._beat)
        if time.monotonic() >= self.renew_at:
            self.fleet.start(asyncio.create_task(self._send_renewed()))

    async def _send_renewed(self) -> None:
        with contextlib.suppress(Unreachable):  # it is done again when it comes back
            await self._renew()
            self._send(messages.Renew(self._token))

    def _heed(self, frame: bytes) -> None:
        match messages.decode_to_runner(frame):
            case messages.ConfigureRunner(heartbeat_seconds):
                self._heartbeat = heartbeat_seconds
                if self._beating is not None:  # it answers with a heartbeat
                    self._beating.cancel()
                    self._beat()
            case messages.Granted() as granted:
                ref = AttemptRef(granted.spec.job_id, granted.spec.attempt)
                self._held.add(ref)
                self.fleet.executors[ref] = executor = Executor(self.fleet, granted)
                self.fleet.start(asyncio.create_task(executor.stay()))
            case _:
                pass


class Executor(Client):
    """Starts its first step and waits until it is told to finish; then it reports the other steps."""

    def __init__(self, fleet: Fleet, granted: messages.Granted) -> None:
        super().__init__(fleet)
        self._spec, self._token = granted.spec, granted.credentials.hub
        first = STEPS_OF[self._spec.type][0]
        self._records = [events.pack_fact(events.StepStatus(first, "RUNNING"), first, time.time())]
        self._mark, self._sent = 0, 0
        self._is_connected = False
        self._is_done: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def finish(self) -> float:
        last = STEPS_OF[self._spec.type][-1]
        self._records.append(events.pack_fact(events.Result("SUCCEEDED"), last, time.time()))
        self._ship()
        return await self._is_done

    async def _step(self) -> None:
        hello = messages.ExecutorHello(
            self._spec.job_id,
            self._spec.attempt,
            "0.1.0",
            oldest_protocol=version.OLDEST_VERSION,
            newest_protocol=version.NEWEST_VERSION,
        )
        answer, lost = await self._connected(self._token, hello)
        match messages.decode_to_executor(answer):
            case messages.ExecutorWelcome() as welcome:
                self._delays.reset()
                if welcome.is_superseded:
                    self.fleet.refused.append(f"{self._spec.job_id} was given to somebody else")
                self._mark = self._sent = welcome.mark
            case messages.Refused(code, text):
                raise tree().get(code, Unavailable)(text)
            case other:
                raise Unavailable(f"the hello was answered with {other}")
        self._is_connected = True
        self._ship()
        await lost
        self._is_connected = False
        if not self._is_done.done():
            raise Unreachable("the connection was closed")

    def _ship(self) -> None:
        if self._is_connected and self._socket is not None and self._sent < len(self._records):
            records = self._records[self._sent :]
            self._socket.send((BINARY, frames.pack(self._sent + 1, len(records), b"".join(records))))
            self._sent = len(self._records)

    def _heed(self, frame: bytes) -> None:
        match messages.decode_to_executor(frame):
            case messages.Ack(mark):
                self._mark = mark
                if mark > 1 and not self._is_done.done():
                    self._is_done.set_result(time.monotonic())
                    assert self._socket is not None
                    self._socket.close()
            case _:
                pass


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    fleet = Fleet(msgspec.json.decode(await loop.run_in_executor(None, sys.stdin.buffer.readline), type=Muster))
    while line := await loop.run_in_executor(None, sys.stdin.buffer.readline):
        report = await fleet.obey(msgspec.json.decode(line, type=Order))
        sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
        sys.stdout.buffer.flush()
    os._exit(0)  # nobody waits for thousands of goodbyes


def main() -> None:
    allow_connections()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve())


if __name__ == "__main__":
    main()
