"""The page that tells everybody what they may do at a place, and why; who may see who has access also asks about others elsewhere."""

from typing import Any

import msgspec
from litestar import Response, get
from litestar.params import FromQuery

from terracrew.api.access import Explanation
from terracrew.errors import Forbidden, Invalid, NotFound
from terracrew.server.dashboard import render
from terracrew.server.dashboard.access.roles import VERBS
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import subjects
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runs import to_approve

HERE = "/dashboard/account/access"


class OwnAccess(msgspec.Struct, frozen=True):
    verb: Verb
    path: str
    answer: Explanation | None = None
    wrong: str = ""
    """Why there is no answer."""


async def read(tx: Tx, who: Principal, verb: Verb | None, path: str) -> OwnAccess:
    if verb is None:
        return OwnAccess(Verb.JOB_RUN, path)
    try:
        return OwnAccess(verb, path, await to_approve.explain(tx, who, subjects.ME, verb, path))
    except (Forbidden, Invalid, NotFound) as error:
        return OwnAccess(verb, path, wrong=error.message)


@get("/dashboard/account/access")
async def own_access_page(
    request: DashboardCall, verb: FromQuery[Verb | None] = None, on: FromQuery[str] = ""
) -> Response[Any]:
    """Show the question, and with `verb` also the answer: whether the reader may do this `on` a group or module."""
    authorize.require_person(request.user)
    found = await request.read(read, verb, on.strip().strip("/"))
    return await render.page(request, "access/account/own", page=found, verbs=VERBS)
