"""The attempt that a request is about, which must be the requester's own."""

from typing import NamedTuple

from terracrew.api.jobs import Job
from terracrew.errors import Conflict, Forbidden, Superseded
from terracrew.protocol.messages import AttemptRef
from terracrew.server.db.seam import Tx
from terracrew.server.hub.transfer.context import TransferCall
from terracrew.server.jobs import decide
from terracrew.server.jobs import service as jobs
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb


class OwnAttempt(NamedTuple):
    ref: AttemptRef
    job: Job
    is_current: bool
    has_begun: bool
    mark: int
    sealed_key: bytes
    """The key of its states, encrypted under the master key."""

    @property
    def uploader(self) -> str:
        """Its name as the owner of uploads in parts."""
        return f"{self.ref.job_id}:{self.ref.attempt}"


async def require(request: TransferCall, job_id: str, attempt: int) -> None:
    """Check that the requester is the executor of this attempt."""
    who = request.user
    if who.attempt is None:
        raise Forbidden("this requires the hub credential of the attempt itself")
    place = authorize.module(who.attempt.organization_id, who.attempt.module_path, job_id, attempt)
    await authorize.require(request.context.db, who, Verb.ATTEMPT_REPORT, place)


async def find(request: TransferCall, job_id: str, attempt: int) -> OwnAttempt:
    """Return the attempt if the requester is its executor and it may still deliver."""
    await require(request, job_id, attempt)
    ref, late = AttemptRef(job_id, attempt), request.context.late_delivery

    async def read(tx: Tx) -> tuple[jobs.Owned, str | None]:
        found = await jobs.owned(tx, ref)
        return found, decide.refusal_of_events(found.attempt, tx.moment, late)

    owned, why = await request.context.db.read(read)
    if why is not None:
        raise Forbidden(f"nothing more is accepted from attempt {attempt} of job {owned.job.number}: {why}")
    return OwnAttempt(
        ref,
        owned.job,
        decide.is_current(owned.job, owned.attempt),
        owned.attempt.begun_at is not None,
        owned.attempt.mark,
        owned.sealed_key,
    )


async def current(request: TransferCall, job_id: str, attempt: int) -> OwnAttempt:
    """Return the attempt if it is the current one of its job; one that has ended has nothing more to read."""
    own = await find(request, job_id, attempt)
    if not own.is_current:
        raise Superseded("this attempt is no longer the current one")
    return own


async def planning(request: TransferCall, job_id: str, attempt: int) -> OwnAttempt:
    """Return an attempt that may still wait with its plan for a person."""
    own = await current(request, job_id, attempt)
    if own.has_begun:
        raise Conflict("this attempt has begun to change resources, so its plan can no longer wait for approval")
    return own
