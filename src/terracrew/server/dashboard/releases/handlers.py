"""The handlers of the pages of releases: lists and notes, the withdrawal of one, and the update of all runners to one."""

from typing import Any

from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from terracrew.api.releases import Withdrawal
from terracrew.api.rollouts import NewRollout
from terracrew.errors import Conflict, Invalid
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.releases import listing
from terracrew.server.dashboard.releases.rollout import UpdatePanel
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import SERVER, Verb
from terracrew.server.releases import service
from terracrew.server.rollouts import service as rollouts

HERE = "/dashboard/releases"


@get("/")
async def list_page(request: DashboardCall, page: FromQuery[int] = 1) -> Response[Any]:
    found = await request.read(listing.read, page)
    return await render.page(request, "releases/list", page=found, release_key=request.context.release_key)


@get("/notes")
async def notes_page(
    request: DashboardCall, since: FromQuery[str] = "", until: FromQuery[str] = "", runner: FromQuery[str] = ""
) -> Response[Any]:
    rules = request.context.rollout_rules
    found = await request.read(listing.read_notes, rules, since, until, runner)
    return await render.page(request, "releases/notes", page=found)


@get("/{release:str}/withdraw")
async def withdraw_page(request: DashboardCall, release: FromPath[str]) -> Response[Any]:
    """Ask for the reason. Only the button of the page withdraws the release."""
    return await _ask_withdrawal(request, release, "", "")


@post("/{release:str}/withdraw", status_code=200)
async def withdraw(request: DashboardCall, release: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, Withdrawal)
    try:
        await request.write(service.withdraw, release, form.reason)
    except Invalid as error:
        return await _ask_withdrawal(request, release, form.reason, error.reason)
    return render.go(request, HERE)


async def _ask_withdrawal(request: DashboardCall, version: str, reason: str, wrong: str) -> Response[Any]:
    await authorize.require(request.context.db, request.user, Verb.SERVER_ADMIN, SERVER)
    shown = {"release": await request.read(service.get, version), "reason": reason, "wrong": wrong, "here": HERE}
    return await render.template(request, "releases/withdraw_page.html", Invalid.status if wrong else 200, **shown)


@get("/update")
async def update_page(request: DashboardCall, group: FromQuery[str] = "") -> Response[Any]:
    """Show what an update of all outdated runners would do. Only the button of the page starts it."""
    return await _ask_update(request, group, "")


@post("/update", status_code=200)
async def update_all(request: DashboardCall) -> Response[Any]:
    new, rules = await forms.read(request, NewRollout), request.context.rollout_rules
    try:
        await request.write(rollouts.start, rules, new)
    except Conflict as error:
        return await _ask_update(request, new.group, error.message)
    return render.go(request, HERE)


@post("/rollouts/{rollout:str}/pause")
async def pause(request: DashboardCall, rollout: FromPath[str]) -> Response[Any]:
    view = await request.write(rollouts.pause, rollout)
    return render.done(request, f"The roll-out of {view.version} is paused", HERE)


@post("/rollouts/{rollout:str}/resume")
async def resume(request: DashboardCall, rollout: FromPath[str]) -> Response[Any]:
    view = await request.write(rollouts.resume, request.context.rollout_rules, rollout)
    return render.done(request, f"The roll-out of {view.version} goes on", HERE)


@post("/rollouts/{rollout:str}/stop")
async def stop(request: DashboardCall, rollout: FromPath[str]) -> Response[Any]:
    view = await request.write(rollouts.stop, rollout)
    return render.done(request, f"The roll-out of {view.version} is stopped", HERE)


async def _ask_update(request: DashboardCall, group: str, wrong: str) -> Response[Any]:
    found = await request.read(rollouts.preview, request.context.rollout_rules, group)
    shown: dict[str, Any] = {"panel": UpdatePanel(found), "group": group, "wrong": wrong}
    return await render.page(request, "releases/update", status=Conflict.status if wrong else 200, **shown)
