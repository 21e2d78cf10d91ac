"""The users pages: the list with the form that invites somebody, and one user with their roles, sessions and tokens."""

from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from terracrew import ids
from terracrew.api.access import ApiToken, OpenSession, UserChange, UserDetails, UserListed
from terracrew.errors import Conflict, Forbidden, Invalid, NotFound
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import users
from terracrew.server.identity.people import oversight, service
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal

HERE = "/dashboard/users"
PAGE_ROWS = 50
MAX_LISTED = 100
"""How many sessions, and how many tokens, the page of a user shows."""


class UsersPage(msgspec.Struct, frozen=True):
    users: list[UserListed]
    search: str
    next: str | None
    may_invite: bool


class UserPage(msgspec.Struct, frozen=True):
    user: UserDetails
    sessions: list[OpenSession] | None
    """None if the reader may see that the user exists, but not their sessions and tokens."""
    tokens: list[ApiToken] | None
    may_change: bool


class InviteForm(msgspec.Struct, frozen=True):
    name: str
    is_system_admin: bool = False


async def read_page(tx: Tx, who: Principal, search: str, after: str | None) -> UsersPage:
    found = await users.listing(tx, who, after, PAGE_ROWS, search.strip() or None)
    return UsersPage(found.items, search, found.next, await _may_change(tx, who))


async def read_one(tx: Tx, who: Principal, reference: str) -> UserPage:
    """Return a user. Sessions and tokens are shown to those who may manage the user, and to the user."""
    user = await users.show(tx, who, reference)
    try:
        open_sessions = await oversight.list_sessions(tx, who, user.id, None, MAX_LISTED)
        tokens = await oversight.list_tokens(tx, who, user.id, None, MAX_LISTED)
    except (Forbidden, NotFound):
        return UserPage(user, None, None, may_change=False)
    return UserPage(user, open_sessions.items, tokens.items, await _may_change(tx, who))


async def _may_change(tx: Tx, who: Principal) -> bool:
    place = authorize.organization(who.organization_id)
    return await authorize.may(tx, who, Verb.ACCESS_WRITE, place)


@get("/")
async def list_page(
    request: DashboardCall, q: FromQuery[str] = "", after: FromQuery[str | None] = None
) -> Response[Any]:
    found = await request.read(read_page, q, after)
    return await render.page(request, "access/users/list", page=found, after=after, wrong="", form=None)


@get("/invite")
async def invite_page(request: DashboardCall) -> Response[Any]:
    place = authorize.organization(request.user.organization_id)
    await authorize.require(request.context.db, request.user, Verb.ACCESS_WRITE, place)
    return await render.page(request, "access/users/invite", link="", wrong="", form=None)


@post("/invite", status_code=200)
async def invite(request: DashboardCall) -> Response[Any]:
    """Create a user. Only this answer contains the link with which they log in."""
    form, context = await forms.read(request, InviteForm), request.context
    try:
        user, token = await service.create_user(
            context.db, request.user, form.name.strip().lower(), form.is_system_admin
        )
    except (Invalid, Conflict) as error:
        shown: dict[str, Any] = {"link": "", "wrong": error.message, "form": form}
        return await render.page(request, "access/users/invite", **shown)
    if token is None:  # a program that uses this page with an API token
        return render.go(request, f"{HERE}/{user.id}")
    shown = {"link": service.link_url(context.identity.url, token), "invited": user}
    return await render.page(request, "access/users/invite", "access/users/invited", **shown)


@get("/{user:str}")
async def user_page(request: DashboardCall, user: FromPath[str]) -> Response[Any]:
    found = await request.read(read_one, user)
    return await render.page(request, "access/users/user", page=found, here=request.user.credential_id)


@post("/{user:str}/disable")
async def disable(request: DashboardCall, user: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, forms.SwitchForm)
    after = await users.change(request.context.db, request.user, user, UserChange(is_disabled=form.on))
    return render.done(request, f"{after.name} is {'disabled' if form.on else 'enabled'}", f"{HERE}/{after.id}")


@post("/{user:str}/administrator")
async def set_administrator(request: DashboardCall, user: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, forms.SwitchForm)
    after = await users.change(request.context.db, request.user, user, UserChange(is_system_admin=form.on))
    said = f"{after.name} is {'an' if form.on else 'no longer an'} administrator"
    return render.done(request, said, f"{HERE}/{after.id}")


@post("/{user:str}/reset", status_code=200)
async def reset(request: DashboardCall, user: FromPath[str]) -> Response[Any]:
    """End everything with which a user can log in. Only this answer contains the link with which they log in again."""
    found, token = await users.reset(request.context.db, request.user, user)
    link = service.link_url(request.context.identity.url, token)
    shown: dict[str, Any] = {"link": link, "invited": found, "is_reset": True}
    return await render.page(request, "access/users/invite", "access/users/reset", **shown)


@post("/{user:str}/delete")
async def delete(request: DashboardCall, user: FromPath[str]) -> Response[Any]:
    await request.write(users.delete, user)
    return render.go(request, HERE)


@post("/{user:str}/sessions/{session_id:str}/end")
async def end_session(request: DashboardCall, user: FromPath[str], session_id: FromPath[str]) -> Response[Any]:
    await request.write(oversight.end_session, user, ids.parse("ses", session_id))
    return render.done(request, "The session is ended", f"{HERE}/{user}")


@post("/{user:str}/sessions/end")
async def end_sessions(request: DashboardCall, user: FromPath[str]) -> Response[Any]:
    ended = await request.write(oversight.end_sessions, user)
    return render.done(request, f"Sessions ended: {ended}", f"{HERE}/{user}")


@post("/{user:str}/tokens/{token_id:str}/revoke")
async def revoke_token(request: DashboardCall, user: FromPath[str], token_id: FromPath[str]) -> Response[Any]:
    await request.write(oversight.revoke_token, user, ids.parse("tok", token_id))
    return render.done(request, "The token is revoked", f"{HERE}/{user}")
