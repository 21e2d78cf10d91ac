"""The users pages: the list with the form that invites somebody, and one user with their roles, sessions and tokens."""

from typing import Any

import msgspec
from litestar import Response, Router, get, post
from litestar.params import FromPath, FromQuery

from terracrew import ids
from terracrew.api.access import ApiToken, OpenSession, UserChange, UserDetails, UserListed
from terracrew.errors import Conflict, Forbidden, Invalid, NotFound
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.errors import HANDLERS
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


class UserSwitchForm(msgspec.Struct, frozen=True):
    on: bool


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
    return (await authorize.visible(tx, who, Verb.ACCESS_WRITE)).covers(place)


@get("/")
async def list_page(
    request: DashboardCall, q: FromQuery[str] = "", after: FromQuery[str | None] = None
) -> Response[Any]:
    found = await request.context.db.read_in_background(lambda tx: read_page(tx, request.user, q, after))
    return await render.page(
        request, "access/users/list_page.html", "access/users/list.html", page=found, after=after, wrong="", form=None
    )


@get("/invite")
async def invite_page(request: DashboardCall) -> Response[Any]:
    await request.context.db.read(lambda tx: _require_change(tx, request.user))
    return await render.page(request, "access/users/invite_page.html", link="", wrong="", form=None)


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
        return await render.page(request, "access/users/invite_page.html", "access/users/invite.html", **shown)
    if token is None:  # a program that uses this page with an API token
        return render.go(request, f"{HERE}/{user.id}")
    shown = {"link": service.link_url(context.identity.url, token), "invited": user}
    return await render.page(request, "access/users/invite_page.html", "access/users/invited.html", **shown)


@get("/{user:str}")
async def user_page(request: DashboardCall, user: FromPath[str]) -> Response[Any]:
    found = await request.context.db.read_in_background(lambda tx: read_one(tx, request.user, user))
    return await render.page(
        request, "access/users/user_page.html", "access/users/user.html", page=found, here=request.user.credential_id
    )


@post("/{user:str}/disable")
async def disable(request: DashboardCall, user: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, UserSwitchForm)
    after = await users.change(request.context.db, request.user, user, UserChange(is_disabled=form.on))
    return render.done(request, f"{after.name} is {'disabled' if form.on else 'enabled'}", f"{HERE}/{after.id}")


@post("/{user:str}/administrator")
async def set_administrator(request: DashboardCall, user: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, UserSwitchForm)
    after = await users.change(request.context.db, request.user, user, UserChange(is_system_admin=form.on))
    said = f"{after.name} is {'an' if form.on else 'no longer an'} administrator"
    return render.done(request, said, f"{HERE}/{after.id}")


@post("/{user:str}/reset", status_code=200)
async def reset(request: DashboardCall, user: FromPath[str]) -> Response[Any]:
    """End everything with which a user can log in. Only this answer contains the link with which they log in again."""
    context = request.context
    found, token = await users.reset(context.db, request.user, user)
    link = service.link_url(context.identity.url, token)
    shown: dict[str, Any] = {"link": link, "invited": found, "is_reset": True}
    return await render.page(request, "access/users/invite_page.html", "access/users/reset.html", **shown)


@post("/{user:str}/delete")
async def delete(request: DashboardCall, user: FromPath[str]) -> Response[Any]:
    who = request.user
    await request.context.db.write(lambda tx: users.delete(tx, who, user))
    return render.go(request, HERE)


@post("/{user:str}/sessions/{session_id:str}/end")
async def end_session(request: DashboardCall, user: FromPath[str], session_id: FromPath[str]) -> Response[Any]:
    who, it = request.user, ids.parse("ses", session_id)
    await request.context.db.write(lambda tx: oversight.end_session(tx, who, user, it))
    return render.done(request, "The session is ended", f"{HERE}/{user}")


@post("/{user:str}/sessions/end")
async def end_sessions(request: DashboardCall, user: FromPath[str]) -> Response[Any]:
    who = request.user
    ended = await request.context.db.write(lambda tx: oversight.end_sessions(tx, who, user))
    return render.done(request, f"Sessions ended: {ended}", f"{HERE}/{user}")


@post("/{user:str}/tokens/{token_id:str}/revoke")
async def revoke_token(request: DashboardCall, user: FromPath[str], token_id: FromPath[str]) -> Response[Any]:
    who, it = request.user, ids.parse("tok", token_id)
    await request.context.db.write(lambda tx: oversight.revoke_token(tx, who, user, it))
    return render.done(request, "The token is revoked", f"{HERE}/{user}")


async def _require_change(tx: Tx, who: Principal) -> None:
    await authorize.require(tx, who, Verb.ACCESS_WRITE, authorize.organization(who.organization_id))


pages = Router(
    HERE,
    route_handlers=[
        list_page,
        invite_page,
        invite,
        user_page,
        disable,
        set_administrator,
        reset,
        delete,
        end_session,
        end_sessions,
        revoke_token,
    ],
    exception_handlers=HANDLERS,
    include_in_schema=False,
)
