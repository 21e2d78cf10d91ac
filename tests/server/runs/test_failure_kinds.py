"""What a job lacked when it failed, and a step that is tried again: as API and page show them."""

import pytest

from terracrew.protocol.events import Result, StepRetry, StepStatus
from terracrew.protocol.spec import Step
from tests.builders.deliveries import fact
from tests.server.simulated_runner import SimulatedRunner


@pytest.mark.feature("J10.memory")
@pytest.mark.parametrize(
    ("failure_kind", "word"),
    [
        ("out_of_memory", "Out of memory"),
        ("disk_full", "Disk full"),
        ("state_locked", "State locked by another run"),
        ("newer_cause", "newer_cause"),
    ],
)
async def test_the_cause_of_a_failure_is_named_on_the_job(
    runner: SimulatedRunner, failure_kind: str, word: str
) -> None:
    attempt = await runner.run(await runner.rows.module("net"))
    await attempt.deliver(fact(StepStatus(Step.PLAN, "RUNNING")))
    await attempt.deliver(fact(Result("FAILED", "plan failed: it lacked something", failure_kind=failure_kind)))
    job = (await runner.app.admin.get(f"/api/v1/jobs/{attempt.ref.job_id}")).json()
    assert (job["status"], job["failure_kind"]) == ("FAILED", failure_kind)
    page = (await runner.app.admin.get(f"/dashboard/jobs/{attempt.ref.job_id}")).text
    assert f'<b id="failure-kind">{word}.</b>' in page


@pytest.mark.feature("J10.retry")
async def test_a_step_that_is_tried_again_is_shown_on_the_job(runner: SimulatedRunner) -> None:
    attempt = await runner.run(await runner.rows.module("net"))
    job_id = attempt.ref.job_id
    await attempt.deliver(fact(StepStatus(Step.INIT, "RUNNING")))
    retry = StepRetry(2, 3, 10.0, "the registry is away")
    await attempt.deliver(fact(StepStatus(Step.INIT, "FAILED", 1, retry=retry)))
    job = (await runner.app.admin.get(f"/api/v1/jobs/{job_id}")).json()
    assert job["status"] == "PROCESSING", "the job goes on"
    assert (job["retry"]["number"], job["retry"]["tries"]) == (2, 3)
    assert job["reason"]["code"] == "retry"
    assert job["reason"]["text"].startswith("waiting for try 2 of 3 of init, ")
    assert job["reason"]["until"] == job["retry"]["at"], "pages and terminals show how many seconds are left"
    assert job["reason"]["text"].endswith("because the last one failed: the registry is away")
    await attempt.deliver(fact(StepStatus(Step.INIT, "RUNNING")))
    await attempt.deliver(fact(StepStatus(Step.INIT, "SUCCEEDED", 0)))
    assert (await runner.app.admin.get(f"/api/v1/jobs/{job_id}")).json()["retry"] is None
