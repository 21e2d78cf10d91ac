"""Runs the tasks of the emulator of Fargate as containers of a Docker daemon: each is a real runner, as its task definition says.

A container gets the variables of the definition and of the request, and the secrets that the definition names. What it prints is in the
log of the emulator when it has ended.
"""

import importlib
import json
import subprocess
import threading
import time
from typing import Any

from tests.machine.platforms.fargate import ACCOUNT, REGION, STOP_TIMEOUT_SECONDS, Fargate

_COMMAND = ["-P", "-m", "terracrew.cli", "runner", "start"]


class TaskContainers:
    def __init__(self, fargate: Fargate, docker: str, image: str) -> None:
        """Every task runs this image, whatever its definition names."""
        self._fargate, self._docker, self._image = fargate, ["docker", "--host", docker], image
        self._started: dict[str, threading.Thread] = {}
        self.exit_codes: dict[str, int] = {}
        """How the containers ended, by the ARN of their task."""
        self.command = _COMMAND
        """What containers run, as arguments of Python."""

    def run(self, task: Any) -> None:
        thread = threading.Thread(target=self._live, args=(task,), daemon=True)
        self._started[task.id] = thread
        thread.start()

    def stop(self, task: Any) -> None:
        stop = [*self._docker, "stop", "--time", str(STOP_TIMEOUT_SECONDS), task.id]
        subprocess.Popen(stop, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self, task: Any) -> None:
        """End a container as a machine that fails does."""
        subprocess.run([*self._docker, "kill", task.id], capture_output=True, check=True)

    def running(self) -> list[str]:
        """The ids of the tasks whose containers run."""
        listed = [*self._docker, "ps", "--no-trunc", "--format", "{{.Names}}"]
        names = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()
        return [each for each in names if each in self._started]

    def close(self) -> None:
        for name in self._started:
            subprocess.run([*self._docker, "rm", "--force", name], capture_output=True, check=False)
        for thread in self._started.values():
            thread.join()

    def _live(self, task: Any) -> None:
        variables = self._fargate.variables(task) | self._secrets(task) | {"HOME": "/home"}
        run = [
            *self._docker,
            "run",
            "--detach",
            "--init",
            "--name",
            task.id,
            "--network",
            "host",
            "--user",
            "10001:10001",
        ]
        run += [f"--tmpfs={folder}:exec,mode=1777" for folder in ("/home", "/tmp")]
        given = [f"--env={name}={value}" for name, value in variables.items()]
        subprocess.run(
            [*run, *given, "--entrypoint", "python3", self._image, *self.command], check=True, capture_output=True
        )
        subprocess.run([*self._docker, "wait", task.id], capture_output=True, check=False)
        self._write_log(task)
        code = self._exit_code(task.id)
        self.exit_codes[task.task_arn] = code
        self._fargate.end(task, code)

    def _secrets(self, task: Any) -> dict[str, str]:
        """What ECS reads with the execution role before the container starts."""
        backend = importlib.import_module("moto.secretsmanager.models").secretsmanager_backends[ACCOUNT][REGION]
        return {
            each["name"]: str(backend.get_secret_value(each["valueFrom"], "", "")["SecretString"])
            for each in self._fargate.definition(task).get("secrets", [])
        }

    def _write_log(self, task: Any) -> None:
        printed = subprocess.run(
            [*self._docker, "logs", task.id], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        ).stdout
        options = self._fargate.definition(task)["logConfiguration"]["options"]
        backend = importlib.import_module("moto.logs.models").logs_backends[ACCOUNT][REGION]
        group, stream = options["awslogs-group"], f"{options['awslogs-stream-prefix']}/runner/{task.id}"
        now = int(time.time() * 1000)
        events = [{"timestamp": now, "message": line} for line in printed.splitlines() if line]
        if events and group in backend.groups:
            backend.create_log_stream(group, stream)
            backend.put_log_events(group, stream, events)

    def _exit_code(self, name: str) -> int:
        found = subprocess.run([*self._docker, "container", "inspect", name], capture_output=True, check=False)
        shown = json.loads(found.stdout or b"[]")
        return int(shown[0]["State"]["ExitCode"]) if shown else 137
