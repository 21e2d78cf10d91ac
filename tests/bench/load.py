"""Puts a server under load: `python -m tests.bench.load` reads its task from standard input and prints its figures."""

import asyncio
import gc
import itertools
import random
import sys
import time
from typing import Literal
from urllib.parse import quote

import msgspec
import uvloop

from tests.bench.simulated_runners import Access, SimulatedRunners
from tests.bench.wire import HttpClient, allow_connections

_CLIENTS = 32
_JOB_SECONDS = 20
_PLAN = b'{"type":"PLAN"}'


class Task(msgspec.Struct, frozen=True):
    """`dispatch`: jobs one at a time, with pauses. `jobs`: as many as possible, with `outstanding` of them unfinished at a time."""

    kind: Literal["dispatch", "jobs"]
    url: str
    token: str
    members: list[Access]
    modules: list[str]
    count: int
    capacity: int
    outstanding: int = 1
    more_urls: list[str] = []
    """Other servers on the same database, which get their share of runners and requests."""
    log_kb: int = 0
    """How much each job prints."""
    gap_seconds: tuple[float, float] = (0.002, 0.012)
    """The shortest and the longest pause between two jobs of `dispatch`."""


class Figures(msgspec.Struct, frozen=True):
    """The seconds from each request to its grant, or the times at which jobs ended."""

    seconds: list[float]
    connect_seconds: float
    cpu_seconds: float
    """That this process itself took while it measured."""


class Load:
    def __init__(self, task: Task) -> None:
        self._task = task
        self._urls = [task.url, *task.more_urls]
        self._crews = [SimulatedRunners(url, task.capacity, task.log_kb) for url in self._urls]
        for crew in self._crews:
            crew.on_granted, crew.on_done = self._granted, self._done
        self._granted_at: dict[str, float] = {}
        self._done_at: dict[str, float] = {}
        self._changed: dict[str, asyncio.Event] = {}
        self._slots = asyncio.Semaphore(task.outstanding)
        self._left = task.count

    async def run(self) -> Figures:
        began = time.perf_counter()
        for index, crew in enumerate(self._crews):
            await crew.gather(self._task.members[index :: len(self._crews)])
        connected = time.perf_counter() - began
        await asyncio.sleep(1)  # let the server settle after the crowd
        gc.collect()
        gc.freeze()
        gc.disable()  # a pause of ours would be told as one of the server's
        cpu = time.process_time()
        seconds = await (self._dispatch() if self._task.kind == "dispatch" else self._jobs())
        return Figures(seconds, connected, time.process_time() - cpu)

    async def _dispatch(self) -> list[float]:
        client = await HttpClient.open(self._task.url, self._task.token)
        seconds: list[float] = []
        for index in range(self._task.count):
            await asyncio.sleep(random.uniform(*self._task.gap_seconds))
            asked_at = time.perf_counter()
            job_id = await self._enqueue(client, index)
            async with asyncio.timeout(_JOB_SECONDS):
                while job_id not in self._done_at:
                    await self._change(job_id)
            seconds.append(self._granted_at[job_id] - asked_at)
        return seconds

    async def _jobs(self) -> list[float]:
        """Let each client enqueue as fast as it is answered, up to a number of unfinished jobs."""

        async def some(client: HttpClient) -> None:
            while self._left > 0:
                self._left -= 1
                index = self._left
                async with asyncio.timeout(_JOB_SECONDS):
                    await self._slots.acquire()
                await self._enqueue(client, index)

        urls = itertools.islice(itertools.cycle(self._urls), _CLIENTS)
        clients = [await HttpClient.open(url, self._task.token) for url in urls]
        await asyncio.gather(*(some(client) for client in clients))
        async with asyncio.timeout(_JOB_SECONDS):
            while len(self._done_at) < self._task.count:
                await asyncio.sleep(0.01)
        return sorted(self._done_at.values())

    async def _enqueue(self, client: HttpClient, index: int) -> str:
        module = self._task.modules[index % len(self._task.modules)]
        job = await client.call("POST", f"/api/v1/modules/{quote(module, safe='')}/jobs", _PLAN)
        return job["id"]

    async def _change(self, job_id: str) -> None:
        self._changed[job_id] = asyncio.Event()
        await self._changed[job_id].wait()

    def _granted(self, job_id: str) -> None:
        self._granted_at[job_id] = time.perf_counter()

    def _done(self, job_id: str) -> None:
        self._done_at[job_id] = time.perf_counter()
        self._slots.release()
        if job_id in self._changed:
            self._changed.pop(job_id).set()


def main() -> None:
    allow_connections()
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures = runner.run(Load(task).run())
    sys.stdout.buffer.write(msgspec.json.encode(figures))


if __name__ == "__main__":
    main()
