"""The handlers of the pages of releases."""

from typing import Any

import msgspec
from litestar import Response, Router, get, post
from litestar.params import FromPath, FromQuery

from terracrew.errors import Invalid
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.errors import HANDLERS
from terracrew.server.dashboard.releases import listing, notes, updating
from terracrew.server.dashboard.releases.updating import HERE
from terracrew.server.db.seam import Tx
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import SERVER, Verb
from terracrew.server.releases import service
from terracrew.server.releases.model import Release


class WithdrawForm(msgspec.Struct, frozen=True):
    reason: str = ""


@get("/")
async def list_page(request: DashboardCall, page: FromQuery[int] = 1) -> Response[Any]:
    who = request.user
    found = await request.context.db.read_in_background(lambda tx: listing.read(tx, who, page))
    return await render.page(request, "releases/list_page.html", "releases/list.html", page=found)


@get("/notes")
async def notes_page(
    request: DashboardCall, since: FromQuery[str] = "", until: FromQuery[str] = "", runner: FromQuery[str] = ""
) -> Response[Any]:
    who, rules = request.user, request.context.rollout_rules
    found = await request.context.db.read_in_background(lambda tx: notes.read(tx, who, rules, since, until, runner))
    return await render.page(request, "releases/notes_page.html", "releases/notes.html", page=found)


@get("/{release:str}/withdraw")
async def withdraw_page(request: DashboardCall, release: FromPath[str]) -> Response[Any]:
    """Ask for the reason. Only the button of the page withdraws the release."""
    return await _ask(request, release, "", "")


@post("/{release:str}/withdraw", status_code=200)
async def withdraw(request: DashboardCall, release: FromPath[str]) -> Response[Any]:
    form, who = await forms.read(request, WithdrawForm), request.user
    try:
        await request.context.db.write(lambda tx: service.withdraw(tx, who, release, form.reason))
    except Invalid as error:
        return await _ask(request, release, form.reason, error.message.removeprefix("reason: "))
    return render.go(request, HERE)


async def _ask(request: DashboardCall, version: str, reason: str, wrong: str) -> Response[Any]:
    who = request.user

    async def read(tx: Tx) -> Release:
        await authorize.require(tx, who, Verb.SERVER_ADMIN, SERVER)
        return await service.get(tx, who, version)

    found = await request.context.db.read_in_background(read)
    answer = await render.page(
        request, "releases/withdraw_page.html", release=found, reason=reason, wrong=wrong, here=HERE
    )
    answer.status_code = Invalid.status if wrong else 200
    return answer


pages = Router(
    HERE,
    route_handlers=[list_page, notes_page, withdraw_page, withdraw, *updating.handlers],
    exception_handlers=HANDLERS,
    include_in_schema=False,
)
