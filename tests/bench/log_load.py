"""Prints like many jobs at once, or watches one: `python -m tests.bench.log_load` reads its task from standard input.

The executors are simulated, with the messages of real ones: batches go into a window, and each is acknowledged when it is stored.
"""

import asyncio
import re
import sys
import time
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, cast
from urllib.parse import quote, urlsplit

import msgspec
import uvloop

from terracrew.protocol import events, frames, messages, version
from terracrew.protocol.spec import Step
from tests.bench.figures import median, percentile
from tests.bench.simulated_runners import Access, SimulatedExecutor, SimulatedRunners
from tests.bench.wire import BINARY, TEXT, HttpClient, allow_connections

WINDOW_BATCHES = 16
MAX_WATCH_SECONDS = 300
PIECE_LINES = 100
"""How many lines an executor usually reads at once from an engine that prints thousands in a second."""
_PRINTED = re.compile(rb"at=(\d+\.\d+)")


class LogTask(msgspec.Struct, frozen=True):
    """`print`: jobs that print this many lines each. `watch`: viewers of one job, until it ends."""

    kind: Literal["print", "watch"]
    url: str
    tokens: list[str]
    member: Access | None = None
    modules: list[str] = []
    lines: int = 0
    batch_lines: int = 1_000
    lines_per_second: float = 0.0
    """Of each job; 0 for as many as the server takes."""
    job_id: str = ""
    viewers: int = 0


class LogFigures(msgspec.Struct, frozen=True):
    seconds: float
    cpu_seconds: float
    lines: int
    latency_ms_p50: float = 0.0
    latency_ms_p95: float = 0.0
    latency_ms_p99: float = 0.0
    messages: int = 0
    received_bytes: int = 0


@lru_cache(2_000)  # all jobs print the same, so that their lines cost less than what is measured
def lines(first: int, count: int, job: str = "") -> bytes:
    """Return lines of an apply; a third has colours, and each has something that no other one has."""
    return "".join(
        f"\x1b[0m\x1b[1mmodule.net.aws_subnet.s[{at}]: Creation complete after {at % 9}s [id={at * 2654435761 % (1 << 32):08x}]\x1b[0m\n"
        if at % 3 == 0
        else f"2026-11-19T17:{at // 60 % 60:02d}:{at % 60:02d}Z {job}request {at} to https://ec2.example.org took {at * 7919 % 997} ms\n"
        for at in range(first, first + count)
    ).encode()


class _PrintingExecutor(SimulatedExecutor):
    """Prints in batches, and ends with a result."""

    def __init__(self, load: "_Printing", granted: messages.Granted, ended: "asyncio.Future[None]") -> None:
        super().__init__(load.crew, granted, lambda: None)
        self._task, self._done = load.task, ended
        self._granted = granted
        self._window: deque[int] = deque()
        self._has_room = asyncio.Event()
        self._final = 0
        self._work: asyncio.Task[None] | None = None

    def _deliver(self) -> None:
        self._work = asyncio.get_running_loop().create_task(self._print())

    async def _print(self) -> None:
        spec, number = self._granted.spec, 1
        hello = messages.ExecutorHello(
            spec.job_id,
            spec.attempt,
            "0.1.0",
            oldest_protocol=version.OLDEST_VERSION,
            newest_protocol=version.NEWEST_VERSION,
        )
        running = events.pack_fact(events.StepStatus(Step.PLAN, "RUNNING"), Step.PLAN, time.time())
        self.socket.send((TEXT, messages.encode(hello)), (BINARY, frames.pack(number, 1, running)))
        began, task = time.perf_counter(), self._task
        for first in range(0, task.lines, task.batch_lines):
            if task.lines_per_second:
                await asyncio.sleep(max(0.0, began + first / task.lines_per_second - time.perf_counter()))
            pieces: list[bytes] = []
            now = time.time()
            for at in range(first, min(task.lines, first + task.batch_lines), PIECE_LINES):
                text = lines(at, min(PIECE_LINES, task.lines - at))
                text = f"at={now:.6f} ".encode() + text if not pieces else text
                pieces.append(events.pack(events.Kind.LOG, events.Stream.OUTPUT, Step.PLAN, now, text))
            while len(self._window) >= WINDOW_BATCHES:
                self._has_room.clear()
                await self._has_room.wait()
            self._window.append(number + len(pieces))
            self.socket.send((BINARY, frames.pack(number + 1, len(pieces), b"".join(pieces))))
            number += len(pieces)
        self._final = number + 1
        result = events.pack_fact(events.Result("SUCCEEDED"), Step.PLAN, time.time())
        self.socket.send((BINARY, frames.pack(self._final, 1, result)))

    def _heed(self, frame: bytes) -> None:
        match messages.decode_to_executor(frame):
            case messages.Ack(mark):
                while self._window and self._window[0] <= mark:
                    self._window.popleft()
                self._has_room.set()
                if self._final and mark >= self._final and not self._done.done():
                    self._done.set_result(None)
                    self.socket.close()
            case messages.Refused() as refused:
                self._done.set_exception(RuntimeError(f"a simulated executor was refused: {refused}"))
            case _:
                pass


class _Printing:
    def __init__(self, task: LogTask) -> None:
        self.task = task
        self.crew = SimulatedRunners(task.url, len(task.modules))

    async def run(self) -> LogFigures:
        assert self.task.member is not None
        await self.crew.gather([self.task.member])
        client = await HttpClient.open(self.task.url, self.task.tokens[0])
        ended: list[asyncio.Future[None]] = []
        self.crew.executor = lambda granted, done: self._executor(granted, done, ended)
        began, cpu = time.perf_counter(), time.process_time()
        for module in self.task.modules:
            job = await client.call("POST", f"/api/v1/modules/{quote(module, safe='')}/jobs", b'{"type":"PLAN"}')
            print(job["id"], file=sys.stderr, flush=True)
        while len(ended) < len(self.task.modules):
            await asyncio.sleep(0.01)
        await asyncio.gather(*ended)
        seconds = time.perf_counter() - began
        return LogFigures(seconds, time.process_time() - cpu, self.task.lines * len(self.task.modules))

    def _executor(
        self, granted: messages.Granted, done: Callable[[], None], ended: "list[asyncio.Future[None]]"
    ) -> SimulatedExecutor:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ended.append(future)
        future.add_done_callback(lambda _: done())
        return _PrintingExecutor(self, granted, future)


class _Viewer(asyncio.Protocol):
    def __init__(self, watching: "_Watching", head: bytes) -> None:
        self._watching, self._head = watching, head
        self.last = b""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self._head)

    def data_received(self, data: bytes) -> None:
        self._watching.took(data)
        self.last = (self.last + data)[-200:]
        if b"event: end\n" in self.last and not self.ended.done():
            self.ended.set_result(None)
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_exception(exc or RuntimeError("the server closed a stream"))


class _Watching:
    def __init__(self, task: LogTask) -> None:
        self._task = task
        self._latencies: list[float] = []
        self._messages = self._bytes = 0

    def took(self, data: bytes) -> None:
        now = time.time()
        self._bytes += len(data)
        self._messages += data.count(b"event: log\n")
        self._latencies += [1000 * (now - float(at)) for at in _PRINTED.findall(data)]

    async def run(self) -> LogFigures:
        task = self._task
        where = urlsplit(task.url)
        assert where.hostname is not None
        host, port = where.hostname, where.port or 80
        viewers: list[_Viewer] = []
        began, cpu = time.perf_counter(), time.process_time()
        for at in range(task.viewers):
            head = (
                f"GET /api/v1/jobs/{task.job_id}/log/stream HTTP/1.1\r\nHost: {where.netloc}\r\n"
                f"Authorization: Bearer {task.tokens[at % len(task.tokens)]}\r\n\r\n"
            )
            _, viewer = await asyncio.get_running_loop().create_connection(
                lambda head=head: _Viewer(self, head.encode()), host, port
            )
            viewers.append(viewer)
        try:
            async with asyncio.timeout(MAX_WATCH_SECONDS):
                await asyncio.gather(*(viewer.ended for viewer in viewers))
        except TimeoutError:
            open_ = [viewer for viewer in viewers if viewer.ended.cancelled()]
            raise RuntimeError(f"{len(open_)} streams did not end; one has {open_[0].last!r} at its end") from None
        found = self._latencies
        return LogFigures(
            time.perf_counter() - began,
            time.process_time() - cpu,
            len(found),
            median(found),
            percentile(found, 0.95),
            percentile(found, 0.99),
            self._messages,
            self._bytes,
        )


def main() -> None:
    allow_connections()
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=LogTask)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures = runner.run((_Printing(task) if task.kind == "print" else _Watching(task)).run())
    sys.stdout.buffer.write(msgspec.json.encode(figures))


if __name__ == "__main__":
    main()
