"""Teaches the emulator of ECS (moto) what Fargate does with standalone tasks: it starts them slowly, refuses them, throttles, lags.

Without a machine, tasks have no containers, and a clock of the test moves them from stage to stage. With one (`task_containers.py`), each
task is a real container of a Docker daemon.
"""

import importlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

import pytest

ACCOUNT, REGION = "123456789012", "eu-central-1"
STOP_TIMEOUT_SECONDS = 120
_PROVISIONING_RATIO, _PULLED_RATIO = 0.4, 0.9
_MOVE_SECONDS = 0.1
_OPERATIONS = (
    *("run_task", "stop_task", "describe_tasks", "list_tasks"),
    *("register_task_definition", "deregister_task_definition", "create_cluster", "delete_task_definitions"),
)


class Refusal(NamedTuple):
    """An error that ECS answers."""

    code: str
    message: str


class Machine(Protocol):
    """Runs the container of a task, and calls `Fargate.end` when it has ended."""

    def run(self, task: Any) -> None: ...

    def stop(self, task: Any) -> None: ...


class Bucket:
    """A token bucket, as the API of ECS has them for each account and region."""

    def __init__(self, burst: float, a_second: float, clock: Callable[[], float]) -> None:
        self._burst, self._a_second, self._clock = burst, a_second, clock
        self._left, self._filled_at = burst, clock()

    def take(self) -> bool:
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._filled_at) * self._a_second)
        self._filled_at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Clock:
    """Time that a test lets pass."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Fargate:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.start_seconds = 0.0
        """How long a task takes until its container runs. AWS needs 30 to 60 seconds."""
        self.lag_seconds = 0.0
        """How long a new task is missing from lists and descriptions."""
        self.role_lag_seconds = 0.0
        """How long ECS does not know a new role."""
        self.forgotten_seconds = 3600.0
        """How long a task that has stopped is shown."""
        self.missing_images: set[str] = set()
        """Images that cannot be pulled; `*` is every image."""
        self.failures: deque[dict[str, str]] = deque()
        """What RunTask answers in `failures[]`, once for each."""
        self.refusals: dict[str, deque[Refusal]] = {each: deque() for each in _OPERATIONS}
        """What operations answer instead of doing something, once for each."""
        self.is_away = False
        self.requests: list[str] = []
        self.throttled = 0
        self.machine: Machine | None = None
        self._buckets: list[tuple[set[str], Bucket]] = []
        self._tokens: dict[str, tuple[str, Any]] = {}
        self._made_at: dict[str, float] = {}
        self._stopped_at: dict[str, float] = {}
        self._lock = threading.RLock()
        self._models: Any = importlib.import_module("moto.ecs.models")
        self._iam: Any = importlib.import_module("moto.iam.models")
        self._exceptions: Any = importlib.import_module("moto.ecs.exceptions")
        self._results: Any = importlib.import_module("moto.core.responses")

    def limit_rates(self, left: float = 1.0) -> None:
        """Throttle as AWS does, an account in a region. Other programs of the account leave this part of what it accepts at once."""
        for operations, burst, a_second in (
            ({"run_task"}, 100, 20),
            ({"run_task", "stop_task"}, 100, 40),
            ({"describe_tasks", "list_tasks"}, 100, 20),
            ({"register_task_definition", "deregister_task_definition"}, 20, 1),
            ({"create_cluster"}, 20, 1),
            ({"delete_task_definitions"}, 5, 1),
        ):
            self._buckets.append((operations, Bucket(burst * left, a_second, self.clock)))

    @contextmanager
    def installed(self) -> Generator["Fargate"]:
        """Let the emulator of this process behave so."""
        manager: Any = importlib.import_module("moto.moto_api").state_manager
        manager.set_transition("ecs::task", {"progression": "manual", "times": 1 << 30})
        responses: Any = importlib.import_module("moto.ecs.responses").EC2ContainerServiceResponse
        with pytest.MonkeyPatch.context() as patch:
            for operation in _OPERATIONS:
                patch.setattr(responses, operation, self._wrapped(operation, getattr(responses, operation)))
            if isinstance(self.clock, Clock):
                yield self
                return
            is_over = threading.Event()
            moving = threading.Thread(target=self._move_until, args=(is_over,), daemon=True)
            moving.start()
            yield self
            is_over.set()
            moving.join()

    # ---- what tests look at and do

    @property
    def tasks(self) -> list[Any]:
        """All tasks that ECS has not forgotten."""
        backend = self._models.ecs_backends[ACCOUNT][REGION]
        return [task for tasks in backend.tasks.values() for task in tasks.values()]

    def task(self, arn: str) -> Any:
        return next(each for each in self.tasks if each.task_arn == arn)

    def variables(self, task: Any) -> dict[str, str]:
        """The variables of a task: those of its definition, and those of its request."""
        found = {each["name"]: each["value"] for each in self.definition(task)["environment"]}
        for override in task.overrides.get("containerOverrides", []):
            found |= {each["name"]: each["value"] for each in override.get("environment", [])}
        return found

    def definition(self, task: Any) -> dict[str, Any]:
        backend = self._models.ecs_backends[ACCOUNT][REGION]
        return backend.describe_task_definition(task.task_definition_arn).container_definitions[0]

    def interrupt(self, task: Any) -> None:
        """Take Spot capacity back: SIGTERM, and SIGKILL two minutes later."""
        self._stop(task, "SpotInterruption", "Your Spot Task was interrupted.")

    def retire(self, task: Any) -> None:
        """Stop a task for a change of the platform."""
        self._stop(task, "TerminationNotice", "Task is being retired for a platform update")

    def end(self, task: Any, exit_code: int | None = 0, *, code: str = "", reason: str = "", problem: str = "") -> None:
        """End a task whose container has ended."""
        with self._lock:
            container = task.containers[0]
            container.exitCode, container.last_status = exit_code, "STOPPED"
            if problem:
                container.reason = problem
            if task.desired_status != "STOPPED":
                task.stop_code = code or "EssentialContainerExited"
                task.stopped_reason = reason or "Essential container in task exited"
            task.desired_status, task.last_status = "STOPPED", "STOPPED"
            self._stopped_at[task.task_arn] = self.clock()

    def move(self) -> None:
        """Move every task to the stage that it has reached by now."""
        with self._lock:
            for task in self.tasks:
                self._move(task)

    # ---- what ECS does

    def _move_until(self, is_over: threading.Event) -> None:
        while not is_over.wait(_MOVE_SECONDS):
            self.move()

    def _wrapped(self, operation: str, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        special = {
            "run_task": self._run_task,
            "stop_task": self._stop_task,
            "register_task_definition": self._register,
            "describe_tasks": self._looked,
            "list_tasks": self._looked,
        }.get(operation, lambda response, call: call(response))

        def answer(response: Any) -> Any:
            with self._lock:
                self.requests.append(operation)
                if self.is_away:
                    raise RuntimeError("the API is unavailable")
                # A request takes from each of its buckets, also if one of them is empty.
                taken = [bucket.take() for operations, bucket in self._buckets if operation in operations]
                if not all(taken):
                    self.throttled += 1
                    raise self._error("ThrottlingException", "Rate exceeded")
                if self.refusals[operation]:
                    raise self._error(*self.refusals[operation].popleft())
                self.move()
                return special(response, original)

        return answer

    def _run_task(self, response: Any, call: Callable[[Any], Any]) -> Any:
        token = response._get_param("clientToken")
        wanted = json.dumps(
            {name: response._get_param(name) for name in ("taskDefinition", "overrides", "networkConfiguration")},
            sort_keys=True,
        )
        if token in self._tokens:
            before, task = self._tokens[token]
            if before != wanted:
                error = self._error("ConflictException", "The clientToken is in use with another request")
                error.resourceIds = [task.task_arn]
                raise error
            return self._results.ActionResult({"tasks": [task], "failures": []})
        if self.failures:
            return self._results.ActionResult({"tasks": [], "failures": [self.failures.popleft()]})
        self._require_roles(response._get_param("taskDefinition"))
        answer = call(response)
        for task in answer.result["tasks"]:
            task.last_status = "PROVISIONING"
            task.containers[0].exitCode = None
            self._made_at[task.task_arn] = self.clock()
            if token:
                self._tokens[token] = wanted, task
            self._move(task)
        return answer

    def _stop_task(self, response: Any, _call: Callable[[Any], Any]) -> Any:
        wanted = response._get_param("task")
        for task in self.tasks:
            if wanted in (task.task_arn, task.id):
                self._stop(task, "UserInitiated", response._get_param("reason") or "")
                return self._results.ActionResult({"task": task})
        raise self._error("InvalidParameterException", "The referenced task was not found.")

    def _register(self, response: Any, call: Callable[[Any], Any]) -> Any:
        for name in ("executionRoleArn", "taskRoleArn"):
            arn = response._get_param(name)
            if arn and self._is_too_new(arn):
                raise self._error(
                    "AccessDeniedException", f"not authorized to perform: iam:PassRole on resource: {arn}"
                )
        return call(response)

    def _looked(self, response: Any, call: Callable[[Any], Any]) -> Any:
        """Lists and descriptions lag behind what was started, and a list has only tasks that were not stopped."""
        answer = call(response)
        since = self.clock() - self.lag_seconds
        late = {arn for arn, made_at in self._made_at.items() if self.lag_seconds and made_at > since}
        result = answer.result
        if "tasks" in result:
            result["tasks"] = [each for each in result["tasks"] if each.task_arn not in late]
        else:
            desired = response._get_param("desiredStatus") or "RUNNING"
            shown = {each.task_arn for each in self.tasks if each.desired_status == desired}
            result["taskArns"] = [arn for arn in result["taskArns"] if arn not in late and arn in shown]
        return answer

    def _require_roles(self, definition: str) -> None:
        backend = self._models.ecs_backends[ACCOUNT][REGION]
        found = backend.describe_task_definition(definition)
        for arn in (found.execution_role_arn, found.task_role_arn):
            if arn and self._is_too_new(arn):
                words = f"ECS was unable to assume the role '{arn}' that was provided for this task."
                raise self._error("ClientException", words)

    def _is_too_new(self, arn: str) -> bool:
        roles = self._iam.iam_backends[ACCOUNT]["aws"].roles.values()
        made = next((role.create_date for role in roles if role.arn == arn), None)
        age = datetime.now(UTC) - made.replace(tzinfo=UTC) if made is not None else None
        return age is not None and age.total_seconds() < self.role_lag_seconds

    def _stop(self, task: Any, code: str, reason: str) -> None:
        with self._lock:
            if task.desired_status == "STOPPED":
                return
            task.desired_status, task.stop_code, task.stopped_reason = "STOPPED", code, reason
            task.tags = []
            if task.last_status == "RUNNING" and self.machine is not None:
                self.machine.stop(task)
            else:
                self.end(task, 143 if task.last_status == "RUNNING" else None)

    def _move(self, task: Any) -> None:
        arn = task.task_arn
        if task.last_status == "STOPPED":
            if self.clock() - self._stopped_at.get(arn, self.clock()) > self.forgotten_seconds:
                backend = self._models.ecs_backends[ACCOUNT][REGION]
                backend.tasks[task.cluster_name].pop(arn, None)
            return
        if task.last_status == "RUNNING" or arn not in self._made_at:
            return
        age = self.clock() - self._made_at[arn]
        if age < self.start_seconds * _PROVISIONING_RATIO:
            task.last_status = "PROVISIONING"
        elif {"*", self.definition(task)["image"]} & self.missing_images:
            words = f"CannotPullContainerError: pull image manifest has been retried 1 time(s): {self.definition(task)['image']}: not found"
            self.end(task, None, code="TaskFailedToStart", reason=words, problem=words)
        elif age < self.start_seconds * _PULLED_RATIO:
            task.last_status = "PENDING"
        elif age < self.start_seconds:
            task.last_status, task.pull_stopped_at = "ACTIVATING", time.time()
        else:
            task.last_status = task.containers[0].last_status = "RUNNING"
            task.started_at = time.time()
            if self.machine is not None:
                self.machine.run(task)

    def _error(self, code: str, message: str) -> Any:
        return self._exceptions.ECSException(code, message)
