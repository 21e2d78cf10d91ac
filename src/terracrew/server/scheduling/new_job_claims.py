"""Claims new jobs in the transaction that creates them, for instances that have credits (ADR 0084).

The scheduler chooses the instances, and the statement of the claim decides, as for every other claim. A job that is not claimed
in this way waits, and the scheduler claims it as soon as it can.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from terracrew.api.jobs import Job, JobStatus
from terracrew.api.modules import Module
from terracrew.errors import Unavailable
from terracrew.logging import get_logger
from terracrew.server.connections.registry import RunnerSession
from terracrew.server.db.seam import Tx
from terracrew.server.jobs import store
from terracrew.server.jobs.attempts import claims
from terracrew.server.jobs.attempts.claim_store import Claimant, ClaimRequest
from terracrew.server.jobs.attempts.claims import ClaimGroup, ClaimWon
from terracrew.server.jobs.create import NotClaimedAhead
from terracrew.server.scheduling.queue import Waiting
from terracrew.server.tree.groups import tree_path

Send = Callable[[RunnerSession, ClaimWon], None]
TakeBack = Callable[[ClaimRequest], None]
log = get_logger("terracrew.scheduling")


class InstanceChoice(Protocol):
    """Chooses instances for new jobs, as the scheduler does."""

    def reserve(self, jobs: Sequence[Waiting]) -> dict[str, RunnerSession]: ...
    def claimed(self, job_id: str) -> None: ...
    def unclaimed(self, job_id: str, *, is_refused: bool = True) -> None: ...
    def enqueue(self, jobs: Sequence[Waiting]) -> None: ...


class NewJobClaims:
    def __init__(self, scheduler: InstanceChoice, group: ClaimGroup, send: Send, take_back: TakeBack) -> None:
        """`send` sends a grant, and `take_back` hands back a claim that nobody knows of. Neither waits."""
        self._scheduler, self._group = scheduler, group
        self._send, self._take_back = send, take_back

    async def claim(self, tx: Tx, jobs: Sequence[tuple[Job, Module]]) -> dict[str, Job]:
        """Claim those of these new jobs for which an instance has a credit, and let the scheduler keep the others.

        Returns the jobs that have changed, by id. A job has changed if it was claimed, or if its claim found that it cannot start.
        Raises NotClaimedAhead if the transaction has to be repeated without this.
        """
        waiting = [as_waiting(job, module) for job, module in jobs]
        reserved = self._scheduler.reserve(waiting)
        changed = await self._claim(tx, jobs, reserved) if reserved else {}
        tx.on_commit(partial(self._scheduler.enqueue, [job for job in waiting if job.id not in changed]))
        return changed

    async def _claim(
        self, tx: Tx, jobs: Sequence[tuple[Job, Module]], reserved: Mapping[str, RunnerSession]
    ) -> dict[str, Job]:
        requests = [_request(job, reserved[job.id]) for job, _ in jobs if job.id in reserved]
        for job_id in reserved:
            tx.on_failure(partial(self._scheduler.unclaimed, job_id, is_refused=False))
        try:
            results = await self._group.work(tx, requests)
        except Unavailable:
            raise
        except Exception as error:  # whatever it is, the jobs can be created, and the scheduler claims them then
            log.info("jobs are not claimed with their creation", reason=repr(error)[:500])
            raise NotClaimedAhead from error
        won = {
            request.claimant.job_id: result
            for request, result in zip(requests, results, strict=True)
            if isinstance(result, ClaimWon)
        }
        # An action of its own for each job: an error in one must not keep the others from their runners.
        for request in requests:
            tx.on_failure(partial(self._take_back, request))  # it may have been committed
            job_id = request.claimant.job_id
            if job_id in won:
                tx.on_commit(partial(self._scheduler.claimed, job_id))
                tx.on_commit(partial(self._send, reserved[job_id], won[job_id]))
            else:
                tx.on_commit(partial(self._scheduler.unclaimed, job_id))
        changed = {job.id: _claimed(tx, job, reserved[job.id], won[job.id]) for job, _ in jobs if job.id in won}
        lost = sorted(reserved.keys() - won.keys())
        refused = [job for job in await store.get_many(tx, lost) if job.is_terminal] if lost else []
        return changed | {job.id: job for job in refused}


def as_waiting(job: Job, module: Module) -> Waiting:
    """Return a new job as the scheduler would read it. No plan binds it to a runner, and no version of the engine is chosen yet."""
    return Waiting(
        job.id,
        job.number,
        job.attempt,
        job.organization_id,
        job.module_id,
        module.path,
        tree_path.split(module.path)[0],
        module.engine,
        job.priority,
        job.queued_at.timestamp(),
        module.runner_id,
        module.runner_instance_name,
        engine_version=module.engine_version,
        tags=frozenset(module.tags),
        choice=job.dispatcher,
        has_merge=job.has_merge,
    )


def _claimed(tx: Tx, job: Job, session: RunnerSession, won: ClaimWon) -> Job:
    """Return a job as the statements of its claim have left it."""
    now = tx.moment
    return job.to(
        JobStatus.CLAIMED,
        now,
        runner_id=session.runner_id,
        instance_id=session.instance_id,
        claimed_at=now,
        engine_version=won.granted.spec.engine_version,
        pinned_engine_version=won.pinned_engine_version,
    )


def _request(job: Job, session: RunnerSession) -> ClaimRequest:
    claimant = Claimant(job.id, job.attempt, session.runner_id, session.instance_id, session.epoch)
    return ClaimRequest(claimant, claims.make_credentials(), session.may_leave)
