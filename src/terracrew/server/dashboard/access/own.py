"""The page that tells everybody which roles they have, and what they may do at a place, and why.

Whoever may see who has access also asks about others, on the pages of places.
"""

from typing import Any

import msgspec
from litestar import Response, get
from litestar.params import FromQuery

from terracrew.api.access import Explanation, RoleListed
from terracrew.errors import Forbidden, Invalid, NotFound
from terracrew.server.dashboard import render
from terracrew.server.dashboard.access.roles import VERBS
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import role_reads, subjects
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runs import to_approve

HERE = "/dashboard/account/access"


class OwnAccess(msgspec.Struct, frozen=True):
    roles: list[RoleListed]
    verb: Verb
    path: str
    answer: Explanation | None = None
    wrong: str = ""
    """Why there is no answer."""


async def read(tx: Tx, who: Principal, verb: Verb | None, path: str) -> OwnAccess:
    roles = await role_reads.of_principal(tx, who.id, who.organization_id)
    if verb is None:
        return OwnAccess(roles, Verb.JOB_RUN, path)
    try:
        return OwnAccess(roles, verb, path, await to_approve.explain(tx, who, subjects.ME, verb, path))
    except (Forbidden, Invalid, NotFound) as error:
        return OwnAccess(roles, verb, path, wrong=error.message)


@get("/dashboard/account/access")
async def own_access_page(
    request: DashboardCall, verb: FromQuery[Verb | None] = None, on: FromQuery[str] = ""
) -> Response[Any]:
    """Show the reader's roles and the question, and with `verb` also the answer: whether they may do this `on` a group or module."""
    authorize.require_person(request.user)
    found = await request.read(read, verb, on.strip().strip("/"))
    return await render.page(request, "access/account/own", page=found, verbs=VERBS)
