"""Runs of a real engine: how they are started, held and judged."""

import os
import stat
from pathlib import Path
from typing import Any

from terracrew.protocol.events import StepStatus
from terracrew.protocol.spec import Hook, JobType, Step, StepHook
from terracrew.testing.executor_processes import Executor, ExecutorProcesses, Gate, gone, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub

SMALL_MODULE = 'resource "terraform_data" "it" { input = "made" }\noutput "it" { value = terraform_data.it.output }\n'


def hook_before(step: Step, script: str = "", command: list[str] | None = None) -> StepHook:
    """A hook of the group `acme`."""
    return StepHook(step, "before", Hook(command=command) if command else Hook(script), "acme")


def with_argument(text: str) -> list[int]:
    """The living processes that have this argument."""
    found: list[int] = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if text.encode() in Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0"):
                found.append(int(name))
        except OSError:
            continue
    return found


def statuses(hub: FakeExecutorHub) -> list[str]:
    return [f"{fact.step} {fact.status}" for fact in hub.facts_of(StepStatus)]


def gated(gate: Gate, before: str = "true", after: str = "true") -> str:
    first = 'resource "terraform_data" "first" { input = "made before the gate" }\n'
    held = 'resource "terraform_data" "held" {\n  depends_on = [terraform_data.first]\n  '
    return first + held + gate.provisioner(before, after) + "\n}\n"


def gated_plan(gate: Gate, attribute: str = "input") -> str:
    """A module whose engine waits at the gate in its plan; in its apply, with the attribute `output`.

    A file that is a pipe holds the engine. Its name comes from a resource, so that it is not read before.
    """
    return f'''
        resource "terraform_data" "name" {{ input = "{gate.path}" }}
        resource "terraform_data" "held" {{ input = file(terraform_data.name.{attribute}) }}'''


async def at_the_gate(hub: FakeExecutorHub) -> None:
    await hub.until(lambda: b"at the gate" in hub.log(step="apply").replace(b"echo at the gate", b""))


async def applying(hub: FakeExecutorHub, executors: ExecutorProcesses, **spec: Any) -> tuple[Executor, Gate]:
    """An apply whose engine stands at the gate."""
    gate = Gate(executors.folder)
    held = f'resource "terraform_data" "held" {{\n  {gate.provisioner()}\n}}\n'
    source = module(executors.folder / "source", main=held)
    executor = await executors.run(executors.spec(JobType.APPLY, source, **spec))
    await hub.until(lambda: b"(local-exec):\x1b[0m \x1b[0mat the gate" in hub.log())
    return executor, gate


async def killed_alone(executor: Executor, gate: Gate) -> None:
    """Kill the executor, let its engine go on to its end, and wait until no process of the attempt is left."""
    executor.kill()
    await executor.exit_code()
    await gate.open()
    await gone(executor.process.pid)


def ended(hub: FakeExecutorHub) -> StepStatus:
    """How the apply ended."""
    [status] = [fact for fact in hub.facts_of(StepStatus) if fact.step == "apply" and fact.status != "RUNNING"]
    return status


def wrapped(executors: ExecutorProcesses, tofu: str, script: str) -> str:
    """A folder with a `tofu` that runs this script before the real one."""
    folder = executors.folder / "bin"
    folder.mkdir()
    program = folder / "tofu"
    program.write_text(f'#!/bin/sh\n{script}\nexec {tofu} "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(folder)
