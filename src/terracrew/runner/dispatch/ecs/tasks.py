"""What the task of an attempt looks like: its tags, its client token, and the few variables that it is started with."""

import hashlib
from collections.abc import Mapping
from typing import Any

from terracrew.executor.container.ticket import TICKET_VARIABLE
from terracrew.protocol.dispatcher_choice import DispatcherChoice
from terracrew.runner.dispatch.containers.attempts import InstanceOwner
from terracrew.runner.dispatch.ecs.settings import EcsSettings
from terracrew.runner.dispatch.protocol import NotStarted

_TAG = "terracrew"
_KEY, _RUNNER, _INSTANCE, _ATTEMPT = (f"{_TAG}:{name}" for name in ("key", "runner", "instance", "attempt"))
_MAX_TAG_CHARACTERS = 256
_UNITS_OF_CPU_COUNT = 1024
Task = Mapping[str, Any]
"""A task as DescribeTasks shows it."""


class TaskOwner(InstanceOwner, frozen=True):
    dispatcher = "ecs"

    @property
    def started_by(self) -> str:
        return f"{_TAG}/{self.key}"

    def tags(self, attempt: str) -> list[dict[str, str]]:
        found = {_KEY: self.key, _RUNNER: self.runner, _INSTANCE: self.instance, _ATTEMPT: attempt}
        return [{"key": name, "value": value[:_MAX_TAG_CHARACTERS]} for name, value in found.items()]

    def client_token(self, attempt: str) -> str:
        """Return the text by which ECS recognizes a repeated request, so that it starts nothing twice."""
        return hashlib.sha256(f"{self.key}:{attempt}".encode()).hexdigest()


def request(
    chosen: EcsSettings, owner: TaskOwner, attempt: str, container: str, server_url: str, ticket: str
) -> dict[str, Any]:
    """Return the arguments of RunTask. Everybody who may describe tasks can read them, so they hold nothing but a ticket."""
    override = {
        "name": container,
        "command": ["ephemeral", "--start", f"ticket:{server_url}"],
        "environment": [{"name": TICKET_VARIABLE, "value": ticket}],
    }
    found: dict[str, Any] = {
        "cluster": chosen.cluster,
        "taskDefinition": chosen.task_definition,
        "launchType": chosen.launch_type.upper(),
        "count": 1,
        "clientToken": owner.client_token(attempt),
        "startedBy": owner.started_by,
        "tags": owner.tags(attempt),
        "overrides": {"containerOverrides": [override]},
    }
    if chosen.subnets:
        network: dict[str, Any] = {"subnets": chosen.subnets}
        if chosen.security_groups:
            network["securityGroups"] = chosen.security_groups
        if chosen.launch_type == "fargate":
            network["assignPublicIp"] = "ENABLED" if chosen.assign_public_ip else "DISABLED"
        found["networkConfiguration"] = {"awsvpcConfiguration": network}
    return found


def with_choice(request: dict[str, Any], choice: DispatcherChoice) -> dict[str, Any]:
    """Return the arguments of RunTask with what the job asks for. An image is part of the task definition."""
    if choice.image:
        raise NotStarted("the dispatcher `ecs` cannot choose an image: it is part of the task definition")
    asked = {
        "memory": None if choice.memory_mb is None else str(choice.memory_mb),
        "cpu": None if choice.cpu is None else str(round(choice.cpu * _UNITS_OF_CPU_COUNT)),
        "taskRoleArn": choice.service_account,
    }
    overrides = {**request["overrides"], **{name: value for name, value in asked.items() if value}}
    return {**request, "overrides": overrides}


def attempt_of(task: Task, owner: TaskOwner) -> str | None:
    """Return the attempt that a task runs; None if it is not of this instance."""
    tags = {each["key"]: each["value"] for each in task.get("tags", [])}
    return tags.get(_ATTEMPT) if tags.get(_KEY) == owner.key else None


def container_of(task: Task, name: str) -> Mapping[str, Any]:
    """Return the container that runs the executor, as DescribeTasks shows it; empty if it is not there."""
    for each in task.get("containers", []):
        if each.get("name") == name:
            return each
    return {}
