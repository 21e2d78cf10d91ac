"""Tokens for clouds in a real executor: one phase at a time, renewed while the engine runs, masked, and only with a permit."""

from pathlib import Path

import pytest

from terracrew.masking.redactor import Redactor
from terracrew.protocol.messages import BeginRefused, Begun
from terracrew.protocol.spec import JobType
from terracrew.testing.executor_processes import ExecutorProcesses, Gate, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.executor.engine_runs import killed_alone

pytestmark = pytest.mark.engine

CLOUDS = ["sts.amazonaws.com", "api://azure"]


def gated(gate: Gate, before: str = "true", after: str = "true") -> str:
    return f'resource "terraform_data" "a" {{\n  {gate.provisioner(before, after)}\n}}\n'


@pytest.mark.feature("X4.cloud")
async def test_tokens_of_a_phase_are_there_while_it_runs_and_only_then(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    show = "env | grep ^TERRACREW_OIDC | sort; cat $TERRACREW_OIDC_TOKEN_FILE; echo ' it was'"
    source = module(tmp_path / "m", main=gated(gate, before=show))
    executor = await executors.run(executors.spec(JobType.APPLY, source, oidc_audiences=CLOUDS))
    await gate.reached()
    folder = executors.engine_directory / "provided" / "oidc"
    assert sorted(path.name for path in folder.iterdir()) == ["apply-API___AZURE", "apply-STS_AMAZONAWS_COM"]
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    await gate.open()
    assert await executor.exit_code() == 0
    assert hub.result.status == "SUCCEEDED", hub.log()
    assert [(audience, phase) for audience, phase, _ in hub.cloud_tokens] == [
        (audience, phase) for phase in ("plan", "apply") for audience in CLOUDS
    ]
    log = hub.log().decode()
    assert f"TERRACREW_OIDC_TOKEN_FILE={folder}/apply-STS_AMAZONAWS_COM" in log
    assert f"TERRACREW_OIDC_TOKEN_FILE_STS_AMAZONAWS_COM={folder}/apply-STS_AMAZONAWS_COM" in log
    assert f"TERRACREW_OIDC_TOKEN_FILE_API___AZURE={folder}/apply-API___AZURE" in log
    assert "*** it was" in log
    assert "apply-token" not in log
    assert not folder.exists()


@pytest.mark.feature("X4.cloud")
async def test_a_token_is_renewed_while_its_step_runs(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tmp_path: Path
) -> None:
    hub.cloud_token_life = 0.4
    gate = Gate(tmp_path)
    source = module(tmp_path / "m", main=gated(gate, after="cat $TERRACREW_OIDC_TOKEN_FILE; echo ' it was'"))
    executor = await executors.run(executors.spec(JobType.APPLY, source, oidc_audiences=CLOUDS[:1]))
    await gate.reached()
    file = executors.engine_directory / "provided" / "oidc" / "apply-STS_AMAZONAWS_COM"
    first, asked = file.read_text(), len(hub.cloud_tokens)
    await hub.until(lambda: len(hub.cloud_tokens) >= asked + 12)
    assert file.read_text() != first
    assert {phase for _, phase, _ in hub.cloud_tokens[asked:]} == {"apply"}
    await gate.open()
    assert await executor.exit_code() == 0
    assert "*** it was" in hub.log().decode()


@pytest.mark.feature("X4.cloud")
async def test_a_permit_is_asked_for_again_after_the_tokens_and_a_plan_made_again_sees_none_of_the_apply(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tmp_path: Path
) -> None:
    answers = [Begun(0), BeginRefused("state_moved", "the state moved"), Begun(0), Begun(0)]
    hub.answer_begin = lambda _: answers.pop(0)
    executor = await executors.run(
        executors.spec(
            JobType.APPLY, module(tmp_path / "m", main=gated(gate := Gate(tmp_path))), oidc_audiences=CLOUDS[:1]
        )
    )
    await gate.open()
    assert await executor.exit_code() == 0
    assert hub.result.status == "SUCCEEDED", hub.log()
    assert [phase for _, phase, _ in hub.cloud_tokens] == ["plan", "apply", "plan", "apply"]
    assert answers == []


@pytest.mark.feature("X4.cloud")
async def test_what_a_dead_executor_had_not_read_is_masked_by_its_salvage(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    source = module(tmp_path / "m", main=gated(gate, after="cat $TERRACREW_OIDC_TOKEN_FILE; echo ' it was'"))
    executor = await executors.run(executors.spec(JobType.APPLY, source, oidc_audiences=CLOUDS[:1]))
    await gate.reached()
    await killed_alone(executor, gate)
    assert await (await executors.salvage()).exit_code() == 0
    assert b"token-1 it was" in executor.printed
    assert "*** it was" in hub.log().decode()


@pytest.mark.feature("X4.cloud")
async def test_a_module_without_audiences_asks_for_nothing(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tmp_path: Path
) -> None:
    source = module(tmp_path / "m", main='resource "terraform_data" "a" { input = 1 }')
    executor = await executors.run(executors.spec(JobType.APPLY, source))
    assert await executor.exit_code() == 0
    assert hub.cloud_tokens == []
    assert len(hub.begins) == 1


def test_a_secret_that_came_later_is_masked_until_it_is_forgotten() -> None:
    redactor = Redactor(["first-secret"])
    redactor.add("a-later-and-longer-one")
    assert redactor.mask(b"first-secret a-later-and-longer-one") == b"*** ***"
    assert redactor.longest >= len("a-later-and-longer-one")
    redactor.forget("a-later-and-longer-one")
    assert redactor.mask(b"first-secret a-later-and-longer-one") == b"*** a-later-and-longer-one"
