"""A day of bursty load: what it costs against an oracle, how long jobs wait, and that none is killed."""

import random
import time

import pytest

from terracrew.server.cloud_hosted.scaling import ASLEEP_SECONDS
from terracrew.server.deployments import reads
from tests.builders.clock import ShiftedClock
from tests.builders.job_rows import JobRows
from tests.server.cloud_hosted.scaling_server import ScalingServer
from tests.server.cloud_hosted.simulated_day import SimulatedDay, bursts, oracle_seconds
from tests.server.deployments.cloud_rows import cloud_runner, cloud_runners

pytestmark = pytest.mark.feature("W3.scale")
MAX_COST_RATIO = 1.3
MAX_REACTION_SECONDS = 2.0
JOBS_OF_BURST = 24
BURSTS = 6


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_day_costs_little_more_than_with_an_oracle_and_kills_no_job(
    rows: JobRows, scaler: ScalingServer, clock: ShiftedClock
) -> None:
    rng = random.Random(30)
    runner_id = await cloud_runner(rows, max_instances=40)
    day = SimulatedDay(rows, scaler, clock, runner_id, rng)
    arrivals = bursts(rng, BURSTS, JOBS_OF_BURST)
    await day.run(arrivals)
    assert len(day.ran) == len(arrivals)
    outcomes = await rows.db.read(lambda tx: tx.all("SELECT DISTINCT status, attempt FROM jobs"))
    assert [(row["status"], row["attempt"]) for row in outcomes] == [("SUCCEEDED", 1)], "no job was killed or repeated"
    assert not (await rows.db.read(reads.activity)).awake, "it sleeps again"
    assert not scaler.cloud.stopped
    typical = sum(day.start_seconds) / 2
    ratio = day.task_seconds / oracle_seconds(day.ran, typical)
    waits = sorted(each.began - each.came for each in day.ran)
    assert waits[int(len(waits) * 0.95)] <= day.start_seconds[1] + MAX_REACTION_SECONDS
    assert ratio <= MAX_COST_RATIO, f"{len(day.ran)} jobs on {len(day.lived)} instances"
    assert scaler.cloud.requests["start"] <= len(day.lived)
    assert scaler.cloud.requests["watch"] <= day.most_alive + len(day.lived) * 20


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_thousand_sleeping_runners_need_no_request_and_hardly_any_time(
    rows: JobRows, scaler: ScalingServer
) -> None:
    await cloud_runners(rows, 1000)
    await scaler.step()
    began = time.process_time()
    scaler.scaling.note_changes()
    pause_seconds = await scaler.scaling.step()
    used_seconds = time.process_time() - began
    assert not scaler.cloud.requests
    assert pause_seconds == ASLEEP_SECONDS
    assert used_seconds / pause_seconds < 0.01, "a hundredth of a core"
