"""A runner claims an offered job, and gets the grant or is told that it missed it."""

import msgspec

from terracrew.errors import Damaged, TerracrewError, Undecryptable
from terracrew.logging import get_logger
from terracrew.protocol import messages
from terracrew.protocol.messages import AttemptRef
from terracrew.server.connections.registry import RunnerSession
from terracrew.server.db.statements.mapping import UNREADABLE_ADVICE
from terracrew.server.hub.runners import once_connections
from terracrew.server.hub.runners.context import RunnerContext
from terracrew.server.jobs.attempts import claim_store, claims

log = get_logger("terracrew.hub")


async def claim(hub: RunnerContext, session: RunnerSession, message: messages.Claim) -> None:
    ref = AttemptRef(message.job_id, message.attempt)
    claimant = claim_store.Claimant(ref.job_id, ref.attempt, session.runner_id, session.instance_id, session.epoch)
    request = claim_store.ClaimRequest(claimant, claims.make_credentials(), session.may_leave)
    try:
        won = await _decide(hub, session, request) if hub.scheduler.claiming(ref.job_id, session) else None
    finally:
        session.claiming -= 1
    if won is None:
        session.socket.post(messages.Missed(ref.job_id, ref.attempt, "it was taken, or cannot run here now"))
        if session.principal.once_token_id is not None and (error := await once_connections.end_of(hub, session)):
            session.socket.drop(error)
        return
    hub.registry.grant(session, ref)
    hub.scheduler.claimed(ref.job_id, won.module_id, session)
    await hub.grants.send(session, ref, won)


async def _decide(
    hub: RunnerContext, session: RunnerSession, request: claim_store.ClaimRequest
) -> claims.ClaimWon | None:
    """Let the database decide. The scheduler is told of every claim that does not win."""
    ref = AttemptRef(request.claimant.job_id, request.claimant.attempt)
    won: claims.ClaimWon | None = None
    try:
        won = await hub.claim(request)
    except Exception as error:  # after any error, the runner and the scheduler still wait for the end of this claim
        reason, surprise = (error.message, None) if isinstance(error, TerracrewError) else (repr(error), error)
        log.warning("a claim failed", job=ref.job_id, attempt=ref.attempt, reason=reason, exc_info=surprise)
        if isinstance(error, Undecryptable | Damaged | msgspec.MsgspecError):
            # Otherwise it would be offered and claimed forever.
            is_damaged = not isinstance(error, Undecryptable)
            hub.registry.withheld.add(ref.job_id, _problem(error), is_damaged=is_damaged)
        else:
            hub.grants.take_back(request)
    finally:
        if won is None:
            hub.scheduler.missed(ref.job_id, session)
    return won


def _problem(error: Exception) -> str:
    if isinstance(error, TerracrewError):
        return error.message
    return f"a stored value of the job, its module or its group cannot be read: {str(error)[:300]}. {UNREADABLE_ADVICE}"
