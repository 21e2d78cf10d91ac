"""Executors that run the engine and the source of another package."""

import json
import os
from pathlib import Path

import pytest

from terracrew.protocol.events import StepStatus, Stream
from terracrew.protocol.spec import Hook, JobType, PluginSource, Step, StepHook
from terracrew.testing.executor_processes import ExecutorProcesses, Gate, gone
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests import example_plugin
from tests.executor.engine_runs import statuses

SAY = '#!/bin/sh\necho "HOOK $TERRACREW_HOOK $TERRACREW_STEP [$TERRACREW_STEP_STATUS]"\n'


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    path = [str(example_plugin.DIRECTORY), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))


def source(**notes: dict[str, str]) -> PluginSource:
    text = json.dumps({"notes": notes, "outputs": {}})
    return PluginSource("text", {"files": {"notes.json": {"text": text}}})


async def test_an_engine_runs_the_steps_that_it_has_and_the_others_are_skipped(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    executor = await executors.run(executors.spec(JobType.APPLY, source(one={"text": "1"}), engine="notes"))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    assert [each for each in statuses(hub) if "SKIPPED" in each] == ["init SKIPPED", "validate SKIPPED"]
    [(_, fact, content)] = hub.states
    assert (fact.serial, fact.resources) == (1, 1)
    assert json.loads(content)["notes"] == {"one": "1"}


@pytest.mark.feature("H1.scripts")
async def test_the_hooks_of_a_step_that_the_engine_does_not_have_run(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """A group's policy check on `validate` was skipped without a word for modules whose engine has no such command."""
    hooks = [StepHook(Step.VALIDATE, when, Hook(SAY), "acme") for when in ("before", "after")]
    spec = executors.spec(JobType.APPLY, source(one={"text": "1"}), engine="notes", hooks=hooks)
    executor = await executors.run(spec)
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    lines = [line for line in hub.log().decode().splitlines() if line.startswith("HOOK")]
    assert lines == ["HOOK before validate []", "HOOK after validate [SUCCEEDED]"]
    assert [each for each in statuses(hub) if "SKIPPED" in each] == ["init SKIPPED"]


@pytest.mark.feature("H1.scripts")
async def test_a_failed_hook_of_a_step_that_the_engine_does_not_have_ends_the_job_before_any_change(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    hooks = [StepHook(Step.VALIDATE, "before", Hook("#!/bin/sh\nexit 3\n"), "acme")]
    spec = executors.spec(JobType.APPLY, source(one={"text": "1"}), engine="notes", hooks=hooks)
    executor = await executors.run(spec)
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "FAILED"
    assert hub.result.message == "validate failed: the hook before validate of `acme` ended with exit code 3"
    assert hub.states == []


async def test_an_engine_that_fails_is_reported_with_its_own_error(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    spec = executors.spec(JobType.APPLY, source(one={"fail": "the pen is empty"}), engine="notes")
    executor = await executors.run(spec)
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.message == "apply failed: exit code 1: the pen is empty"
    assert StepStatus(Step.APPLY, "FAILED", 1, is_cut_short=False) in hub.facts


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (PluginSource("text", {"folder": "x"}), "the settings of the source are wrong"),
        (PluginSource("text", {"files": {"notes.json/below": {}, "notes.json": {}}}), "notes.json"),
        (PluginSource("absent"), "there is no source 'absent' here; installed: archive, git, local, registry, text"),
        (PluginSource("local", {"path": "/etc"}), "'local' is not a plug-in"),
    ],
)
async def test_a_source_that_cannot_be_had_fails_the_job_with_a_reason(
    hub: FakeExecutorHub, executors: ExecutorProcesses, given: PluginSource, words: str
) -> None:
    executor = await executors.run(executors.spec(JobType.PLAN, given, engine="notes"))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "FAILED"
    assert words in hub.result.message


@pytest.mark.feature("J15.kept", "O4.salvaged")
async def test_the_salvage_of_a_state_that_its_engine_fails_to_read_ends_and_delivers_it(
    hub: FakeExecutorHub, executors: ExecutorProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine raised KeyError for a state: its delivery crashed and was started again, for ever."""
    gate = Gate(executors.folder)
    held = source(one={"text": "1"}, two={"pipe": str(gate.path)})
    executor = await executors.run(executors.spec(JobType.APPLY, held, engine="notes"))
    await gate.reached()
    executor.kill()
    await executor.exit_code()
    await gate.open()
    await gone(executor.process.pid)
    record = json.loads((Path(executor.directory) / "mutation.json").read_text())
    assert (record["leftover"], record["engine"]) == ("notes.leftover", "notes")
    monkeypatch.setenv("NOTES_BROKEN_IDENTITY", "1")
    salvage = await executors.salvage()
    assert await salvage.exit_code() == 0, salvage.said
    _, fact, content = hub.states[-1]
    assert json.loads(content)["notes"] == {"one": "1", "two": ""}
    assert fact.origin == "errored"
    assert "the engine 'notes' failed to read this state: KeyError" in fact.problem
    assert b"The file is kept unchanged, in quarantine" in hub.log(Stream.SYSTEM)
    assert "failed to read this state\nTraceback" in salvage.said, "a person finds the traceback"
