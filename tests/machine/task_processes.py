"""Runs the tasks of the emulator of Fargate as processes of this machine: each is a real runner with the variables of its task."""

import importlib
import os
import threading
from pathlib import Path
from typing import Any

from tests.e2e.system import Process, System
from tests.machine.platforms.fargate import ACCOUNT, REGION, Fargate

_STOP_SIGNAL = 15


class TaskProcesses:
    def __init__(self, system: System, fargate: Fargate) -> None:
        self._system, self._fargate = system, fargate
        self.running: dict[str, Process] = {}
        """The process of each task, by its ARN, also if it has ended."""
        self.exit_codes: dict[str, int] = {}
        self.changed_variables: dict[str, str] = {}
        """What tests give to tasks instead of what their definition says."""
        self.broken_command: list[str] | None = None
        """What tasks run instead of a runner."""

    def run(self, task: Any) -> None:
        """Start the container of a task: its command, with the variables of its definition, its secrets and its request."""
        name = self._fargate.variables(task)["TERRACREW_RUNNER__INSTANCE"]
        own = {key: value for key, value in self._system.env.items() if not key.startswith("AWS_")}
        directory = self._system.directory / f"task-{name}"
        variables = own | self._fargate.variables(task) | self._secrets(task) | self.changed_variables
        arguments = self.broken_command or ["runner", "start", "--working-directory", str(directory)]
        process = Process(name, arguments, Path(self._system.directory) / f"{name}.log", variables)
        self.running[task.task_arn] = process
        threading.Thread(target=self._wait, args=(task, process), daemon=True).start()

    def stop(self, task: Any) -> None:
        os.kill(self.running[task.task_arn].pid, _STOP_SIGNAL)

    def close(self) -> None:
        for process in self.running.values():
            process.stop()

    def _secrets(self, task: Any) -> dict[str, str]:
        """What the agent of Fargate reads with the execution role before the container starts."""
        backend = importlib.import_module("moto.secretsmanager.models").secretsmanager_backends[ACCOUNT][REGION]
        return {
            each["name"]: str(backend.get_secret_value(each["valueFrom"], "", "")["SecretString"])
            for each in self._fargate.definition(task).get("secrets", [])
        }

    def _wait(self, task: Any, process: Process) -> None:
        code = process.wait()
        self.exit_codes[task.task_arn] = code
        self._fargate.end(task, code)
