"""Surveys that may take minutes: the first request starts one, all requests share it, and its result is kept for a while."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from terracrew.api.operations import Preview, SurveyProgress, Usage
from terracrew.errors import Unavailable
from terracrew.server.db.seam import Database
from terracrew.server.objects import Objects
from terracrew.server.retention import policy, usage
from terracrew.server.supervise import Tasks
from terracrew.settings.server import ServerSettings

T = TypeVar("T")
FRESH_SECONDS = 30.0
WAIT_SECONDS = 2.0
"""How long a request waits for the result. After that, it gets the progress of the survey."""


class Survey(Generic[T]):
    def __init__(self, tasks: Tasks, count: Callable[[Callable[[str], None]], Awaitable[T]]) -> None:
        self._tasks, self._count = tasks, count
        self._result: asyncio.Future[T] | None = None
        self._started_at = self._finished_at = 0.0
        self._counting = ""

    async def current(self) -> T | SurveyProgress:
        """Return the result, at most half a minute old. If the survey takes longer than a request should, return its progress."""
        now = time.monotonic()
        result = self._result
        if result is None or (result.done() and now - self._finished_at > FRESH_SECONDS):
            self._started_at = now
            self._result = result = asyncio.get_running_loop().create_future()
            self._tasks.start(self._run(result))
        await asyncio.wait([result], timeout=WAIT_SECONDS)
        if result.cancelled():
            raise Unavailable("the server is being stopped")
        if result.done():
            return result.result()
        return SurveyProgress(self._counting, time.monotonic() - self._started_at)

    async def _run(self, result: asyncio.Future[T]) -> None:
        try:
            result.set_result(await self._count(self._tell))
        except Exception as error:  # the request that asks for the result raises it
            result.set_exception(error)
            result.exception()  # avoids a warning if no request asks for the result any more
        finally:
            self._finished_at = time.monotonic()
            result.cancel()  # this has no effect if there is a result

    def _tell(self, what: str) -> None:
        self._counting = what


class Surveys:
    """The two surveys of a server."""

    def __init__(self, db: Database, objects: Objects, settings: ServerSettings, tasks: Tasks) -> None:
        kept = policy.of(settings)
        late = settings.late_delivery_days * policy.DAY_SECONDS
        self.usage = Survey[Usage](tasks, lambda tell: usage.usage(db, objects, kept, late, tell))
        self.preview = Survey[Preview](tasks, lambda tell: usage.preview(db, objects, kept, late, tell))
