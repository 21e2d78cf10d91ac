"""A step before the change is tried again after an error that may go away by itself; a change never is. OpenTofu runs."""

import fcntl
import json

import pytest

from terracrew.executor.engines import error_summary
from terracrew.protocol.events import StepStatus, Stream
from terracrew.protocol.messages import CancelAttempt
from terracrew.protocol.spec import GitSource, JobLimits, JobType, Step
from terracrew.testing.executor_processes import ExecutorProcesses, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.executor.engine_runs import SMALL_MODULE, statuses, wrapped

pytestmark = pytest.mark.feature("J10.retry")

AWAY = "echo 'Error: Failed to query available provider packages'; echo 'dial tcp: connect: connection refused'; exit 1"


@pytest.mark.engine
async def test_an_init_that_finds_no_registry_is_tried_again(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tofu: str
) -> None:
    mark = executors.folder / "mark"
    program = wrapped(executors, tofu, f"case $1 in init) [ -e {mark} ] || {{ touch {mark}; {AWAY}; }};; esac")
    source = module(executors.folder / "source", main=SMALL_MODULE)
    spec = executors.spec(JobType.PLAN, source, limits=JobLimits(plan_retries=2))
    executor = await executors.run(spec, engine_paths=[program], retry_seconds=0.1)
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    init = [each for each in hub.facts_of(StepStatus) if each.step == Step.INIT]
    assert [each.status for each in init] == ["RUNNING", "FAILED", "RUNNING", "SUCCEEDED"]
    assert init[1].retry is not None
    assert (init[1].retry.number, init[1].retry.tries) == (2, 3)
    assert init[1].retry.reason == "exit code 1: Failed to query available provider packages"
    assert b"try 2 of 3 starts in 0 s" in hub.log(Stream.SYSTEM)


@pytest.mark.engine
async def test_a_repository_that_is_away_is_fetched_again_and_the_last_error_is_kept(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    source = GitSource("https://127.0.0.1:1/acme/network.git")
    spec = executors.spec(JobType.PLAN, source, limits=JobLimits(plan_retries=1))
    executor = await executors.run(spec, retry_seconds=0.1)
    assert await executor.exit_code() == 0, executor.said
    assert statuses(hub)[:4] == ["fetch RUNNING", "fetch FAILED", "fetch RUNNING", "fetch FAILED"]
    assert "its server cannot be reached" in hub.result.message


@pytest.mark.engine
@pytest.mark.feature("J15.held")
async def test_a_plan_whose_state_another_run_has_locked_fails_at_once(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    state = executors.folder / "own" / "network.tfstate"
    state.parent.mkdir()
    held = {"ID": "5ce1", "Who": "maria@laptop", "Operation": "OperationTypeApply", "Created": "2026-11-16T17:30:12Z"}
    (state.parent / f".{state.name}.lock.info").write_text(json.dumps(held))
    main = f'terraform {{\n  backend "local" {{\n    path = "{state}"\n  }}\n}}\n{SMALL_MODULE}'
    source = module(executors.folder / "source", main=main)
    spec = executors.spec(JobType.PLAN, source, backend="own", limits=JobLimits(plan_retries=5))
    with state.open("w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        executor = await executors.run(spec, retry_seconds=0.1)
        assert await executor.exit_code() == 0, executor.said
    assert (hub.result.status, hub.result.failure_kind) == ("FAILED", "state_locked"), hub.result
    assert "plan failed: the state is locked by maria@laptop since 2026-11-16 17:30:12" in hub.result.message
    assert statuses(hub).count("plan RUNNING") == 1


@pytest.mark.engine
async def test_an_apply_is_never_repeated(hub: FakeExecutorHub, executors: ExecutorProcesses, tofu: str) -> None:
    program = wrapped(executors, tofu, f"case $1 in apply) {AWAY};; esac")
    source = module(executors.folder / "source", main=SMALL_MODULE)
    spec = executors.spec(JobType.APPLY, source, limits=JobLimits(plan_retries=5))
    executor = await executors.run(spec, engine_paths=[program], retry_seconds=0.1)
    assert await executor.exit_code() == 0, executor.said
    assert statuses(hub).count("apply RUNNING") == 1
    assert hub.result.status == "FAILED"


@pytest.mark.engine
async def test_a_job_that_waits_for_its_next_try_is_canceled_at_once(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tofu: str
) -> None:
    program = wrapped(executors, tofu, f"case $1 in init) {AWAY};; esac")
    source = module(executors.folder / "source", main=SMALL_MODULE)
    spec = executors.spec(JobType.PLAN, source, limits=JobLimits(plan_retries=1))
    executor = await executors.run(spec, engine_paths=[program], retry_seconds=1000.0)
    await hub.until(lambda: "init FAILED" in statuses(hub))
    await hub.tell(CancelAttempt("job_1", 1, "interrupt"))
    assert await executor.exit_code() == 0, executor.said
    assert (hub.result.status, hub.result.message) == ("CANCELED", "canceled before try 2 of init")


@pytest.mark.parametrize(
    ("printed", "is_transient"),
    [
        ("Error: could not query registry\nGet https://r/: dial tcp: lookup r: no such host", True),
        ("Error: 503 Service Unavailable", True),
        ("Error: request failed: status code: 502", True),
        ("error: net/http: TLS handshake timeout", True),
        ("Error: Unsupported argument", False),
        ("connection refused in an earlier line\nError: Unsupported argument", False),
        ("Error: HTTP 404", False),
        ("", False),
    ],
)
def test_only_errors_that_another_machine_causes_are_transient(printed: str, is_transient: bool) -> None:
    assert error_summary.is_transient(printed) == is_transient


def test_the_delay_doubles_up_to_a_bound() -> None:
    assert 8 <= error_summary.retry_delay_seconds(10.0, 1) <= 12
    assert 16 <= error_summary.retry_delay_seconds(10.0, 2) <= 24
    assert error_summary.retry_delay_seconds(10.0, 30) <= 1.2 * error_summary.MAX_RETRY_DELAY_SECONDS
