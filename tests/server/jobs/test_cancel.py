"""A canceled job keeps its lock until its attempt has ended; CANCELED means that the lock is free."""

import pytest

from terracrew.protocol.events import Result
from tests.builders.deliveries import RUNNING, fact
from tests.server.simulated_runner import SimulatedRunner


@pytest.mark.feature("J9.reported")
async def test_the_lock_is_free_when_the_job_is_canceled_and_not_before(runner: SimulatedRunner) -> None:
    module_id = await runner.rows.module("net")
    attempt = await runner.run(module_id, "APPLY")
    await attempt.deliver(RUNNING)
    address, admin = f"/api/v1/jobs/{attempt.ref.job_id}", runner.app.admin
    assert (await admin.post(f"{address}/cancel", json={"mode": "kill"})).status_code < 300
    asked = (await admin.get(address)).json()
    assert (asked["status"], asked["cancel_mode"]) == ("PROCESSING", "kill"), "a cancel is a request"
    assert asked["lock"]["job_id"] == attempt.ref.job_id
    await attempt.deliver(fact(Result("CANCELED", "canceled during plan")))
    ended = (await admin.get(address)).json()
    assert (ended["status"], ended["lock"]) == ("CANCELED", None)
    assert (await runner.run(module_id)).ref.job_id != attempt.ref.job_id, "the next job of the module can start"
