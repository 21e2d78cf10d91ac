"""The question before all outdated runners are updated, and the buttons of a roll-out."""

from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from terracrew.errors import Conflict
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.releases.rollout import UpdatePanel
from terracrew.server.rollouts import service
from terracrew.server.rollouts.model import NewRollout

HERE = "/dashboard/releases"


class UpdateAllForm(msgspec.Struct, frozen=True):
    version: str = ""
    """The release that the reader was shown."""
    group: str = ""
    accept_breaking: bool = False


@get("/update")
async def update_page(request: DashboardCall, group: FromQuery[str] = "") -> Response[Any]:
    """Show what an update of all outdated runners would do. Only the button of the page starts it."""
    return await _ask(request, group, "")


@post("/update", status_code=200)
async def update(request: DashboardCall) -> Response[Any]:
    form, who, rules = await forms.read(request, UpdateAllForm), request.user, request.context.rollout_rules
    new = NewRollout(version=form.version or None, group=form.group, accept_breaking=form.accept_breaking)
    try:
        await request.context.db.write(lambda tx: service.start(tx, who, rules, new))
    except Conflict as error:
        return await _ask(request, form.group, error.message)
    return render.go(request, HERE)


@post("/rollouts/{rollout:str}/pause")
async def pause(request: DashboardCall, rollout: FromPath[str]) -> Response[Any]:
    who = request.user
    view = await request.context.db.write(lambda tx: service.pause(tx, who, rollout))
    return render.done(request, f"The roll-out of {view.version} is paused", HERE)


@post("/rollouts/{rollout:str}/resume")
async def resume(request: DashboardCall, rollout: FromPath[str]) -> Response[Any]:
    who, rules = request.user, request.context.rollout_rules
    view = await request.context.db.write(lambda tx: service.resume(tx, who, rules, rollout))
    return render.done(request, f"The roll-out of {view.version} goes on", HERE)


@post("/rollouts/{rollout:str}/stop")
async def stop(request: DashboardCall, rollout: FromPath[str]) -> Response[Any]:
    who = request.user
    view = await request.context.db.write(lambda tx: service.stop(tx, who, rollout))
    return render.done(request, f"The roll-out of {view.version} is stopped", HERE)


async def _ask(request: DashboardCall, group: str, wrong: str) -> Response[Any]:
    who, rules = request.user, request.context.rollout_rules
    found = await request.context.db.read_in_background(lambda tx: service.preview(tx, who, rules, group))
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


handlers = [update_page, update, pause, resume, stop]
