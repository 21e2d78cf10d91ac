"""Measures procrastinate, a Python job queue on PostgreSQL, for comparison; it is used as its documentation says.

One process defers jobs and another runs them, because our benchmark also has one process for the server and one for the load.
"""

import asyncio
import logging
import subprocess
import sys
import time

import procrastinate

CONCURRENCY = 30
CLIENTS = 32
_DEFER = "import sys; from tests.bench import peer; peer.defer(sys.argv[1], int(sys.argv[2]))"


def rate(url: str, jobs: int) -> float:
    """Return how many no-op jobs were deferred and run each second, from the first deferral to the end of the last job."""
    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    return asyncio.run(_work(url, jobs))


def _app(url: str) -> procrastinate.App:
    return procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, min_size=4, max_size=CONCURRENCY))


async def _work(url: str, jobs: int) -> float:
    app, done, started, began = _app(url), asyncio.Event(), 0, 0.0

    @app.task(name="noop")
    async def noop() -> None:
        nonlocal started, began
        began = began or time.perf_counter()
        started += 1
        if started == jobs:
            done.set()

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        worker = asyncio.create_task(app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False))
        deferring = subprocess.Popen([sys.executable, "-c", _DEFER, url, str(jobs)])
        async with asyncio.timeout(240):
            await done.wait()
            while await app.job_manager.list_jobs_async(status="doing"):
                await asyncio.sleep(0.005)
        seconds = time.perf_counter() - began
        deferring.wait(10)
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
    return jobs / seconds


def defer(url: str, jobs: int) -> None:
    asyncio.run(_defer(url, jobs))


async def _defer(url: str, jobs: int) -> None:
    app, left = _app(url), jobs
    task = app.configure_task("noop")

    async def some() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await task.defer_async()

    async with app.open_async():
        await asyncio.gather(*(some() for _ in range(CLIENTS)))
