"""The tasks of a dispatcher that outlive the call that began them: they end with the dispatcher, or by themselves."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


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
