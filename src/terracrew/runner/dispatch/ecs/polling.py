"""Describes the tasks of all attempts in one request, however many are watched: ECS limits how often it is asked."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from terracrew import backoff
from terracrew.backoff import Backoff
from terracrew.errors import TerracrewError
from terracrew.runner.dispatch.ecs import tasks
from terracrew.runner.dispatch.ecs.api import EcsApi, EcsRefused
from terracrew.runner.dispatch.ecs.tasks import Task, TaskOwner

log = logging.getLogger(__name__)

MAX_DESCRIBED_TASKS = 100
POLL_SECONDS = 5.0
_MAX_POLL_SECONDS = 60.0


class TaskPoller:
    def __init__(self, api: EcsApi, cluster: str, poll_seconds: float = POLL_SECONDS) -> None:
        self._api, self._cluster, self._poll_seconds = api, cluster, poll_seconds
        self._waiting: dict[str, list[asyncio.Future[Task | None]]] = {}
        self._polling: asyncio.Task[None] | None = None
        self._next_at = 0.0
        """When ECS may be asked again. Who waits for a task asks for it again as soon as there is an answer."""

    async def next(self, arn: str) -> Task | None:
        """Return the next description of a task; None if ECS answers and does not know it. It waits while ECS is silent."""
        answer: asyncio.Future[Task | None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(arn, []).append(answer)
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll())
        try:
            return await answer
        finally:
            if not answer.done() or answer.cancelled():
                self._forget(arn, answer)

    async def close(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)

    async def _poll(self) -> None:
        """Describe everything that somebody waits for, until nobody does."""
        delays, is_reported = Backoff(self._poll_seconds, _MAX_POLL_SECONDS), False
        while self._waiting:
            await asyncio.sleep(max(0.0, self._next_at - time.monotonic()))
            self._next_at = time.monotonic() + backoff.jittered(self._poll_seconds)
            try:
                await self.step()
                delays.reset()
                is_reported = False
            except TerracrewError as error:  # whatever it says, it says nothing about the tasks
                self._next_at += delays.next()
                if not is_reported:
                    log.warning("the tasks of this runner cannot be described, which is tried again: %s", error.message)
                    is_reported = True

    async def step(self) -> None:
        """Describe each waiting task once."""
        arns = list(self._waiting)
        for start in range(0, len(arns), MAX_DESCRIBED_TASKS):
            asked = arns[start : start + MAX_DESCRIBED_TASKS]
            answer = await self._api.call("describe_tasks", cluster=self._cluster, tasks=asked)
            shown: dict[str, Task] = {each["taskArn"]: each for each in answer.get("tasks", [])}
            for arn in asked:
                for waiting in self._waiting.pop(arn, []):
                    if not waiting.done():
                        waiting.set_result(shown.get(arn))

    def _forget(self, arn: str, answer: asyncio.Future[Task | None]) -> None:
        waiting = self._waiting.get(arn, [])
        if answer in waiting:
            waiting.remove(answer)
        if not waiting:
            self._waiting.pop(arn, None)


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
