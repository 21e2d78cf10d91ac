"""How an attempt has ended: a runner that has run one job asks for it, and exits with the code of the job."""

from litestar import get
from litestar.params import FromPath

from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.transfers import AttemptOutcome
from terracrew.server.hub.transfer import own_attempt
from terracrew.server.hub.transfer.context import TransferCall
from terracrew.server.jobs import service as jobs


@get("/outcome")
async def get_outcome(request: TransferCall, job_id: FromPath[str], attempt: FromPath[int]) -> AttemptOutcome:
    """Tell how this attempt has ended. The credential of the attempt stays valid for this after its end."""
    await own_attempt.require(request, job_id, attempt)
    owned = await request.context.db.read(lambda tx: jobs.owned(tx, AttemptRef(job_id, attempt)))
    return AttemptOutcome(owned.attempt.outcome, owned.job.number, owned.attempt.reason or owned.job.message or "")
