"""Roles: who may do what at which place of the tree."""

from litestar import delete, get, post
from litestar.params import FromPath, FromQuery, JSONBody

from terracrew import ids
from terracrew.api.access import Explanation, NewRole, RoleBinding, RoleListed
from terracrew.api.pages import Page
from terracrew.server.api.context import AccessCall
from terracrew.server.identity.access import roles
from terracrew.server.paging import After, Limit
from terracrew.server.principals.authorize import Verb
from terracrew.server.runs import to_approve


@get("/roles", summary="List roles")
async def list_roles(
    request: AccessCall,
    principal: FromQuery[str | None] = None,
    path: FromQuery[str | None] = None,
    inherited: FromQuery[bool] = False,
    after: After = None,
    limit: Limit = 50,
) -> Page[RoleListed]:
    """List who has which role at which group or module: all of them, those of one `principal`, or those at one `path`.

    With `inherited=true`, the roles that apply to the path from the groups above it are listed as well. A principal is the
    name or id of a user, or the id or path of a service account.
    """
    return await request.read_in_background(roles.listing, roles.RoleQuery(principal, path, inherited), after, limit)


@post("/roles", summary="Give a role at a place of the tree")
async def bind_role(request: AccessCall, data: JSONBody[NewRole]) -> RoleBinding:
    """Give a user or a service account a role at a group, with everything below it, or at a module."""
    return await request.write(roles.bind_role, data.principal, data.role, data.path, data.kind, data.expires_in_days)


@delete("/roles/{role_id:str}", summary="Take a role away")
async def unbind_role(request: AccessCall, role_id: FromPath[str]) -> None:
    """Take a role away. It ends at once."""
    await request.write(roles.unbind_role, ids.parse("rol", role_id))


@get("/access/explain", summary="Explain why somebody may do something")
async def explain_access(
    request: AccessCall, verb: FromQuery[Verb], principal: FromQuery[str] = "me", path: FromQuery[str] = ""
) -> Explanation:
    """Explain whether a `principal` may use a `verb` at the group or module `path`, by which role, and what is missing.

    A principal is `me`, the name or id of a user, or the id or path of a service account. To ask about others takes the right
    to see who has access at that place.
    """
    return await request.read(to_approve.explain, principal, verb, path)
