"""The reason for which a job waits changes with time alone, too, and those who follow the job are told."""

import time

import msgspec
import pytest

from terracrew.server.runs import follow
from terracrew.testing.clock import ShiftedClock
from terracrew.testing.deliveries import RUNNING
from tests.server.simulated_runner import SimulatedRunner


@pytest.mark.feature("S6", "L4")
async def test_a_job_that_falls_silent_says_so_to_whoever_follows_it(
    crew: SimulatedRunner, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "QUIET_SECONDS", 0.1)
    job = await crew.run()
    await job.deliver(RUNNING)
    async with job.watched() as viewer:
        assert msgspec.json.decode((await viewer.next("job")).data)["reason"] is None
        await viewer.next("ping")
        crew.server.registry.now = lambda: time.monotonic() + 500
        clock.advance(300)  # nobody is woken by this
        while (told := msgspec.json.decode((await viewer.next("job")).data)["reason"]) is None:
            pass
        assert told["code"] == "silent"
        await viewer.next("ping")
