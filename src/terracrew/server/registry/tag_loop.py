"""Looks at the tags of the repositories that published modules follow. Several servers may run it on one database."""

import asyncio
import contextlib
from datetime import timedelta

from msgspec.structs import replace

from terracrew import backoff
from terracrew.errors import TerracrewError, Unavailable
from terracrew.logging import get_logger
from terracrew.server.db.seam import Tx
from terracrew.server.registry import reads, store, tags
from terracrew.server.registry.model import PublishedModule
from terracrew.server.registry.tags import LookTaken, TagTools
from terracrew.server.supervise import FailedRows, renewing, wait_seconds

MAX_PER_STEP = 20
MAX_AT_ONCE = 2
LEASE_SECONDS = 30.0
"""If a server ends in the middle of its work, another one goes on after this time."""
RENEW_SECONDS = 8.0
SWEEP_SECONDS = 30.0
PAUSE_SECONDS = 0.2
LOOK_SECONDS = 60.0
"""How often the tags of a repository are looked at."""
FIRST_RETRY_SECONDS = 2.0
MAX_RETRY_SECONDS = 300.0
MAX_PASSING_FAILURES = 5
"""How often something may fail that may pass by itself, before people see it."""
log = get_logger("terracrew.registry")


class TagLoop:
    def __init__(self, tools: TagTools) -> None:
        self._tools, self._db = tools, tools.db
        self._failed = FailedRows("registry tags")

    async def run(self) -> None:
        with self._db.listen("tree", "forges") as wakeups:
            while True:
                if await self.step() < MAX_PER_STEP:
                    await wakeups.get(timeout=await self._db.read(_seconds_to_next))
                await asyncio.sleep(PAUSE_SECONDS)

    async def step(self) -> int:
        """Look at the modules whose turn has come, and return how many."""
        found = await self._db.read_in_background(lambda tx: reads.due(tx, MAX_PER_STEP + len(self._failed)))
        return await self._failed.handle(found, self._turn, MAX_AT_ONCE)

    async def _turn(self, published_id: str) -> None:
        holder = self._tools.server_id
        module = await self._db.write(lambda tx: store.claim(tx, published_id, holder, LEASE_SECONDS))
        if module is None:
            return
        async with renewing(self._db, lambda tx: store.renew(tx, published_id, holder, LEASE_SECONDS), RENEW_SECONDS):
            try:
                await self._work(module)
            except LookTaken:
                await self._give_back(module)
            except TerracrewError as error:
                await self._put_off(module, error)

    async def _work(self, module: PublishedModule) -> None:
        refused = await tags.look(self._tools, module)

        async def finish(tx: Tx) -> None:
            held = await tags.hold(tx, self._tools, module)
            due_at = tx.moment + timedelta(seconds=backoff.jittered(LOOK_SECONDS, 0.1))
            after = replace(_given_back(held), refused_tags=refused, looked_at=tx.moment, problem="", due_at=due_at)
            # What was asked for meanwhile may be newer than the tags that were read.
            if held.asked_at != module.asked_at:
                after = replace(after, refused_tags=held.refused_tags, due_at=tx.moment)
            await store.save_look(tx, replace(after, failures=0))
            if (held.problem, held.refused_tags) != ("", after.refused_tags):
                tx.wake("tree", held.group_id)

        await self._db.write(finish)

    async def _give_back(self, module: PublishedModule) -> None:
        """Let a module that was changed meanwhile be looked at again at once. One that another server has is left alone."""

        async def work(tx: Tx) -> None:
            row = await store.hold(tx, module.id)
            if row is not None and row.lease_holder == self._tools.server_id:
                await store.save_look(tx, replace(_given_back(row), due_at=tx.moment if row.url else None))

        await self._db.write(work)

    async def _put_off(self, module: PublishedModule, error: TerracrewError) -> None:
        """Write why nothing was found, for people to see, and try again later."""
        log.info("the tags of a published module are looked at again later", module=module.id, reason=error.message)

        async def work(tx: Tx) -> None:
            row = await tags.hold(tx, self._tools, module)
            seconds = min(FIRST_RETRY_SECONDS * 2 ** min(row.failures, 10), MAX_RETRY_SECONDS)
            due_at = tx.moment + timedelta(seconds=backoff.jittered(seconds, 0.2))
            if row.asked_at != module.asked_at:
                due_at = tx.moment
            is_passing = isinstance(error, Unavailable) and row.failures < MAX_PASSING_FAILURES
            problem = row.problem if is_passing else error.message
            await store.save_look(
                tx, replace(_given_back(row), problem=problem, due_at=due_at, failures=row.failures + 1)
            )
            if problem != row.problem:
                tx.wake("tree", row.group_id)

        with contextlib.suppress(LookTaken):
            await self._db.write(work)


def _given_back(module: PublishedModule) -> PublishedModule:
    return replace(module, lease_holder=None, lease_until=None)


async def _seconds_to_next(tx: Tx) -> float:
    return wait_seconds(tx.now, await reads.next_due(tx), SWEEP_SECONDS)
