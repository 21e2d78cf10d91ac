"""What the dispatchers of containers, pods and tasks share: whose they are, and how a start is followed, canceled and taken back."""

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import msgspec

from terracrew.attempt import delivered, exit_codes, files, ownership
from terracrew.protocol.messages import CancelMode
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.config import RunnerConfig
from terracrew.runner.dispatch.protocol import AttemptEnd, NotStarted, of_another
from terracrew.system import durable

log = logging.getLogger(__name__)

KILL_SECONDS = 15.0
"""How long an executor may take to end its engine before everything in its container is killed."""
_CANCEL_SECONDS = 5.0
"""How long a service that does not answer holds up the cancellation of a start."""
_REMOVE_SECONDS = 60.0
"""How long a service that does not answer holds up the end of an attempt. The next sweep removes what is left then."""
T = TypeVar("T")


class InstanceOwner(msgspec.Struct, frozen=True):
    """The runner instance whose containers, Jobs or tasks these are."""

    dispatcher: ClassVar[str]
    key: str
    """A hash of the instance's secret key: only the process that has the key finds what it started."""
    runner: str
    instance: str

    @classmethod
    def for_key(cls, key: str, runner: str, instance: str) -> Self:
        return cls(short_hash(f"{cls.dispatcher}:{key}"), runner, instance)

    @classmethod
    def for_runner(cls, config: RunnerConfig) -> Self:
        """Return the owner before the key of the instance is known."""
        return cls.for_key("", config.runner_id or config.runner_path, config.instance)

    def with_key(self, key: str) -> Self:
        return self.for_key(key, self.runner, self.instance)


def short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class ContainerHandle(msgspec.Struct):
    directory: Path
    start: ExecutorStart | None = None
    """None if an earlier process of the runner started the attempt."""
    is_stopped: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    launching: asyncio.Task[Any] | None = None
    """Ends when the container, pod or task has been started, or raises NotStarted."""
    waits_for: str = ""
    """What the start waits for, in words that people read; empty if it waits for nothing."""


def write_mark(directory: Path, content: bytes) -> None:
    """Record, durably, that there may be a process of this attempt, so that a runner that starts again looks for it."""
    durable.write(directory / files.CONTAINER, content)


def remove_mark(directory: Path) -> None:
    (directory / files.CONTAINER).unlink(missing_ok=True)


async def wait_for_start(
    handle: ContainerHandle, noun: str, remove_unstarted: Callable[[], Awaitable[None]] | None = None
) -> AttemptEnd | None:
    """Return None if there is a start to follow, and the end of an attempt that was delivered without this process.

    Raises NotStarted if nothing was started, and Conflict if another dispatcher started the attempt.
    """
    directory = handle.directory
    if handle.launching is not None:
        await asyncio.shield(handle.launching)
    elif not (directory / files.CONTAINER).exists():
        if ownership.forbid_start(directory):
            if remove_unstarted is not None:
                await remove_unstarted()
            raise NotStarted(f"the runner stopped before the {noun} of the executor was started")
        if not delivered.is_done(directory):
            raise of_another(directory)
        return AttemptEnd(exit_codes.NOTHING_LEFT)
    return None


async def begin_stop(handle: ContainerHandle, mode: CancelMode) -> bool:
    """Cancel a start that is under way. Returns whether there is something left to stop."""
    if mode == "after_step":
        return (
            False  # an executor without a connection starts no mutating step, and gets the request when it reconnects
        )
    handle.is_stopped.set()
    if handle.launching is not None:
        try:
            await asyncio.shield(handle.launching)
        except NotStarted:
            return False
    return True


@contextlib.asynccontextmanager
async def briefly(*errors: type[Exception]) -> AsyncGenerator[None]:
    """Remove what a canceled start has made. Nothing runs in it, so a service that does not answer may keep it for a while."""
    with contextlib.suppress(TimeoutError, *errors):
        async with asyncio.timeout(_CANCEL_SECONDS):
            yield


@contextlib.asynccontextmanager
async def or_later(what: str, *errors: type[Exception]) -> AsyncGenerator[None]:
    """Remove what an attempt has used. What a service does not remove now is removed by a sweep."""
    try:
        async with asyncio.timeout(_REMOVE_SECONDS):
            yield
    except (TimeoutError, *errors) as error:
        log.warning("%s is removed later: %s", what, error or "there is no answer")


class BackgroundTasks:
    def __init__(self) -> None:
        self._tasks = set[asyncio.Task[Any]]()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    async def unless_stopped(self, work: Coroutine[Any, Any, T], is_stopped: asyncio.Event) -> T | None:
        """Return the result of the work; None if the event came first, and the work has been canceled."""
        working, stopped = self.start(work), self.start(is_stopped.wait())
        try:
            await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (working, stopped):
                task.cancel()
            await asyncio.wait({working, stopped})
        return None if is_stopped.is_set() or working.cancelled() else working.result()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever awaits the task gets it; nobody does after the runner has stopped watching
