"""How an attempt has ended: a runner that has run one job asks for it, and exits with the code of the job."""

from litestar import get
from litestar.params import FromPath

from terracrew.errors import Forbidden
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.transfers import AttemptOutcome
from terracrew.server.hub.transfer.context import TransferCall
from terracrew.server.jobs import service as jobs
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb


@get("/outcome")
async def get_outcome(request: TransferCall, job_id: FromPath[str], attempt: FromPath[int]) -> AttemptOutcome:
    """Tell how this attempt has ended. The credential of the attempt stays valid for this after its end."""
    who = request.user
    if who.attempt is None:
        raise Forbidden("this requires the hub credential of the attempt itself")
    place = authorize.module(who.attempt.organization_id, who.attempt.module_path, job_id, attempt)
    await authorize.require(request.context.db, who, Verb.ATTEMPT_REPORT, place)
    owned = await request.context.db.read(lambda tx: jobs.owned(tx, AttemptRef(job_id, attempt)))
    return AttemptOutcome(owned.attempt.outcome, owned.job.number, owned.attempt.reason or owned.job.message or "")
