"""Makes what a run has applied the source of its module, if the source of that is uploads: later jobs then run the same files.

It is done once the change has begun or nothing had to be changed, so files that somebody declined never become the source; and never
for files that were uploaded before those that the module has now.
"""

from msgspec.structs import replace

from terracrew.api.jobs import Job, JobStatus
from terracrew.api.modules import ModuleChange
from terracrew.protocol.spec import ArchiveSource, JobType
from terracrew.server.db.seam import Database, Tx
from terracrew.server.identity.people import acting
from terracrew.server.jobs import attempt_store
from terracrew.server.jobs import store as job_store
from terracrew.server.jobs.plans import store as plan_store
from terracrew.server.principals.authorize import Verb
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.supervise import FailedRows
from terracrew.server.terminals import statuses, store
from terracrew.server.terminals.model import TerminalRun
from terracrew.server.tree.modules import service as modules
from terracrew.wording import plan_words

POLL_SECONDS = 1.0
"""How often the loop looks at runs whose jobs have not ended."""
SWEEP_SECONDS = 30.0
MAX_RUNS_PER_STEP = 200


class Adoption:
    """Several servers may run it on one database: each holds the row of a run while it decides."""

    def __init__(self, db: Database, keys: Keyring) -> None:
        self._db, self._keys = db, keys
        self._failed = FailedRows("sources of prompts")

    async def run(self) -> None:
        with self._db.listen("terminals") as wakeups:
            while True:
                is_waiting = await self.step()
                await wakeups.get(timeout=POLL_SECONDS if is_waiting else SWEEP_SECONDS)

    async def step(self) -> bool:
        """Decide about the runs whose jobs have ended, and return whether any is left."""
        pending = await self._db.read(lambda tx: store.adopting(tx, MAX_RUNS_PER_STEP + len(self._failed)))
        due = self._failed.due(set(pending))
        for job_id in pending:
            if job_id in due:
                with self._failed.handling(job_id):
                    await self._db.write(lambda tx, job_id=job_id: self._decide(tx, job_id))
        return bool(pending)

    async def _decide(self, tx: Tx, job_id: str) -> None:
        run = await store.hold_run(tx, job_id)
        if run is None or not run.is_adopting:
            return
        planned = await job_store.get(tx, job_id)
        applying = await _applying(tx, run, planned)
        if not applying.is_terminal:
            return
        if await _is_applied(tx, applying):
            await self._adopt(tx, planned)
        await store.end_adoption(tx, job_id)

    async def _adopt(self, tx: Tx, job: Job) -> None:
        """Change the source as the person who started the run. If they may not do so any more, it stays what it is."""
        who = await acting.principal(tx, job.created_by, job.organization_id)
        if who is None or not isinstance(job.source, ArchiveSource):
            return
        module = await modules.find(tx, who, job.module_id, Verb.TREE_READ)
        if not isinstance(module.source, ArchiveSource) or module.source.archive_id >= job.source.archive_id:
            return
        source = replace(job.source, subdirectory=module.source.subdirectory)
        await modules.change(tx, who, module.id, ModuleChange(source=source), (), self._keys)


async def _applying(tx: Tx, run: TerminalRun, planned: Job) -> Job:
    """Return the job that applies what a run has planned: another one after a yes, or the one that has planned it."""
    if planned.type is not JobType.PLAN:
        return planned
    kept = None if planned.plan_attempt is None else await plan_store.get(tx, planned.id, planned.plan_attempt)
    applying = statuses.taken_by(kept) or run.applied_by
    return await job_store.get(tx, applying) if applying else planned


async def _is_applied(tx: Tx, job: Job) -> bool:
    """Return whether a job that has ended has applied its files, or has begun to, or had nothing to apply."""
    if job.type is JobType.PLAN:
        is_whole = not job.is_partial and job.refresh
        return job.status is JobStatus.SUCCEEDED and is_whole and not plan_words.has_changes(job.plan)
    if job.status is JobStatus.SUCCEEDED:
        return True
    return any(each.may_have_changed for each in await attempt_store.attempts(tx, job.id))
