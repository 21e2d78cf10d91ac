"""The account page: the password, the sessions and the API tokens of the person who is logged in."""

from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath

from terracrew import ids
from terracrew.errors import Conflict, Forbidden, Invalid, RateLimited, Unavailable
from terracrew.server.dashboard import forms, render, words
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.identity.people import logins, oversight, passwords
from terracrew.server.identity.people import service as people
from terracrew.server.identity.sso import self_links
from terracrew.server.principals import authorize

HERE = "/dashboard/account"
MAX_LISTED = 100
"""How many sessions, and how many tokens, the page shows."""


class TokenForm(msgspec.Struct, frozen=True):
    name: str
    days: str = ""
    """After how many days it expires; empty if it does not."""


class AccountForm(msgspec.Struct, frozen=True):
    password: str
    again: str
    current: str = ""


@get("/dashboard/account")
async def account_page(request: DashboardCall) -> Response[Any]:
    """Show where the user is logged in, which API tokens they have, and the form that changes their password."""
    return await _account_answer(request)


@post("/dashboard/account/password", status_code=200, in_any_organization=True)
async def change_password(request: DashboardCall) -> Response[Any]:
    form = await forms.read(request, AccountForm)
    if form.password != form.again:
        return await _account_answer(request, wrong="the two passwords are not the same: type them again")
    try:
        made = await logins.set_password(request.context.identity, request.user, form.password, form.current)
    except (Invalid, Forbidden, RateLimited, Unavailable) as error:
        return await _account_answer(request, wrong=error.message)
    ended = f"Ended: {words.counted(made.sessions_ended, 'other session')}, {words.counted(made.tokens_revoked, 'API token')}."
    return await _account_answer(request, said=f"Your password is changed. {ended}")


@post("/dashboard/account/sessions/{session_id:str}/end", status_code=303, in_any_organization=True)
async def end_session(request: DashboardCall, session_id: FromPath[str]) -> Response[Any]:
    await request.write(oversight.end_session, oversight.ME, ids.parse("ses", session_id))
    return render.go(request, HERE)


@post("/dashboard/account/links/{person:str}/remove", status_code=303, in_any_organization=True)
async def remove_link(request: DashboardCall, person: FromPath[str]) -> Response[Any]:
    try:
        await request.write(self_links.unlink, ids.parse("iid", person))
    except Conflict as error:
        return await _account_answer(request, link_wrong=error.message)
    return render.go(request, HERE)


@post("/dashboard/account/tokens/{token_id:str}/revoke", status_code=303, in_any_organization=True)
async def revoke_token(request: DashboardCall, token_id: FromPath[str]) -> Response[Any]:
    await request.write(people.revoke_token, ids.parse("tok", token_id))
    return render.go(request, HERE)


@get("/dashboard/account/tokens/create")
async def new_token_page(request: DashboardCall) -> Response[Any]:
    authorize.require_person(request.user)
    return await render.page(request, "access/account/token", made=None, token_wrong="", token_name="")


@post("/dashboard/account/tokens/create", status_code=200, in_any_organization=True)
async def create_token(request: DashboardCall) -> Response[Any]:
    """Create an API token. Only this answer contains it."""
    authorize.require_person(request.user)
    form = await forms.read(request, TokenForm)
    try:
        name, days = forms.name(form.name), forms.days(form.days)
        made, secret = await people.create_token(request.context.db, request.user, name, days)
    except (Invalid, Conflict, Forbidden) as error:
        shown: dict[str, Any] = {"made": None, "token_wrong": error.message, "token_name": form.name}
        return await render.page(request, "access/account/token", **shown)
    shown = {"made": made, "secret": secret.text}
    return await render.page(request, "access/account/token", "access/account/token_created", **shown)


async def _account_answer(
    request: DashboardCall, wrong: str = "", said: str = "", link_wrong: str = ""
) -> Response[Any]:
    authorize.require_person(request.user)
    return await render.page(
        request,
        "access/account/account",
        status=400 if wrong or link_wrong else 200,
        links=await request.read(self_links.show),
        link_wrong=link_wrong,
        sessions=(await request.read(oversight.list_sessions, oversight.ME, None, MAX_LISTED)).items,
        tokens=(await request.read(people.tokens, None, MAX_LISTED)).items,
        wrong=wrong,
        said=said,
        shortest=passwords.MIN_CHARACTERS,
        here=request.user.credential_id,
    )
