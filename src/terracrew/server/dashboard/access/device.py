"""The page on which a person types the code of a command line that cannot open a browser, and then answers it."""

import math
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from litestar import Response, get, post

from terracrew.errors import Conflict, Invalid, NotFound, RateLimited
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.access import terminal_login
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.http import engine_services
from terracrew.server.http.request import address_of
from terracrew.server.identity.terminal_logins import devices, model, service, tokens


class DeviceForm(msgspec.Struct, frozen=True):
    """The code alone, and then the code with the answer."""

    code: str
    decision: Literal["", "allow", "deny"] = ""
    name: str = ""
    days: str = ""


class Said(msgspec.Struct, frozen=True):
    """What the page says after the answer."""

    title: str
    text: str


ALLOWED = Said("The terminal is logged in", "You can go back to it, and close this page.")
DENIED = Said("The login was denied", "The terminal gets no token.")


@get(engine_services.DEVICE_PAGE)
async def device_page(request: DashboardCall) -> Response[Any]:
    """Ask for the code. The address has no code in it: a link that somebody sends must not lead to the question."""
    tokens.require_session(request.user)
    return _page(request)


@post(engine_services.DEVICE_PAGE, status_code=200, in_any_organization=True)
async def answer_device(request: DashboardCall) -> Response[Any]:
    tokens.require_session(request.user)
    form = await forms.read(request, DeviceForm, strip=True)
    identity, who = request.context.identity, request.user
    try:
        waiting = await devices.find(identity, who, form.code, address_of(request))
    except (NotFound, RateLimited) as error:
        shown = _page(request, error.status, code=form.code, wrong=error.message)
        if "retry_after" in error.details:
            shown.headers["Retry-After"] = str(math.ceil(error.details["retry_after"]))
        return shown
    wrong = ""
    try:
        if form.decision == "allow":
            name, days = forms.name(form.name), forms.days(form.days)
            await devices.answer(request.context.db, who, waiting, name, days, is_allowed=True)
            return _page(request, said=ALLOWED)
        if form.decision == "deny":
            await devices.answer(request.context.db, who, waiting, "", None, is_allowed=False)
            return _page(request, said=DENIED)
    except (Invalid, Conflict) as error:
        wrong = error.message
    known = await request.read(service.token_names)
    return _page(
        request,
        400 if wrong else 200,
        code=form.code,
        waiting=waiting,
        asked_at=datetime.fromtimestamp(waiting.created_at, UTC),
        names=[each.name for each in known if model.TERRACREW.has_made(each)],
        name=form.name if wrong else terminal_login.token_name(waiting.machine, known),
        days=form.days if wrong else str(model.DEFAULT_DAYS),
        wrong=wrong,
    )


def _page(request: DashboardCall, status: int = 200, **shown: Any) -> Response[Any]:
    nothing = {"code": "", "wrong": "", "waiting": None, "said": None}
    return render.answer(
        "access/login/device_page.html",
        status,
        **(nothing | shown),
        user=request.user,
        csrf=render.csrf(request),
        action=engine_services.DEVICE_PAGE,
    )
