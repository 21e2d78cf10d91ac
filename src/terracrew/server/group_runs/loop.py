"""Advances the runs of groups: takes over how jobs ended, and queues the jobs of the modules whose turn has come."""

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from terracrew.api.group_runs import GroupRun
from terracrew.api.jobs import Job, JobStatus, NewJob
from terracrew.errors import TerracrewError
from terracrew.logging import get_logger
from terracrew.protocol.spec import JobType
from terracrew.server.db.seam import Database, Tx
from terracrew.server.group_runs import model, store
from terracrew.server.group_runs.model import RunModule
from terracrew.server.identity.people import acting
from terracrew.server.jobs import create
from terracrew.server.jobs import store as jobs
from terracrew.server.jobs.create import JobRequest
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import reads as states
from terracrew.server.supervise import FailedRows

POLL_SECONDS = 0.5
"""How often runs that have not ended are looked at."""
SWEEP_SECONDS = 30.0
"""While there is none, the loop waits for a new run, or for this long."""
MAX_RUNS_PER_STEP = 20
MAX_MESSAGE_CHARACTERS = 1_000
log = get_logger("terracrew.group_runs")


class GroupRuns:
    """Several servers may advance a run: each holds its row, and creates jobs in the transaction that remembers them."""

    def __init__(self, db: Database, keys: Keyring, roots: Sequence[Path]) -> None:
        self._db, self._keys, self._roots = db, keys, roots
        self._failed = FailedRows("group runs")

    async def run(self) -> None:
        with self._db.listen("group_runs") as wakeups:
            while True:
                is_running = await self.step()
                await wakeups.get(timeout=POLL_SECONDS if is_running else SWEEP_SECONDS)

    async def step(self) -> bool:
        """Advance the runs in which something follows, and return whether any run has not ended."""
        count = MAX_RUNS_PER_STEP + len(self._failed)
        following = await self._db.read(lambda tx: store.due(tx, count))
        due = self._failed.due(following)
        for run_id in following:
            if run_id in due:
                with self._failed.handling(run_id):
                    await self._handle(run_id)
        return await self._db.read(store.has_running)

    async def _handle(self, run_id: str) -> None:
        ended = await self._db.write(lambda tx: self._advance(tx, run_id))
        if ended is not None:
            log.info("the run of a group has ended", run=run_id, status=ended.status)

    async def _advance(self, tx: Tx, run_id: str) -> GroupRun | None:
        """Do what follows in a run, and return it if it has ended."""
        run = await store.hold(tx, run_id)
        if run is None or run.status != "RUNNING":
            return None
        before = await store.modules(tx, run_id)
        following = model.next_step(await _with_ends(tx, before))
        while following.ready:
            made = {each.module_id: each for each in await self._queue(tx, run, following.ready)}
            # A module whose job was refused has failed, and others may be skipped because of it.
            following = model.next_step([made.get(each.module_id, each) for each in following.modules])
        known = {each.module_id: each for each in before}
        changed = [each for each in following.modules if each != known[each.module_id]]
        if changed:
            await store.save_modules(tx, changed)
        after = run
        if following.status != "RUNNING":
            after = replace(run, status=following.status, finished_at=tx.moment)
            await store.save(tx, run, after)
        if changed or after != run:
            tx.wake("tree", run.group_id)  # the page of the group shows the run
        return None if after.status == "RUNNING" else after

    async def _queue(self, tx: Tx, run: GroupRun, ready: Sequence[RunModule]) -> list[RunModule]:
        """Create the jobs of these modules, with the permissions that the person who started the run has now."""
        who = await acting.principal(tx, run.started_by, run.organization_id)
        if who is None:
            message = (
                f"{run.started_by_name}, who started the run, may not run jobs any more: resume it as somebody else"
            )
            return [replace(each, status="FAILED", message=message) for each in ready]
        asked = NewJob(JobType(run.type))
        requests = [JobRequest(who, each.module_id, asked, group_run_id=run.id) for each in ready]
        made = await create.create_all(tx, requests, keys=self._keys, roots=self._roots)
        return [
            replace(each, status="FAILED", message=one.message[:MAX_MESSAGE_CHARACTERS])
            if isinstance(one, TerracrewError)
            else replace(each, status="RUNNING", job_id=one.job.id)
            for each, one in zip(ready, made, strict=True)
        ]


async def _with_ends(tx: Tx, modules: Sequence[RunModule]) -> list[RunModule]:
    """Take over how the jobs of running modules have ended."""
    running = sorted(each.job_id for each in modules if each.status == "RUNNING" and each.job_id)
    known = {job.id: job for job in await jobs.get_many(tx, running)} if running else {}
    waited_for = {other for each in modules for other in each.waits_for}
    used = [job.id for job in known.values() if _has_applied(job) and job.module_id in waited_for]
    unknown = set(used) - (await states.jobs_with_outputs(tx, used) if used else set())
    return [
        _ended(each, known.get(each.job_id or ""), are_outputs_unknown=each.job_id in unknown)
        if each.status == "RUNNING"
        else each
        for each in modules
    ]


def _has_applied(job: Job) -> bool:
    return job.type is JobType.APPLY and job.status is JobStatus.SUCCEEDED


def _ended(each: RunModule, job: Job | None, *, are_outputs_unknown: bool) -> RunModule:
    if job is None:
        return replace(each, status="FAILED", message="its job was deleted")
    if not job.is_terminal:
        return each
    message = job.message[:MAX_MESSAGE_CHARACTERS]
    if are_outputs_unknown:  # what waits for it would be given those of an older job
        message = f"{job.message or 'applied, but its outputs are not kept'}; other modules use them: apply it again"
        return replace(each, status="FAILED", message=message[:MAX_MESSAGE_CHARACTERS])
    if job.status is JobStatus.SUCCEEDED:
        return replace(each, status="SUCCEEDED", message="")
    if job.status is JobStatus.CANCELED:
        return replace(each, status="CANCELED", message=message)
    declined = "its plan was declined" + (f": {message}" if message else "")
    return replace(each, status="FAILED", message=declined if job.status is JobStatus.DECLINED else message)
