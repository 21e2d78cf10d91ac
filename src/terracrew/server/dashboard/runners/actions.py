"""The actions on one runner, and the pages that ask before it is removed or its token replaced."""

from datetime import datetime
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from terracrew.api.place_settings import PlaceKind
from terracrew.api.runners import Acknowledgement, AssignTo, Dependents, RunnerChange, RunnerView
from terracrew.errors import Conflict
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.runners import page, start
from terracrew.server.dashboard.runners.page import HERE, address
from terracrew.server.db.seam import Tx
from terracrew.server.principals.authorize import Verb
from terracrew.server.runners import service, view_reads
from terracrew.server.runners.removal import remaining
from terracrew.server.runners.removal import service as removal
from terracrew.server.tree.modules import assigning

MAX_TYPED_CHARACTERS = 200
"""How much of what was typed is searched for."""


class SwitchForm(msgspec.Struct, frozen=True):
    on: bool


class AssignForm(msgspec.Struct, frozen=True):
    place: str
    """A path as it was typed, or the id of a place that is assigned."""
    kind: PlaceKind | None = None


class AcknowledgeForm(msgspec.Struct, frozen=True):
    until: datetime
    """When the last alert on the page occurred: nothing is acknowledged that the reader has not seen."""


class BindForm(msgspec.Struct, frozen=True):
    account: str = ""
    """The id or the path of a service account; empty to unbind it."""


class RemoveForm(msgspec.Struct, frozen=True):
    force: bool = False


class RemovePage(msgspec.Struct, frozen=True):
    runner: RunnerView
    dependents: Dependents
    force: bool
    """Whether it is removed without waiting for its jobs."""
    wrong: str = ""
    """Why the removal was refused."""


@post("/{runner:str}/drain")
async def drain(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, SwitchForm)
    view = await _change(request, runner, RunnerChange(is_draining=form.on))
    said = (
        f"Draining {view.path}: it finishes its jobs and takes no new ones"
        if form.on
        else f"{view.path} takes jobs again"
    )
    return render.done(request, said, address(view.id))


@post("/{runner:str}/disable")
async def disable(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, SwitchForm)
    view = await _change(request, runner, RunnerChange(is_disabled=form.on))
    said = f"{view.path} is disabled and gets no new jobs" if form.on else f"{view.path} is enabled"
    return render.done(request, said, address(view.id))


@post("/{runner:str}/assign")
async def assign(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, AssignForm)
    wanted = AssignTo(form.place.strip().strip("/"), form.kind)
    found = await request.context.db.write(lambda tx: assigning.assign(tx, request.user, runner, wanted))
    place = wanted.place or "the whole organization"
    return render.done(request, f"{found.path} is assigned to {place}", address(found.id))


@get("/{runner:str}/places")
async def places(request: DashboardCall, runner: FromPath[str], place: FromQuery[str] = "") -> Response[Any]:
    """Return the groups and modules whose path contains what was typed, for the form that assigns the runner."""
    who = request.user

    async def read(tx: Tx) -> list[str]:
        found = await service.find(tx, who, runner, Verb.RUNNER_WRITE)
        return await page.offered(tx, who, found, place[:MAX_TYPED_CHARACTERS])

    offered = await request.context.db.read_in_background(read)
    return await render.page(request, "runners/offered.html", "runners/offered.html", offered=offered)


@post("/{runner:str}/unassign")
async def unassign(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, AssignForm)
    wanted = AssignTo(form.place, form.kind)
    found = await request.context.db.write(lambda tx: assigning.withdraw(tx, request.user, runner, wanted))
    return render.done(request, f"The assignment of {found.path} is removed", address(found.id))


@post("/{runner:str}/assign-all")
async def assign_to_all(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, SwitchForm)
    view = await _change(request, runner, RunnerChange(is_assigned_to_all_modules=form.on))
    modules = f"all modules of {view.group or 'the organization'}"
    said = f"{view.path} serves {modules}" if form.on else f"{view.path} no longer serves {modules}"
    return render.done(request, said, address(view.id))


@post("/{runner:str}/service-account")
async def bind(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, BindForm)
    account = form.account.strip() or None
    view = await _change(request, runner, RunnerChange(service_account=account))
    said = f"{account} is bound to {view.path}" if account else f"{view.path} has no service account any more"
    return render.done(request, said, address(view.id))


@post("/{runner:str}/acknowledge")
async def acknowledge(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, AcknowledgeForm)
    seen = Acknowledgement(form.until)
    await request.context.db.write(lambda tx: service.acknowledge_alerts(tx, request.user, runner, seen))
    return render.done(request, "The alerts are acknowledged", address(runner))


@get("/{runner:str}/remove")
async def remove_page(request: DashboardCall, runner: FromPath[str], force: FromQuery[bool] = False) -> Response[Any]:
    """Show what a removal would do. Only the button of the page removes the runner."""
    return await _ask(request, runner, force, "")


@post("/{runner:str}/remove")
async def remove(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, RemoveForm)
    try:
        found = await request.context.db.write(lambda tx: removal.remove(tx, request.user, runner, form.force))
    except Conflict as error:
        return await _ask(request, runner, form.force, error.message)
    if found.is_removed:
        return render.done(request, f"{found.path} is removed", HERE)
    return render.done(request, f"Removing {found.path}: it finishes its jobs first", address(runner))


@get("/{runner:str}/reregister")
async def reregister_page(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    found = await request.context.db.read(lambda tx: _changeable(tx, request, runner))
    return await render.page(request, "runners/reregister_page.html", runner=found, made=None, wrong="")


@post("/{runner:str}/reregister", status_code=200)
async def reregister(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    """Replace the token of a runner. Only this answer contains the new one."""
    wrong, how, url = "", dict[str, Any](made=None), request.context.url
    seconds = request.context.identity.tokens.worker_token_seconds

    async def write(tx: Tx) -> dict[str, Any]:
        made = await service.reregister(tx, request.user, runner, url, seconds, request.context.release_key)
        return start.shown(made, tx.now)

    try:
        how = await request.context.db.write(write)
    except Conflict as error:
        wrong = error.message
    found = await request.context.db.read(lambda tx: _changeable(tx, request, runner))
    return await render.page(request, "runners/reregister_page.html", runner=found, wrong=wrong, **how)


async def _ask(request: DashboardCall, runner: str, force: bool, wrong: str) -> Response[Any]:
    async def read(tx: Tx) -> RemovePage:
        view = await _changeable(tx, request, runner)
        return RemovePage(view, await remaining.dependents(tx, request.user, runner), force, wrong)

    found = await request.context.db.read_in_background(read)
    answer = await render.page(request, "runners/remove_page.html", page=found)
    answer.status_code = Conflict.status if wrong else 200
    return answer


async def _change(request: DashboardCall, runner: str, change: RunnerChange) -> RunnerView:
    return await request.context.db.write(lambda tx: service.change(tx, request.user, runner, change))


async def _changeable(tx: Tx, request: DashboardCall, runner: str) -> RunnerView:
    return await view_reads.view(tx, await service.find(tx, request.user, runner, Verb.RUNNER_WRITE))


handlers = [
    drain,
    disable,
    assign,
    places,
    unassign,
    assign_to_all,
    bind,
    acknowledge,
    remove_page,
    remove,
    reregister_page,
    reregister,
]
