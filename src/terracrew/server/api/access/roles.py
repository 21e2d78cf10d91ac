"""Roles: who may do what at which place of the tree."""

from typing import Literal

import msgspec
from litestar import Router, delete, get, post
from litestar.params import FromPath, JSONBody

from terracrew import ids
from terracrew.server.api.access.context import AccessCall
from terracrew.server.api.access.fields import Name
from terracrew.server.identity.access import service as access
from terracrew.server.identity.access.model import RoleBinding
from terracrew.server.paging import After, Limit, Page
from terracrew.server.principals.model import Role


class NewRole(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    principal: Name
    """Name or id of a user, or id of a service account."""
    role: Role
    path: str = ""
    kind: Literal["group", "module"] = "group"


@get("/roles", summary="List roles")
async def list_roles(request: AccessCall, after: After = None, limit: Limit = 50) -> Page[RoleBinding]:
    """List who has which role at which group or module."""
    who = request.user
    return await request.context.db.read_in_background(lambda tx: access.roles(tx, who, after, limit))


@post("/roles", summary="Give a role at a place of the tree")
async def bind_role(request: AccessCall, data: JSONBody[NewRole]) -> RoleBinding:
    """Give a user or a service account a role at a group, with everything below it, or at a module."""
    who = request.user
    return await request.context.db.write(
        lambda tx: access.bind_role(tx, who, data.principal, data.role, data.path, data.kind)
    )


@delete("/roles/{role_id:str}", summary="Take a role away")
async def unbind_role(request: AccessCall, role_id: FromPath[str]) -> None:
    """Take a role away. It ends at once."""
    who, it = request.user, ids.parse("rol", role_id)
    await request.context.db.write(lambda tx: access.unbind_role(tx, who, it))


router = Router(path="/api/v1", route_handlers=[list_roles, bind_role, unbind_role], tags=["access"])
