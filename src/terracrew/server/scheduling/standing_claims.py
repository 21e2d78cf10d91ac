"""Claims new jobs for instances with standing claims, in the transaction that creates the jobs (ADR 0062).

The scheduler chooses the instance that the job would be offered to. The statement of the claim decides, as for every other claim.
A job that cannot be claimed in this way is offered as soon as the transaction has been committed.
"""

from collections.abc import Callable, Sequence
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
    """Chooses instances with standing claims for new jobs, as the scheduler does."""

    def takes_standing_claims(self) -> bool: ...
    def reserve(self, jobs: Sequence[Waiting]) -> dict[str, RunnerSession]: ...
    def release(self, job_id: str, *, is_claimed: bool) -> None: ...
    def enqueue(self, jobs: Sequence[Waiting]) -> None: ...


class NewJobClaims:
    def __init__(self, scheduler: InstanceChoice, group: ClaimGroup, send: Send, take_back: TakeBack) -> None:
        """`send` sends a grant, and `take_back` hands back a claim that nobody knows of. Neither waits."""
        self._scheduler, self._group = scheduler, group
        self._send, self._take_back = send, take_back

    async def claim(self, tx: Tx, jobs: Sequence[tuple[Job, Module]]) -> dict[str, Job]:
        """Claim those of these new jobs for which an instance has a standing claim, and let the scheduler offer the others.

        Returns the jobs that have changed, by id. A job has changed if it was claimed, or if its claim found that it cannot start.
        Raises NotClaimedAhead if the transaction has to be repeated without this.
        """
        waiting = [as_waiting(job, module) for job, module in jobs]
        changed = await self._claim(tx, jobs, waiting) if self._scheduler.takes_standing_claims() else {}
        tx.on_commit(partial(self._scheduler.enqueue, [job for job in waiting if job.id not in changed]))
        return changed

    async def _claim(self, tx: Tx, jobs: Sequence[tuple[Job, Module]], waiting: Sequence[Waiting]) -> dict[str, Job]:
        reserved = self._scheduler.reserve(waiting)
        ids = [job.id for job in waiting]
        requests = [_request(job, reserved[job.id]) for job, _ in jobs if job.id in reserved]
        tx.on_failure(partial(self._release, ids))
        try:
            results = await self._group.work(tx, requests) if requests else []
        except Unavailable:
            raise
        except Exception as error:  # whatever it is, the jobs can be created, and are offered then
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
        for job_id, each in won.items():
            tx.on_commit(partial(self._scheduler.release, job_id, is_claimed=True))
            tx.on_commit(partial(self._send, reserved[job_id], each))
        tx.on_commit(partial(self._release, [job_id for job_id in ids if job_id not in won]))
        changed = {job.id: _claimed(tx, job, reserved[job.id], won[job.id]) for job, _ in jobs if job.id in won}
        lost = sorted(request.claimant.job_id for request in requests if request.claimant.job_id not in won)
        refused = [job for job in await store.get_many(tx, lost) if job.is_terminal] if lost else []
        return changed | {job.id: job for job in refused}

    def _release(self, ids: Sequence[str]) -> None:
        for job_id in ids:
            self._scheduler.release(job_id, is_claimed=False)


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
    )


def _claimed(tx: Tx, job: Job, session: RunnerSession, won: ClaimWon) -> Job:
    """Return a job as the statements of its claim have left it."""
    now = store.moment(tx)
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
