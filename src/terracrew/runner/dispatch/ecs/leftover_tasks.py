"""Where the directories of attempts are that run in tasks: nowhere outside of them. Only tasks are left to stop."""

import logging
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from terracrew.runner.dispatch.ecs import tasks
from terracrew.runner.dispatch.ecs.api import EcsApi, EcsRefused
from terracrew.runner.dispatch.ecs.polling import MAX_DESCRIBED_TASKS
from terracrew.runner.dispatch.ecs.tasks import Task, TaskOwner

log = logging.getLogger(__name__)


class LeftoverTasks:
    def __init__(self, api: EcsApi, cluster: str, owner: TaskOwner) -> None:
        self._api, self._cluster, self._owner = api, cluster, owner

    async def retrieve(self, _directory: Path, /) -> None:
        return  # the disk of a task is gone with it

    async def remove(self, _directory: Path, /) -> None:
        return  # ECS forgets a stopped task by itself

    async def sweep(self, kept: Callable[[], Collection[Path]], /) -> None:
        listed = await self.listed()
        names = {directory.name for directory in kept()}
        for task in listed:
            attempt = tasks.attempt_of(task, self._owner)
            if attempt is None or attempt in names:
                continue
            log.info("stopping the task of %s, which an earlier process left", attempt)
            try:
                await self._api.ask(
                    "stop_task",
                    cluster=self._cluster,
                    task=task["taskArn"],
                    reason="Terracrew has settled this attempt",
                )
            except EcsRefused as error:
                log.info("the task of %s cannot be stopped: %s", attempt, error.message)

    async def listed(self) -> list[Task]:
        """Return the tasks of this instance that ECS has not been asked to stop. `startedBy` must be the only filter."""
        found: list[Task] = []
        page: dict[str, Any] = {}
        while True:
            answer = await self._api.ask("list_tasks", cluster=self._cluster, startedBy=self._owner.started_by, **page)
            arns: list[str] = answer.get("taskArns", [])
            for start in range(0, len(arns), MAX_DESCRIBED_TASKS):
                shown = await self._api.ask(
                    "describe_tasks",
                    cluster=self._cluster,
                    tasks=arns[start : start + MAX_DESCRIBED_TASKS],
                    include=["TAGS"],
                )
                found += shown.get("tasks", [])
            if not answer.get("nextToken"):
                return found
            page = {"nextToken": answer["nextToken"]}
