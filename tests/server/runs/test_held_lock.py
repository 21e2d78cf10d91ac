"""The lock of a module's own backend may outlive an engine that was killed, and people are told so."""

from typing import Any

import pytest

from terracrew.protocol.events import Result, StepStatus
from terracrew.protocol.spec import Step
from tests.builders.deliveries import RUNNING, fact
from tests.server.dashboard.visitor import logged_in
from tests.server.simulated_runner import SimulatedAttempt, SimulatedRunner

pytestmark = pytest.mark.feature("J9.modes")
KILLED = fact(Result("CANCELED", "canceled during plan", is_lock_free=False))
PLANNED = fact(StepStatus(Step.PLAN, "SUCCEEDED", 0))


async def killed(runner: SimulatedRunner, module: str) -> SimulatedAttempt:
    """A job that was canceled by a kill in the middle of its plan."""
    attempt = await runner.run(module)
    await attempt.deliver(RUNNING)
    await runner.app.admin.post(f"/api/v1/jobs/{attempt.ref.job_id}/cancel", json={"mode": "kill"})
    await attempt.deliver(KILLED)
    return attempt


async def own_module(runner: SimulatedRunner) -> str:
    module = await runner.rows.module("net")
    await runner.app.admin.patch(f"/api/v1/modules/{module}", json={"backend": "own"})
    return module


async def shown(runner: SimulatedRunner, address: str) -> dict[str, Any]:
    return (await runner.app.admin.get(f"/api/v1/{address}")).json()


async def test_a_kill_with_the_modules_own_backend_says_that_the_lock_may_still_be_held(
    runner: SimulatedRunner,
) -> None:
    """The server ignored that, so that the next job failed to get the lock and nothing said why."""
    module = await own_module(runner)
    attempt = await killed(runner, module)
    job = await shown(runner, f"jobs/{attempt.ref.job_id}")
    assert job["status"] == "CANCELED"
    assert job["message"].startswith("canceled during plan; its engine was killed, so the lock of the module's own")
    found = (await shown(runner, f"modules/{module}"))["held_lock"]
    assert (found["job_id"], found["number"], found["attempt"]) == (job["id"], job["number"], 1)

    following = await runner.run(module)
    assert (await shown(runner, f"jobs/{following.ref.job_id}"))["held_lock"] == found, "the next job warns"
    someone = await logged_in(runner.app)
    for page in (f"modules/{module}", f"jobs/{following.ref.job_id}"):
        assert "The lock of its own backend may still be held" in await someone.see(f"/dashboard/{page}")


async def test_the_warning_ends_when_a_later_job_has_had_the_lock(runner: SimulatedRunner) -> None:
    module = await own_module(runner)
    await killed(runner, module)
    refused = await runner.run(module)
    await refused.deliver(RUNNING, fact(StepStatus(Step.PLAN, "FAILED", 1)), fact(Result("FAILED", "plan failed")))
    assert (await shown(runner, f"modules/{module}"))["held_lock"], "a job that failed shows nothing about the lock"
    assert (await shown(runner, f"jobs/{refused.ref.job_id}"))["held_lock"], "the lock may be why it failed"
    planned = await runner.run(module)
    await planned.deliver(RUNNING, PLANNED)
    assert (await shown(runner, f"modules/{module}"))["held_lock"] is None
    assert (await shown(runner, f"jobs/{planned.ref.job_id}"))["held_lock"] is None


async def test_an_attempt_that_was_lost_may_have_left_the_lock_behind_too(runner: SimulatedRunner) -> None:
    module = await own_module(runner)
    lost = await runner.run(module)
    await lost.deliver(RUNNING)
    await lost.lose()
    assert (await shown(runner, f"modules/{module}"))["held_lock"]["job_id"] == lost.ref.job_id
    await lost.deliver(PLANNED, fact(Result("SUCCEEDED")))
    assert (await shown(runner, f"modules/{module}"))["held_lock"] is None, "its result came late: it ended by itself"


async def test_the_lock_of_terracrews_own_backend_ends_with_its_attempt(runner: SimulatedRunner) -> None:
    module = await runner.rows.module("net")
    lost = await runner.run(module)
    await lost.deliver(RUNNING)
    await lost.lose()
    assert (await shown(runner, f"modules/{module}"))["held_lock"] is None
    assert (await shown(runner, f"jobs/{lost.ref.job_id}"))["held_lock"] is None


async def test_an_attempt_that_never_started_holds_no_lock(runner: SimulatedRunner) -> None:
    module = await own_module(runner)
    claimed = await runner.run(module)
    await claimed.lose()
    assert (await shown(runner, f"modules/{module}"))["held_lock"] is None
