"""The caller: who they are, their password, and a link that logs them in."""

from litestar import get, post
from litestar.params import JSONBody

from terracrew.api.access import Link, Me, NewPassword, PasswordChanged, RoleListed
from terracrew.api.groups import Organization
from terracrew.server.api.context import AccessCall
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import organizations, role_reads
from terracrew.server.identity.people import logins, service
from terracrew.server.principals import authorize, delegation


@get("/me", summary="Show who you are")
async def me(request: AccessCall) -> Me:
    """Show the person or service account that this request acts for, with its roles."""
    who = request.user

    async def read(tx: Tx) -> tuple[list[RoleListed], list[Organization]]:
        is_reader = who.kind in ("user", "service_account")
        found = await organizations.listing(tx, who, None, organizations.MAX_LISTED) if is_reader else None
        return await role_reads.of_principal(tx, who.id), found.items if found else []

    roles, named = await request.context.db.read(read)
    return Me(who.kind, who.id, who.name, who.organization_id, who.is_system_admin, roles, named)


@post("/me/link", summary="Make a link that logs you in, once")
async def my_link(request: AccessCall) -> Link:
    """For a person who has a token and wants the dashboard."""
    who = request.user
    authorize.require_person(who)
    delegation.require_login(who, "make a link that logs you in")
    token, is_replaced = await service.replace_link(request.context.db, who.id, who)
    return Link(service.link_url(request.context.identity.url, token), is_replaced)


@post("/me/password", summary="Change your password", status_code=200)
async def change_password(request: AccessCall, data: JSONBody[NewPassword]) -> PasswordChanged:
    """Change your password. Your other sessions and all of your API tokens end, the one that you use here included."""
    return await logins.set_password(request.context.identity, request.user, data.new_password, data.current_password)
