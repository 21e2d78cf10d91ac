"""`wake_s`: from the commit of a job to the request to the cloud of its sleeping runner. `scale_cost_ratio`: what a simulated day of
bursts costs, in seconds of instances, against an oracle."""

import asyncio
import random
import time

from terracrew.server.db import open_database
from tests.bench.figures import percentile
from tests.bench.filled_server import Env
from tests.builders.clock import ShiftedClock
from tests.builders.job_rows import JobRows
from tests.server.cloud_hosted.scaling_server import ScalingServer
from tests.server.cloud_hosted.simulated_cloud import SimulatedCloud
from tests.server.cloud_hosted.simulated_day import SimulatedDay, bursts, oracle_seconds
from tests.server.deployments.cloud_rows import cloud_runner

WAKES = 100


def run(env: Env) -> dict[str, float]:
    found: dict[str, float] = {}
    for kind in ("sqlite", "postgres"):
        with env.database(kind) as url:
            waits = asyncio.run(_wake(url or str(env.folder(f"wake-{kind}") / "terracrew.db")))
        found[f"wake_s.{kind}.p99"] = percentile(waits, 0.99)
    found["scale_cost_ratio"] = asyncio.run(_day(str(env.folder("day") / "terracrew.db")))
    return found


async def _wake(address: str) -> list[float]:
    db = await open_database(address)
    server = ScalingServer(db, SimulatedCloud())
    loops = [asyncio.create_task(server.scheduler.run()), asyncio.create_task(server.scaling.run())]
    try:
        rows, waits = await JobRows.make(db), list[float]()
        for number in range(WAKES):
            group = await rows.group(f"g{number}")
            await cloud_runner(rows, group, f"g{number}")
            module_id = await rows.module(f"g{number}/m", group)
            while not server.scheduler.freshness.is_current:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.1)
            before, job_id = len(server.cloud.started), await rows.job(module_id)
            began = time.perf_counter()
            db.wake_here("queue", job_id)
            while len(server.cloud.started) == before:
                await asyncio.sleep(0.001)
            waits.append(time.perf_counter() - began)
        return waits
    finally:
        for each in loops:
            each.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await server.tasks.stop()
        await db.close()


async def _day(address: str) -> float:
    clock, rng = ShiftedClock(), random.Random(30)
    db = await open_database(address, clock)
    server = ScalingServer(db, SimulatedCloud())
    try:
        rows = await JobRows.make(db)
        day = SimulatedDay(rows, server, clock, await cloud_runner(rows, max_instances=40), rng)
        await day.run(bursts(rng, 12, 40))
        return day.task_seconds / oracle_seconds(day.ran, sum(day.start_seconds) / 2)
    finally:
        await server.tasks.stop()
        await db.close()
