"""Starts of attempts whose task gets only a ticket: the runner stores them, and the task fetches its own, once."""

from typing import Annotated

from litestar import Response, delete, post, put
from litestar.params import FromPath, HeaderParameter, JSONBody

from terracrew.errors import Superseded, Unauthenticated
from terracrew.logging import get_logger
from terracrew.protocol.start import FETCH_PATH, MAX_START_BYTES, TICKET_HEADER, StartRevoked, StartWanted
from terracrew.server.db.seam import Tx
from terracrew.server.http.request import address_of
from terracrew.server.hub.transfer import own_attempt
from terracrew.server.hub.transfer.context import TransferCall
from terracrew.server.jobs import decide
from terracrew.server.jobs import service as jobs
from terracrew.server.runners.starts import service as starts

log = get_logger("terracrew.hub")


@put("/start", status_code=204, request_max_body_size=MAX_START_BYTES)
async def put_start(
    request: TransferCall,
    job_id: FromPath[str],
    attempt: FromPath[int],
    ticket_sha256: Annotated[str, HeaderParameter(name=TICKET_HEADER)] = "",
) -> None:
    """Keep what this attempt is started with, for the process that shows its ticket. The runner sends it with the attempt's credential."""
    own, context = await own_attempt.planning(request, job_id, attempt), request.context
    await starts.put(context.db, context.keys, own.ref, ticket_sha256, await request.body())


@delete("/start", status_code=200)
async def revoke_start(request: TransferCall, job_id: FromPath[str], attempt: FromPath[int]) -> StartRevoked:
    """Remove the start of this attempt, so that no process can begin with it any more."""
    own = await own_attempt.find(request, job_id, attempt)
    return StartRevoked(await starts.revoke(request.context.db, own.ref))


@post(FETCH_PATH, public=True, status_code=200, include_in_schema=False)
async def fetch_start(request: TransferCall, data: JSONBody[StartWanted]) -> Response[bytes]:
    """Give the start to the first process that shows its ticket."""
    context = request.context

    async def fetch(tx: Tx) -> bytes:
        ref, content = await starts.fetch(tx, context.keys, data)
        owned = await jobs.owned(tx, ref)
        if not decide.is_current(owned.job, owned.attempt):
            raise Superseded("this attempt is no longer the current one")
        return content

    async def note(tx: Tx) -> None:
        if (ref := await starts.used_twice(tx, data)) is not None:
            organization_id = (await jobs.owned(tx, ref)).job.organization_id
            await starts.record_second_use(tx, ref, address_of(request), organization_id)
            log.warning("the ticket of a start was used again, and may have been stolen", job=ref.job_id)

    if not await context.db.read(lambda tx: starts.is_known(tx, data)):  # strangers cause no write
        raise Unauthenticated(starts.REFUSED)
    try:
        content = await context.db.write(fetch)
    except Unauthenticated:
        await context.db.write(note)
        raise
    return Response(content, media_type="application/octet-stream", headers={"Cache-Control": "no-store"})
