"""How long jobs that cannot be started here are left to others."""

import pytest

from terracrew.protocol.dispatcher_choice import NO_CHOICE, DispatcherChoice
from terracrew.runner.attempts.executor_starts import StartFailures

pytestmark = pytest.mark.feature("D6.watched")
DELETED = DispatcherChoice("docker", "registry.example/deleted:1")


def test_a_job_that_cannot_be_started_is_tried_less_and_less_often_and_holds_up_others_once() -> None:
    failures = StartFailures()
    pauses = [
        failures.failed("job_1", NO_CHOICE) for _ in range(2000)
    ]  # a power of so many would be no number any more
    assert [each.job_seconds for each in pauses[:9]] == [5, 10, 20, 40, 80, 160, 320, 600, 600]
    assert [each.choice_seconds for each in pauses[:3]] == [5, 0, 0]


def test_different_jobs_that_fail_in_a_row_hold_up_those_that_ask_for_the_same() -> None:
    """Symptom: a dozen jobs with an image that had been deleted kept the runner from all of its jobs."""
    failures = StartFailures()
    pauses = [failures.failed(f"job_{number}", DELETED) for number in range(6)]
    assert [each.choice_seconds for each in pauses] == [5, 10, 20, 40, 60, 60]
    assert {each.job_seconds for each in pauses} == {5}
    assert failures.failed("job_0", DELETED) == (10, 60), "all of them fail, so what they ask for is the obstacle"
    assert failures.failed("job_9", NO_CHOICE) == (5, 5)


def test_a_start_that_succeeds_ends_both() -> None:
    failures = StartFailures()
    for job_id in ("job_1", "job_2", "job_1"):
        failures.failed(job_id, DELETED)
    failures.started("job_1", DELETED)
    assert failures.failed("job_1", DELETED) == (5, 5)
