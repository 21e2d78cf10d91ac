"""Wakes a sleeping runner when somebody who may approve a plan opens it, so that the approved job does not wait for the start.

A plan wakes its runner once: a page that stays open refreshes itself, and would otherwise keep an instance running for ever.
"""

from collections import OrderedDict
from datetime import timedelta

import msgspec

from terracrew.api.jobs import JobStatus
from terracrew.errors import TerracrewError
from terracrew.logging import get_logger
from terracrew.server.cloud_hosted import starting
from terracrew.server.db.seam import Database, Tx
from terracrew.server.deployments import reads, store
from terracrew.server.jobs import service as jobs
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.supervise import Tasks

PAUSE_SECONDS = 300.0
"""A runner is woken ahead at most this often, whatever is opened."""
MAX_KNOWN_PLANS = 10_000
log = get_logger("terracrew.server.cloud_hosted")


class WakingAhead:
    def __init__(self, db: Database, tasks: Tasks) -> None:
        self._db, self._tasks = db, tasks
        self._known: OrderedDict[tuple[str, int], None] = OrderedDict()
        """The plans (job and attempt) that were opened on this server."""

    def open(self, who: Principal, job_id: str, attempt: int, status: JobStatus) -> None:
        """Note that somebody looks at a job. Nothing waits for what follows."""
        if status is not JobStatus.AWAITING_APPROVAL or (job_id, attempt) in self._known:
            return
        self._tasks.start(self.wake(who, job_id, attempt))

    async def wake(self, who: Principal, job_id: str, attempt: int) -> None:
        """Wake the runner that made the plan of a job, if its deployment says so and the person may approve the plan."""

        async def read(tx: Tx) -> str | None:
            await jobs.find(tx, who, job_id, Verb.JOB_APPROVE)
            return await reads.maker_of_open_plan(tx, job_id)

        try:
            runner_id = await self._db.read(read)
        except TerracrewError:  # they may only read it
            return
        self._known[job_id, attempt] = None
        if len(self._known) > MAX_KNOWN_PLANS:
            self._known.popitem(last=False)
        if runner_id is not None and await self._db.write(lambda tx: _wake(tx, runner_id)):
            log.info("waking a runner for a plan that waits for approval", runner_id=runner_id, job=job_id)


async def _wake(tx: Tx, runner_id: str) -> bool:
    held, now = await store.hold(tx, runner_id), store.moment(tx)
    if held is None or not held.settings.wakes_ahead or not held.can_wake(now):
        return False
    if held.woken_ahead_at is not None and now - held.woken_ahead_at < timedelta(seconds=PAUSE_SECONDS):
        return False
    await store.save(tx, held, msgspec.structs.replace(held, woken_ahead_at=now))
    return bool(await starting.wake(tx, runner_id))
