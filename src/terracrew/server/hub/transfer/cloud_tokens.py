"""Tokens with which an attempt logs in to the clouds of its module."""

import msgspec
from litestar import post
from litestar.params import FromPath, JSONBody

from terracrew.errors import Conflict, Forbidden
from terracrew.protocol.cloud import Phase
from terracrew.protocol.spec import MUTATING, STEPS_OF
from terracrew.server.hub.transfer import own_attempt
from terracrew.server.hub.transfer.context import TransferCall
from terracrew.server.identity.oidc import cloud
from terracrew.server.tree.modules import reads as modules


class _CloudTokenWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    audience: str
    phase: Phase


@post("/cloud-token", status_code=200)
async def cloud_token(
    request: TransferCall, job_id: FromPath[str], attempt: FromPath[int], data: JSONBody[_CloudTokenWanted]
) -> cloud.CloudToken:
    """Return a token for one of the module's clouds. One that may change resources needs an attempt that has begun to."""
    own, context = await own_attempt.current(request, job_id, attempt), request.context
    if data.phase == "apply" and not MUTATING & set(STEPS_OF.get(own.job.type, ())):
        raise Forbidden(f"a {own.job.type} changes nothing, so it gets no token of the phase apply")
    if data.phase == "apply" and not own.has_begun:
        raise Conflict("this attempt has not begun to change anything: a token of the phase apply is given after that")
    row = await context.db.read(lambda tx: modules.names(tx, own.job.module_id))
    own_audiences = own.job.cloud.audiences().values()
    if row is None or data.audience not in (
        *msgspec.json.decode(row["oidc_audiences"], type=list[str]),
        *own_audiences,
    ):
        raise Forbidden(
            f"{data.audience[:200]!r} is not one of this module's audiences (oidc_audiences, or those of `cloud`)"
        )
    subject = cloud.Subject(
        own.job.organization_id, row["organization"], own.job.module_id, row["path"], job_id, attempt, data.phase
    )
    return await cloud.mint(context.identity.tokens.signing, context.identity.issuer.url, subject, data.audience)
