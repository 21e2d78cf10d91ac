"""The actions on one runner: drain it, disable it, remove it. Each calls the service that the API calls."""

from typing import Any

import msgspec
from litestar import Response, post
from litestar.params import FromPath

from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.runners import service
from terracrew.server.runners.model import RunnerChange
from terracrew.server.runners.removal import service as removal

HERE = "/dashboard/runners"


class SwitchForm(msgspec.Struct, frozen=True):
    on: bool


class RemoveForm(msgspec.Struct, frozen=True):
    force: bool = False


@post("/{runner:str}/drain")
async def drain(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, SwitchForm)
    change = RunnerChange(is_draining=form.on)
    view = await request.context.db.write(lambda tx: service.change(tx, request.user, runner, change))
    said = (
        f"Draining {view.path}: it finishes its jobs and takes no new ones"
        if form.on
        else f"{view.path} takes jobs again"
    )
    return render.done(request, said, address(view.id))


@post("/{runner:str}/disable")
async def disable(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, SwitchForm)
    change = RunnerChange(is_disabled=form.on)
    view = await request.context.db.write(lambda tx: service.change(tx, request.user, runner, change))
    said = f"{view.path} is disabled and gets no new jobs" if form.on else f"{view.path} is enabled"
    return render.done(request, said, address(view.id))


@post("/{runner:str}/remove")
async def remove(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, RemoveForm)
    found = await request.context.db.write(lambda tx: removal.remove(tx, request.user, runner, form.force))
    said = f"{found.path} is removed" if found.is_removed else f"Removing {found.path}: it finishes its jobs first"
    return render.done(request, said, HERE)


def address(runner_id: str) -> str:
    """Return the address of the runner's page."""
    return f"{HERE}/{runner_id}"


handlers = [drain, disable, remove]
