"""Runs of a real engine: how they are started, held and judged."""

import stat

from terracrew.protocol.events import StepStatus
from terracrew.protocol.spec import JobType
from terracrew.testing.executor_processes import Executor, ExecutorProcesses, Gate, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub


def statuses(hub: FakeExecutorHub) -> list[str]:
    return [f"{fact.step} {fact.status}" for fact in hub.facts_of(StepStatus)]


def gated(gate: Gate, before: str = "true", after: str = "true") -> str:
    first = 'resource "terraform_data" "first" { input = "made before the gate" }\n'
    held = 'resource "terraform_data" "held" {\n  depends_on = [terraform_data.first]\n  '
    return first + held + gate.provisioner(before, after) + "\n}\n"


async def at_the_gate(hub: FakeExecutorHub) -> None:
    await hub.until(lambda: b"at the gate" in hub.log(step="apply").replace(b"echo at the gate", b""))


async def applying(hub: FakeExecutorHub, stage: ExecutorProcesses) -> tuple[Executor, Gate]:
    """An apply whose engine stands at the gate."""
    gate = Gate(stage.folder)
    held = f'resource "terraform_data" "held" {{\n  {gate.provisioner()}\n}}\n'
    executor = await stage.run(stage.spec(JobType.APPLY, module(stage.folder / "source", main=held)))
    await hub.until(lambda: b"(local-exec):\x1b[0m \x1b[0mat the gate" in hub.log())
    return executor, gate


def ended(hub: FakeExecutorHub) -> StepStatus:
    """How the apply ended."""
    [status] = [fact for fact in hub.facts_of(StepStatus) if fact.step == "apply" and fact.status != "RUNNING"]
    return status


def wrapped(stage: ExecutorProcesses, tofu: str, script: str) -> str:
    """A folder with a `tofu` that runs this script before the real one."""
    folder = stage.folder / "bin"
    folder.mkdir()
    program = folder / "tofu"
    program.write_text(f'#!/bin/sh\n{script}\nexec {tofu} "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(folder)
