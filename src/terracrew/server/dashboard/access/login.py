"""The login pages: log in with a password or a one-time link, and log out."""

import math
import time
from typing import Any
from urllib.parse import unquote

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery
from litestar.response import Redirect

from terracrew.client.address import is_loopback
from terracrew.errors import Invalid, RateLimited, Unauthenticated, Unavailable
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.http.request import address_of, is_on_this_machine
from terracrew.server.identity.people import devices, logins, passwords, service, sessions
from terracrew.server.identity.people.sessions import Session
from terracrew.server.identity.sso import departures, doors

HOME = "/dashboard"


class LoginForm(msgspec.Struct, frozen=True):
    name: str
    password: str
    next: str = ""
    organization: str = ""
    """The organization whose providers the page shows."""


class PasswordForm(msgspec.Struct, frozen=True):
    password: str = ""
    again: str = ""
    enter: bool = False
    """Log in without setting a password, which is possible on the server's own machine only."""
    next: str = ""


@get("/login", public=True)
async def login_page(
    request: DashboardCall,
    next: FromQuery[str] = "",  # noqa: A002
    organization: FromQuery[str] = "",
) -> Response[Any]:
    """Show the form for a password, and a button for each provider of the organization."""
    if request.user is not None:  # pyright: ignore[reportUnnecessaryComparison] (public: there may be nobody)
        return Redirect(local(next), status_code=303)
    found = await request.context.db.read(lambda tx: doors.read(tx, organization))
    return render.answer("access/login/login_page.html", next=next, name="", wrong="", found=found)


@post("/login", public=True, status_code=303)
async def login(request: DashboardCall) -> Response[Any]:
    form = await forms.read(request, LoginForm)
    identity = request.context.identity
    name = sessions.cookie_name(sessions.DEVICE_COOKIE, secure=sessions.is_secure(request, identity.url))
    device = request.cookies.get(name)
    try:
        session = await logins.login(identity, form.name, form.password, address_of(request), device)
    except (Unauthenticated, RateLimited, Unavailable) as error:
        found = await request.context.db.read(lambda tx: doors.read(tx, form.organization))
        shown: dict[str, Any] = {"next": form.next, "name": form.name, "wrong": error.message, "found": found}
        answer = render.answer("access/login/login_page.html", error.status, **shown)
        if "retry_after" in error.details:
            answer.headers["Retry-After"] = str(math.ceil(error.details["retry_after"]))
        return answer
    return let_in(request, session, form.name.strip().lower(), local(form.next))


@get("/login/link/{token:str}", public=True)
async def link_page(
    request: DashboardCall,
    token: FromPath[str],
    enter: FromQuery[bool] = False,
    next: FromQuery[str] = "",  # noqa: A002
) -> Response[Any]:
    """Show the page of a one-time link, which does not use the link up.

    With `enter`, the page logs in by itself if server and browser are on the same machine.
    """
    return await _link_answer(request, token, enter=enter and _islocal(request), to=next)


@post("/login/link/{token:str}", public=True, status_code=303)
async def use_link(request: DashboardCall, token: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, PasswordForm)
    if form.enter and not _islocal(request):
        return await _link_answer(
            request, token, "logging in without a password is possible only on the server's own machine"
        )
    if not form.enter and form.password != form.again:
        return await _link_answer(request, token, "the two passwords are not the same: type them again")
    try:
        user = await service.link_owner(request.context.identity, token, address_of(request))
        session = await service.redeem_link(
            request.context.identity, token, address_of(request), None if form.enter else form.password
        )
    except Invalid as error:
        return await _link_answer(request, token, error.message)
    except Unauthenticated as error:
        return _stale(error)
    return let_in(request, session, user.name, local(form.next))


@post("/logout", status_code=303, in_any_organization=True)
async def logout(request: DashboardCall) -> Response[Any]:
    secure = sessions.is_secure(request, request.context.identity.url)
    name = sessions.cookie_name(sessions.COOKIE, secure=secure)
    there: str | None = None
    if token := request.cookies.get(name):
        session_id = request.user.credential_id or ""
        there = await request.context.db.read(lambda tx: departures.provider_of_session(tx, session_id))
        await logins.logout(request.context.db, token, address_of(request))
    answer = Redirect("/login" if there is None else f"/login/sso/{there}/logout", status_code=303)
    # A browser accepts the removal of a `__Host-` cookie only with the attributes that it was set with.
    answer.set_cookie(key=name, value="", path="/", max_age=0, secure=secure, httponly=True, samesite="lax")
    return answer


def _islocal(request: DashboardCall) -> bool:
    """Return whether server and browser are on the same machine, with no proxy between them."""
    return is_loopback(request.context.url) and is_on_this_machine(request)


async def _link_answer(
    request: DashboardCall, token: str, wrong: str = "", *, enter: bool = False, to: str = ""
) -> Response[Any]:
    try:
        user = await service.link_owner(request.context.identity, token, address_of(request))
    except Unauthenticated as error:
        return _stale(error)
    status = 400 if wrong else 200
    return render.answer(
        "access/login/link_page.html",
        status,
        name=user.name,
        wrong=wrong,
        shortest=passwords.MIN_CHARACTERS,
        enter=enter,
        next=to,
    )


def _stale(error: Unauthenticated) -> Response[Any]:
    return render.answer("error.html", 410, title="This link no longer works", detail=error.message)


def let_in(request: DashboardCall, session: Session, user: str, to: str) -> Response[Any]:
    identity = request.context.identity
    secure = sessions.is_secure(request, identity.url)
    device = devices.new(identity.keys, user, time.time())
    cookies = [sessions.cookie(session, secure=secure), sessions.device_cookie(device, secure=secure)]
    return Redirect(to, status_code=303, cookies=cookies)


def local(to: str) -> str:
    """Return `to` if it is a page of the dashboard. It comes from the address, and a login must not lead to another site.

    It must not lead to other addresses of ours either, such as the first one of a login at a provider. A browser follows `..`, also if
    it is written with `%2e`.
    """
    path = unquote(to.partition("?")[0])
    is_ours = to.startswith("/dashboard/") and "\\" not in to and "//" not in path
    return to if is_ours and not {".", ".."} & set(path.split("/")) else HOME
