"""The logs of plans and applies, from any offset on."""

import asyncio

from litestar import get
from litestar.params import FromPath, FromQuery
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Send

from terracrew.server.db.seam import Tx
from terracrew.server.terminals import links, seeing
from terracrew.server.terminals.links import SealedAddress
from terracrew.server.terminals.model import Phase
from terracrew.server.terminals.transcript import MAX_READ_BYTES
from terracrew.server.tfe.context import TfeCall

_HEADERS = {"Cache-Control": "no-store", "Connection": "close"}
"""The clients make a connection for each request. What they leave open would only wait for its time limit."""
HEAD_START_SECONDS = 0.002
"""How long the headers are ahead of the body. Without it, a busy machine sends both at once after all."""


class _HeadersFirst(ASGIResponse):
    """An answer whose headers leave before its body.

    The clients read the body once, into a buffer of 4 KB if the headers stand in it and into one of 64 KB otherwise, and ask for the
    rest with another request: a log then takes a tenth of the requests.
    """

    async def send_body(self, send: Send, receive: Receive) -> None:
        await asyncio.sleep(HEAD_START_SECONDS)
        await super().send_body(send, receive)


@get("/links/{sealed:str}", public=True)
async def read_log(
    request: TfeCall, sealed: FromPath[str], limit: FromQuery[int] = MAX_READ_BYTES, offset: FromQuery[int] = 0
) -> ASGIResponse:
    context = request.context
    link = links.opened(context.keys, sealed, ("plan", "apply"), context.now())
    phase: Phase = "plan" if link.kind == "plan" else "apply"
    job_id, is_divided = await context.db.read(lambda tx: _job(tx, link, phase))
    text = b""
    if job_id:
        text = await context.transcripts.read(job_id, phase, max(0, offset), limit, is_divided=is_divided)
    return _HeadersFirst(body=text, media_type="text/plain", headers=_HEADERS)


async def _job(tx: Tx, link: SealedAddress, phase: Phase) -> tuple[str, bool]:
    return await seeing.job_of_log(tx, await links.actor(tx, link), link.of, phase)
