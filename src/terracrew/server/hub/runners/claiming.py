"""Claims the jobs that the scheduler has chosen for connected runners, and sends the grants."""

from typing import Protocol

import msgspec

from terracrew.errors import Damaged, TerracrewError, Unauthenticated, Undecryptable
from terracrew.logging import get_logger
from terracrew.server.connections.registry import Registry, RunnerSession
from terracrew.server.db.seam import Database
from terracrew.server.db.statements.mapping import UNREADABLE_ADVICE
from terracrew.server.hub.runners import once_connections
from terracrew.server.hub.runners.grants import Grants
from terracrew.server.identity.oidc.tokens import AccessTokens
from terracrew.server.jobs.attempts import claims
from terracrew.server.jobs.attempts.claim_store import Claimant, ClaimRequest
from terracrew.server.jobs.attempts.claims import Claims, ClaimWon
from terracrew.server.scheduling.queue import Waiting
from terracrew.server.supervise import Tasks

log = get_logger("terracrew.hub")


class Outcomes(Protocol):
    """Learns what became of claims, as the scheduler does."""

    def claimed(self, job_id: str) -> None: ...
    def unclaimed(self, job_id: str) -> None: ...


class Claiming:
    def __init__(
        self, db: Database, registry: Registry, tokens: AccessTokens, claim: Claims, grants: Grants, tasks: Tasks
    ) -> None:
        self._db, self._registry, self._tokens = db, registry, tokens
        self.claim, self._grants, self._tasks = claim, grants, tasks

    def start(self, outcomes: Outcomes, job: Waiting, session: RunnerSession) -> None:
        """Claim a job for an instance that has a credit for it. Claims that are started at the same time share a transaction."""
        self._tasks.start(self._run(outcomes, job, session))

    async def _run(self, outcomes: Outcomes, job: Waiting, session: RunnerSession) -> None:
        """Let the database decide about a claim, and tell the scheduler in any case."""
        claimant = Claimant(job.id, job.attempt, session.runner_id, session.instance_id, session.epoch)
        won: ClaimWon | None = None
        try:
            won = await self._decide(ClaimRequest(claimant, claims.make_credentials(), session.may_leave))
        finally:
            if won is None:
                outcomes.unclaimed(job.id)
        if won is not None:
            outcomes.claimed(job.id)
            self._grants.send(session, won)
        elif session.principal.once_token_id is not None and (error := await self._end_of(session)):
            session.socket.drop(error)

    async def _end_of(self, session: RunnerSession) -> Unauthenticated | None:
        return await once_connections.end_of(self._db, self._tokens, session)

    async def _decide(self, request: ClaimRequest) -> ClaimWon | None:
        job_id = request.claimant.job_id
        try:
            return await self.claim(request)
        except Exception as error:  # whatever it is, the job waits, and its slot is free for others
            reason, surprise = (error.message, None) if isinstance(error, TerracrewError) else (repr(error), error)
            log.warning("a claim failed", job=job_id, reason=reason, exc_info=surprise)
            if isinstance(error, Undecryptable | Damaged | msgspec.MsgspecError):
                # Otherwise it would be claimed again and again.
                self._registry.withheld.add(job_id, _problem(error), is_damaged=not isinstance(error, Undecryptable))
            else:
                self._grants.take_back(request)
            return None


def _problem(error: Exception) -> str:
    if isinstance(error, TerracrewError):
        return error.message
    return f"a stored value of the job, its module or its group cannot be read: {str(error)[:300]}. {UNREADABLE_ADVICE}"
