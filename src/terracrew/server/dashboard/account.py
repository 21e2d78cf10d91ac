"""The account page: the password, the sessions and the API tokens of the person who is logged in."""

from typing import Any

import msgspec
from litestar import Response, Router, get, post
from litestar.params import FromPath
from litestar.response import Redirect

from terracrew import ids
from terracrew.errors import Forbidden, Invalid, RateLimited, Unavailable
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.errors import HANDLERS
from terracrew.server.db.seam import Tx
from terracrew.server.identity.people import logins, oversight, passwords
from terracrew.server.identity.people.model import ApiToken, OpenSession
from terracrew.server.principals import authorize

MAX_LISTED = 100
"""How many sessions, and how many tokens, the page shows."""


class AccountForm(msgspec.Struct, frozen=True):
    password: str
    again: str
    current: str = ""


@get("/dashboard/account")
async def account_page(request: DashboardCall) -> Response[Any]:
    """Show where the user is logged in, which API tokens they have, and the form that changes their password."""
    return await _account_answer(request)


@post("/dashboard/account/password", status_code=200)
async def change_password(request: DashboardCall) -> Response[Any]:
    form = await forms.read(request, AccountForm)
    if form.password != form.again:
        return await _account_answer(request, wrong="the two passwords are not the same: type them again")
    try:
        made = await logins.set_password(request.context.identity, request.user, form.password, form.current)
    except (Invalid, Forbidden, RateLimited, Unavailable) as error:
        return await _account_answer(request, wrong=error.message)
    ended = f"Ended: {_count(made.sessions_ended, 'other session')}, {_count(made.tokens_revoked, 'API token')}."
    return await _account_answer(request, said=f"Your password is changed. {ended}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@post("/dashboard/account/sessions/{session_id:str}/end", status_code=303)
async def end_session(request: DashboardCall, session_id: FromPath[str]) -> Response[Any]:
    who, it = request.user, ids.parse("ses", session_id)
    await request.context.db.write(lambda tx: oversight.end_session(tx, who, oversight.ME, it))
    return Redirect("/dashboard/account", status_code=303)


@post("/dashboard/account/tokens/{token_id:str}/revoke", status_code=303)
async def revoke_token(request: DashboardCall, token_id: FromPath[str]) -> Response[Any]:
    who, it = request.user, ids.parse("tok", token_id)
    await request.context.db.write(lambda tx: oversight.revoke_token(tx, who, oversight.ME, it))
    return Redirect("/dashboard/account", status_code=303)


async def _account_answer(request: DashboardCall, wrong: str = "", said: str = "") -> Response[Any]:
    who = request.user
    authorize.require_person(who)

    async def read(tx: Tx) -> tuple[list[OpenSession], list[ApiToken]]:
        open_sessions = await oversight.list_sessions(tx, who, oversight.ME, None, MAX_LISTED)
        return open_sessions.items, (await oversight.list_tokens(tx, who, oversight.ME, None, MAX_LISTED)).items

    open_sessions, tokens = await request.context.db.read_in_background(read)
    answer = await render.page(
        request,
        "account/page.html",
        sessions=open_sessions,
        tokens=tokens,
        wrong=wrong,
        said=said,
        shortest=passwords.MIN_CHARACTERS,
        here=who.credential_id,
    )
    answer.status_code = 400 if wrong else 200
    return answer


pages = Router(
    "/",
    route_handlers=[account_page, change_password, end_session, revoke_token],
    exception_handlers=HANDLERS,
    include_in_schema=False,
    request_max_body_size=16_384,
)
