"""Queues an apply of each module whose inputs have changed with the outputs of another one, in the order of their dependencies."""

from collections.abc import Sequence
from pathlib import Path

from terracrew.api.jobs import Job, NewJob
from terracrew.errors import Damaged, NotFound, TerracrewError
from terracrew.logging import get_logger
from terracrew.protocol.spec import JobType
from terracrew.server.db.seam import Database, Tx
from terracrew.server.jobs import create, job_inputs, store
from terracrew.server.jobs.create import JobRequest
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import SYSTEM
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.supervise import FailedRows
from terracrew.server.tree.inputs import reads, trigger_store
from terracrew.server.tree.modules import service as modules

POLL_SECONDS = 0.5
"""How often modules that wait for their turn are looked at."""
SWEEP_SECONDS = 30.0
"""While none waits, the loop waits for a changed output, or for this long."""
MAX_MODULES_PER_STEP = 50
log = get_logger("terracrew.triggers")


class Triggers:
    """Turns rows of `triggered_modules` into jobs. Several servers may do so: each row is held while it is turned."""

    def __init__(self, db: Database, keys: Keyring, roots: Sequence[Path]) -> None:
        self._db, self._keys, self._roots = db, keys, roots
        self._failed = FailedRows("triggers")

    async def run(self) -> None:
        with self._db.listen("triggers") as wakeups:
            while True:
                is_waiting = await self.step()
                await wakeups.get(timeout=POLL_SECONDS if is_waiting else SWEEP_SECONDS)

    async def step(self) -> bool:
        """Queue the jobs whose turn it is, and return whether modules wait for theirs."""
        count = MAX_MODULES_PER_STEP + len(self._failed)
        ready = await self._db.read(lambda tx: reads.ready(tx, count))
        due = self._failed.due(ready)
        for module_id in ready:
            if module_id in due:
                with self._failed.handling(module_id):
                    await self._handle(module_id)
        return await self._db.read(reads.has_any)

    async def _handle(self, module_id: str) -> None:
        job = await self._db.write(lambda tx: self._queue(tx, module_id))
        if job is not None:
            log.info("a changed output has queued a job", module=module_id, job=job.id, cause=job.cause_job_id)

    async def _queue(self, tx: Tx, module_id: str) -> Job | None:
        """Create the job of a module, and forget that it was needed, in one transaction; None if none is needed any more."""
        row = await trigger_store.hold(tx, module_id)
        if row is None or not await reads.is_ready(tx, module_id):
            return None
        await trigger_store.forget(tx, module_id)
        if not await self._is_outdated(tx, module_id):
            return None
        [cause] = await store.get_many(tx, [row["cause_job_id"]]) or [None]
        request = JobRequest(SYSTEM, module_id, NewJob(JobType.APPLY), cause=cause)
        [made] = await create.create_all(tx, [request], keys=self._keys, roots=self._roots)
        if isinstance(made, Damaged):
            raise made  # the module stays to be applied
        if isinstance(made, TerracrewError):
            log.warning("a changed output could not queue a job", module=module_id, error=made.message)
            await trigger_store.note_problem(tx, module_id, row["cause_job_id"], made.message)
            return None
        return made.job

    async def _is_outdated(self, tx: Tx, module_id: str) -> bool:
        """Return whether the last change of a module was made with other outputs than those that its modules have now.

        A module that was destroyed since is not applied again by itself.
        """
        try:
            module = await modules.find(tx, SYSTEM, module_id, Verb.JOB_RUN)
        except NotFound:
            return False  # it was deleted
        if module.triggers != "auto":
            return False
        newest = await store.newest_change(tx, module_id)
        if newest is None:
            return True
        if newest.type is JobType.DESTROY:
            return newest.status != "SUCCEEDED"
        return not await job_inputs.has_current_outputs(tx, newest)
