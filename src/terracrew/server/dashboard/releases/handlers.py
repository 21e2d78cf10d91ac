"""The handlers of the pages of releases: lists and notes, the withdrawal of one, and the update of all runners to one."""

from typing import Any

import msgspec
from litestar import Response, Router, get, post
from litestar.params import FromPath, FromQuery

from terracrew.errors import Conflict, Invalid
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.errors import HANDLERS
from terracrew.server.dashboard.releases import listing
from terracrew.server.dashboard.releases.rollout import UpdatePanel
from terracrew.server.db.seam import Tx
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import SERVER, Verb
from terracrew.server.releases import service
from terracrew.server.releases.model import Release
from terracrew.server.rollouts import service as rollouts
from terracrew.server.rollouts.model import NewRollout

HERE = "/dashboard/releases"


class WithdrawForm(msgspec.Struct, frozen=True):
    reason: str = ""


class UpdateAllForm(msgspec.Struct, frozen=True):
    version: str = ""
    """The release that the reader was shown."""
    group: str = ""
    accept_breaking: bool = False


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
    found = await request.context.db.read_in_background(
        lambda tx: listing.read_notes(tx, who, rules, since, until, runner)
    )
    return await render.page(request, "releases/notes_page.html", "releases/notes.html", page=found)


@get("/{release:str}/withdraw")
async def withdraw_page(request: DashboardCall, release: FromPath[str]) -> Response[Any]:
    """Ask for the reason. Only the button of the page withdraws the release."""
    return await _ask_withdrawal(request, release, "", "")


@post("/{release:str}/withdraw", status_code=200)
async def withdraw(request: DashboardCall, release: FromPath[str]) -> Response[Any]:
    form, who = await forms.read(request, WithdrawForm), request.user
    try:
        await request.context.db.write(lambda tx: service.withdraw(tx, who, release, form.reason))
    except Invalid as error:
        return await _ask_withdrawal(request, release, form.reason, error.reason)
    return render.go(request, HERE)


async def _ask_withdrawal(request: DashboardCall, version: str, reason: str, wrong: str) -> Response[Any]:
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


@get("/update")
async def update_page(request: DashboardCall, group: FromQuery[str] = "") -> Response[Any]:
    """Show what an update of all outdated runners would do. Only the button of the page starts it."""
    return await _ask_update(request, group, "")


@post("/update", status_code=200)
async def update_all(request: DashboardCall) -> Response[Any]:
    form, who, rules = await forms.read(request, UpdateAllForm), request.user, request.context.rollout_rules
    new = NewRollout(version=form.version or None, group=form.group, accept_breaking=form.accept_breaking)
    try:
        await request.context.db.write(lambda tx: rollouts.start(tx, who, rules, new))
    except Conflict as error:
        return await _ask_update(request, form.group, error.message)
    return render.go(request, HERE)


@post("/rollouts/{rollout:str}/pause")
async def pause(request: DashboardCall, rollout: FromPath[str]) -> Response[Any]:
    who = request.user
    view = await request.context.db.write(lambda tx: rollouts.pause(tx, who, rollout))
    return render.done(request, f"The roll-out of {view.version} is paused", HERE)


@post("/rollouts/{rollout:str}/resume")
async def resume(request: DashboardCall, rollout: FromPath[str]) -> Response[Any]:
    who, rules = request.user, request.context.rollout_rules
    view = await request.context.db.write(lambda tx: rollouts.resume(tx, who, rules, rollout))
    return render.done(request, f"The roll-out of {view.version} goes on", HERE)


@post("/rollouts/{rollout:str}/stop")
async def stop(request: DashboardCall, rollout: FromPath[str]) -> Response[Any]:
    who = request.user
    view = await request.context.db.write(lambda tx: rollouts.stop(tx, who, rollout))
    return render.done(request, f"The roll-out of {view.version} is stopped", HERE)


async def _ask_update(request: DashboardCall, group: str, wrong: str) -> Response[Any]:
    who, rules = request.user, request.context.rollout_rules
    found = await request.context.db.read_in_background(lambda tx: rollouts.preview(tx, who, rules, group))
    answer = await render.page(
        request,
        "releases/update_page.html",
        "releases/update.html",
        panel=UpdatePanel(found),
        group=group,
        wrong=wrong,
    )
    answer.status_code = Conflict.status if wrong else 200
    return answer


pages = Router(
    HERE,
    route_handlers=[list_page, notes_page, withdraw_page, withdraw, update_page, update_all, pause, resume, stop],
    exception_handlers=HANDLERS,
    include_in_schema=False,
)
