"""The dispatcher `ecs`: starts, finds, follows and stops the tasks of attempts.

A task has no disk that outlives it. Its first process delivers what a dead executor left (`executor/container/ephemeral.py`),
and its exit code says how the attempt ended. Whether a task has begun is known for certain from the server: without the start
that the server gives away once, no process of the attempt can begin.
"""

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from terracrew.attempt import exit_codes, files
from terracrew.executor.container import ends
from terracrew.protocol.messages import CancelMode
from terracrew.protocol.start import ExecutorStart, new_ticket
from terracrew.runner.config import RunnerConfig
from terracrew.runner.dispatch.containers import attempts, container_start, values
from terracrew.runner.dispatch.containers.attempts import BackgroundTasks, ContainerHandle
from terracrew.runner.dispatch.ecs import settings, tasks, words
from terracrew.runner.dispatch.ecs.api import EcsApi, EcsRefused, EcsSilent
from terracrew.runner.dispatch.ecs.given_starts import GivenStarts
from terracrew.runner.dispatch.ecs.polling import POLL_SECONDS, LeftoverTasks, TaskPoller
from terracrew.runner.dispatch.ecs.settings import EcsSettings
from terracrew.runner.dispatch.ecs.tasks import Task, TaskOwner
from terracrew.runner.dispatch.protocol import AttemptEnd, NotStarted, of_another

log = logging.getLogger(__name__)

FORGOTTEN_SECONDS = 900.0
"""How long ECS must not know a task before it counts as ended. A new task is not shown at once, and a stopped one for an hour."""
_STOP_AGAIN_SECONDS = 30.0
_STOPPED = "STOPPED"
_WAITING = frozenset({"PROVISIONING", "PENDING", "ACTIVATING"})
_CANCELED = "it was canceled before its task was started"
_STOLEN = "another process used the ticket of its task: it may have been stolen, and the audit log has the address"
_FORGOTTEN = "ECS does not know its task any more, so how it ended is unknown"
_ARN = re.compile(r"arn:[a-z-]+:ecs:[a-z0-9-]+:\d+:task/[A-Za-z0-9_/-]+")


class TaskHandle(ContainerHandle):
    is_over: bool = False
    """Whether nobody watches the attempt any more."""


class Ecs:
    def __init__(
        self,
        chosen: EcsSettings,
        owner: TaskOwner,
        server_url: str = "",
        *,
        poll_seconds: float = POLL_SECONDS,
        forgotten_seconds: float = FORGOTTEN_SECONDS,
    ) -> None:
        """`server_url` is the server's address as the runner sees it; empty means that of the attempts."""
        self._settings, self._owner = chosen, owner
        self._forgotten_seconds = forgotten_seconds
        self._api = EcsApi(chosen)
        self._starts = GivenStarts(server_url)
        self._poller = TaskPoller(self._api, chosen.cluster, poll_seconds)
        self._poll_seconds = poll_seconds
        self._container_name = chosen.container
        self._tasks = BackgroundTasks()
        self.place = LeftoverTasks(self._api, chosen.cluster, owner)

    def use_instance(self, key: str) -> None:
        self._owner = self._owner.with_key(key)
        self.place = LeftoverTasks(self._api, self._settings.cluster, self._owner)

    async def engines(self) -> dict[str, list[str]] | None:
        return self._settings.engines or None

    async def start(self, start: ExecutorStart) -> TaskHandle:
        handle = TaskHandle(Path(start.directory), start)
        if not start.is_salvage:
            handle.waits_for = "Requesting a task of ECS"
            handle.launching = self._tasks.start(self._launch(handle, start))
        return handle

    def adopt(self, directory: Path) -> TaskHandle:
        return TaskHandle(directory)

    # ---- starting

    async def _launch(self, handle: TaskHandle, start: ExecutorStart) -> str:
        """Start the task. A request to stop ends everything up to the request to ECS."""
        ticket = new_ticket()
        request = await self._tasks.unless_stopped(self._prepare(handle.directory, start, ticket), handle.is_stopped)
        if request is None:
            async with attempts.briefly():  # no task has the ticket
                await self._starts.take_back(handle.directory)
            raise NotStarted(_CANCELED)
        attempts.write_mark(handle.directory, b"")
        arn = await self._run(handle.directory, request)
        attempts.write_mark(handle.directory, arn.encode())
        return arn

    async def _prepare(self, directory: Path, start: ExecutorStart, ticket: str) -> dict[str, Any]:
        """Give the start to the server. Returns the request that starts the task."""
        if (directory / files.PID).exists():
            raise NotStarted("the attempt was handed back")
        container = await self._container()
        inside = _without_bulk(container_start.inside(start, {}, waits_for_server=True))
        await self._starts.give(directory, inside, ticket, self._settings.start_seconds)
        request = tasks.request(self._settings, self._owner, directory.name, container, start.server_url, ticket)
        return tasks.with_choice(request, start.choice)

    async def _container(self) -> str:
        """Return the name of the container that runs the executor."""
        if not self._container_name:
            name = self._settings.task_definition
            try:
                answer = await self._api.ask(
                    "describe_task_definition", self._settings.start_seconds, taskDefinition=name
                )
            except (EcsRefused, EcsSilent) as error:
                raise NotStarted(f"the task definition {name} cannot be described: {error.message}") from None
            found = [each["name"] for each in answer["taskDefinition"]["containerDefinitions"]]
            if len(found) != 1:
                raise NotStarted(
                    f"the task definition {name} has the containers {', '.join(found)}: name the one that runs the executor in "
                    f"{values.VARIABLE_PREFIX}CONTAINER"
                )
            self._container_name = found[0]
        return self._container_name

    async def _run(self, directory: Path, request: Mapping[str, Any]) -> str:
        """Request the task, and return its ARN. A request that is repeated because its answer was lost starts nothing twice."""
        try:
            answer = await self._api.ask("run_task", self._settings.start_seconds, **request)
            if answer.get("tasks"):
                return str(answer["tasks"][0]["taskArn"])
            reason = words.of_failures(answer.get("failures", []))
        except EcsRefused as error:
            self._container_name = self._settings.container  # the container may have another name in a new revision
            reason = f"ECS does not start its task: {error.message}"
        except EcsSilent as error:
            reason = f"ECS did not answer for {self._settings.start_seconds:.0f} seconds: {error.message}"
        # An earlier request, whose answer was lost, may have started the task: then it has fetched its start.
        if await self._starts.take_back(directory):
            return await self._find(directory)
        attempts.remove_mark(directory)
        raise NotStarted(reason)

    # ---- following

    def waits_for(self, handle: TaskHandle) -> str:
        return handle.waits_for

    async def watch(self, handle: TaskHandle) -> AttemptEnd:
        directory = handle.directory
        if handle.start is not None and handle.start.is_salvage:
            return AttemptEnd(exit_codes.NOTHING_LEFT, "nothing outlives a task")
        try:
            end = await attempts.wait_for_start(handle, "task")
            if end is not None:
                return end
            arn = handle.launching.result() if handle.launching is not None else await self._adopted(directory)
            task = await self._ended(handle, arn) if arn else None
            return await self._conclude(handle, task)
        finally:
            handle.is_over = True

    async def _adopted(self, directory: Path) -> str:
        """Return the ARN of the task that an earlier process of the runner requested; empty if ECS does not know it any more."""
        if arn := _recorded(directory):
            return arn
        if (directory / files.CONTAINER).stat().st_size:
            raise of_another(directory)
        # The runner died while it requested the task. Without its start, a task that exists ends by itself.
        if not await self._starts.take_back(directory):
            raise NotStarted("the runner stopped while it requested the task of the executor")
        return await self._find(directory)

    async def _find(self, directory: Path) -> str:
        """Return the ARN of a task that has begun and whose ARN is unknown; empty if ECS does not list it."""
        until = time.monotonic() + self._forgotten_seconds
        while True:
            with contextlib.suppress(EcsRefused):  # a refusal says nothing about the task
                for task in await self.place.listed():
                    if tasks.attempt_of(task, self._owner) == directory.name:
                        arn = str(task["taskArn"])
                        attempts.write_mark(directory, arn.encode())
                        return arn
                if time.monotonic() > until:
                    return ""
            await asyncio.sleep(self._poll_seconds)

    async def _ended(self, handle: TaskHandle, arn: str) -> Task | None:
        """Return the description of a task that has ended; None if ECS does not know it any more."""
        start_until = time.monotonic() + self._settings.start_seconds
        missing_since: float | None = None
        while True:
            task = await self._poller.next(arn)
            now = time.monotonic()
            if task is None:
                missing_since = missing_since or now
                if now - missing_since >= self._forgotten_seconds:
                    return None
                continue
            missing_since = None
            is_waiting = task.get("lastStatus") in _WAITING
            container = tasks.container_of(task, self._container_name)
            handle.waits_for = f"Starting a task of ECS: {words.of_waiting(task, container)}" if is_waiting else ""
            if task.get("lastStatus") == _STOPPED:
                return task
            if now > start_until and is_waiting and not handle.is_stopped.is_set():
                start_until = now + self._settings.start_seconds
                if not await self._starts.take_back(handle.directory):
                    reason = words.of_waiting(task, container)
                    await self._request_stop(arn, "The task did not start in time")
                    raise NotStarted(
                        f"its task did not start within {self._settings.start_seconds:.0f} seconds: {reason}"
                    )

    async def _conclude(self, handle: TaskHandle, task: Task | None) -> AttemptEnd:
        """Write what the runner has to know of an attempt without processes, and say how it ended."""
        directory = handle.directory
        if task is None:
            return AttemptEnd(exit_codes.NOTHING_LEFT, _FORGOTTEN)
        container = tasks.container_of(task, await self._name_in(task))
        code, reason = container.get("exitCode"), words.of_end(task, container)
        end = None if code is None else ends.of_exit_code(int(code))
        if end is not None and end.has_begun:
            end.write_into(directory)
            if not end.done:
                return AttemptEnd(end.executor, reason)
            # An executor that is told to end delivers everything, and cannot know why it was told.
            return AttemptEnd(exit_codes.DELIVERED, "" if handle.is_stopped.is_set() else words.of_stop(task))
        if code != exit_codes.NOT_BEGUN and await self._starts.take_back(directory):
            if code == exit_codes.TICKET_REFUSED:
                raise NotStarted(_STOLEN)
            return AttemptEnd(exit_codes.NOTHING_LEFT, reason)
        if end is not None:
            raise NotStarted(f"the executor did not begin: {reason}; the log of its container says more")
        raise NotStarted(reason)

    async def _name_in(self, task: Task) -> str:
        """Return the name of the executor's container in a task that may be of an earlier process."""
        if self._container_name:
            return self._container_name
        names = [each.get("name", "") for each in task.get("containers", [])]
        return names[0] if len(names) == 1 else await self._container()

    # ---- stopping

    async def stop(self, handle: TaskHandle, mode: CancelMode) -> None:
        if not await attempts.begin_stop(handle, mode):
            return
        while not (arn := _recorded(handle.directory)):  # `watch` looks for a task that an earlier process requested
            if handle.is_over:
                return
            await asyncio.sleep(self._poll_seconds)
        # ECS sends SIGTERM, and SIGKILL when the container's `stopTimeout` is over. The executor ends its engine, and the first
        # process of the container what a dead executor left.
        asked_at: float | None = None
        while not handle.is_over:
            if asked_at is None or time.monotonic() - asked_at > _STOP_AGAIN_SECONDS:
                await self._request_stop(arn, f"Terracrew canceled the job ({mode})")
                asked_at = time.monotonic()
            task = await self._poller.next(arn)
            if task is not None and task.get("lastStatus") == _STOPPED:
                return  # one that ECS does not show yet may still come; `watch` knows when it is over

    async def _request_stop(self, arn: str, reason: str) -> None:
        with contextlib.suppress(EcsRefused):  # it has ended, and `watch` says so
            await self._api.ask("stop_task", cluster=self._settings.cluster, task=arn, reason=reason)

    async def close(self) -> None:
        await self._tasks.close()
        await self._poller.close()
        self._api.close()


def _recorded(directory: Path) -> str:
    """Return the ARN of the task of an attempt; empty if it is not known."""
    try:
        text = (directory / files.CONTAINER).read_text()
    except FileNotFoundError:
        return ""
    return text if _ARN.fullmatch(text) else ""


def _without_bulk(start: ExecutorStart) -> ExecutorStart:
    """Return a start without what an executor can fetch from the server itself: the source and the state."""
    if start.granted is None:
        return start
    spec = start.granted.spec
    state = msgspec.structs.replace(spec.state, content=None) if spec.state.size else spec.state
    granted = msgspec.structs.replace(start.granted, spec=msgspec.structs.replace(spec, archive=None, state=state))
    return msgspec.structs.replace(start, granted=granted)


class EcsPlugin:
    def open(self, config: RunnerConfig, environment: Mapping[str, str]) -> Ecs:
        del environment  # the credentials of engines are those of the task's role
        chosen = settings.parse(config.dispatcher_data)
        return Ecs(chosen, TaskOwner.for_runner(config), config.server_url)


PLUGIN = EcsPlugin()
