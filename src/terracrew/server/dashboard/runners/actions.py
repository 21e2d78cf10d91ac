"""The actions on one runner that need no page of their own. Each calls the service that the API calls."""

from datetime import datetime
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from terracrew.server.assignments.model import PlaceKind
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.runners import page
from terracrew.server.db.seam import Tx
from terracrew.server.principals.authorize import Verb
from terracrew.server.runners import alerts, service
from terracrew.server.runners.alerts import Acknowledgement
from terracrew.server.runners.model import AssignTo, RunnerChange, RunnerView
from terracrew.server.tree.modules import assigning

HERE = "/dashboard/runners"
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
    await request.context.db.write(lambda tx: alerts.acknowledge(tx, request.user, runner, seen))
    return render.done(request, "The alerts are acknowledged", address(runner))


async def _change(request: DashboardCall, runner: str, change: RunnerChange) -> RunnerView:
    return await request.context.db.write(lambda tx: service.change(tx, request.user, runner, change))


def address(runner_id: str) -> str:
    """Return the address of the runner's page."""
    return f"{HERE}/{runner_id}"


handlers = [drain, disable, assign, places, unassign, assign_to_all, bind, acknowledge]
