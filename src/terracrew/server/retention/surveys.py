"""Surveys that may take minutes: the first request starts one, all requests share it, and its result is kept for a while."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from terracrew.api.operations import (
    ModuleUsage,
    OrganizationUsage,
    Preview,
    RetentionPolicy,
    SurveyProgress,
    Tally,
    Usage,
)
from terracrew.errors import Unavailable
from terracrew.server.db.seam import Database, Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.objects import Objects
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.retention import kept_plans, orphans, passes, policy, usage_reads
from terracrew.server.retention.rules import RULES
from terracrew.server.supervise import Tasks
from terracrew.server.tree.groups import quota_reads
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

    async def current(self, wait_seconds: float = WAIT_SECONDS) -> T | SurveyProgress:
        """Return the result, at most half a minute old. If the survey takes longer than a request should, return its progress."""
        now = time.monotonic()
        result = self._result
        if result is None or (result.done() and now - self._finished_at > FRESH_SECONDS):
            self._started_at = now
            self._result = result = asyncio.get_running_loop().create_future()
            self._tasks.start(self._run(result))
        await asyncio.wait([result], timeout=wait_seconds)
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
    """The two surveys of a server, for its administrators."""

    def __init__(self, db: Database, objects: Objects, settings: ServerSettings, tasks: Tasks) -> None:
        self._db = db
        kept = policy.of(settings)
        late = settings.late_delivery_days * policy.DAY_SECONDS
        self._usage = Survey[Usage](tasks, lambda tell: usage(db, objects, kept, late, tell))
        self._preview = Survey[Preview](tasks, lambda tell: preview(db, objects, kept, late, tell))

    async def show_usage(self, who: Principal, wait_seconds: float = WAIT_SECONDS) -> Usage | SurveyProgress:
        """Return what is stored and what retention would remove. If it is not counted within this time, return the progress."""
        await authorize.require(self._db, who, Verb.SERVER_ADMIN, authorize.SERVER)
        return await self._usage.current(wait_seconds)

    async def show_preview(self, who: Principal) -> Preview | SurveyProgress:
        """Return what retention would remove."""
        await authorize.require(self._db, who, Verb.SERVER_ADMIN, authorize.SERVER)
        return await self._preview.current()


MAX_LARGEST_MODULES = 10


Tell = Callable[[str], None]
"""A function that is called with a description of what is being counted."""


async def usage(db: Database, objects: Objects, policy: RetentionPolicy, late_seconds: float, tell: Tell) -> Usage:
    kinds: dict[str, Tally] = {}
    for kind in usage_reads.KINDS:
        tell(kind)
        kinds[kind] = await db.read_in_background(lambda tx, kind=kind: _total(tx, kind))
    tell("the largest modules")
    modules = await db.read_in_background(lambda tx: usage_reads.largest_modules(tx, MAX_LARGEST_MODULES))
    tell("organizations")
    organizations = await db.read_in_background(quota_reads.by_organization)
    size = await db.read_in_background(lambda tx: usage_reads.database_bytes(tx, db.kind))
    reclaimable = await preview(db, objects, policy, late_seconds, tell)
    last = await db.read(passes.last_runs)
    return Usage(
        size, kinds, rows_to(ModuleUsage, modules), rows_to(OrganizationUsage, organizations), reclaimable, last
    )


async def preview(db: Database, objects: Objects, policy: RetentionPolicy, late_seconds: float, tell: Tell) -> Preview:
    """Return what would be removed; nothing is removed."""
    found: dict[str, Tally] = {}
    for rule in RULES:
        tell(f"{rule.kind} that retention would remove")
        found[rule.kind] = await passes.preview(db, policy, rule)
    found["plans"] = Tally(*await db.read_in_background(lambda tx: kept_plans.unused(tx, policy.plans_days)))
    tell("orphans in the object store")
    lost = await orphans.sweep(db, objects, late_seconds, is_dry=True)
    return Preview(policy, found, {kind: lost.get(kind, Tally()) for kind in orphans.KINDS})


async def _total(tx: Tx, kind: str) -> Tally:
    row = await usage_reads.total(tx, kind)
    return Tally() if row is None else Tally(row["count"], int(row["bytes"] or 0))
