"""The actions on one runner, and the pages that ask before it is removed or updated, or its token replaced."""

from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from terracrew.api.rollouts import BreakingChange, RunnerUpdate
from terracrew.api.runners import Acknowledgement, AssignTo, Dependents, RunnerChange, RunnerView
from terracrew.errors import Conflict
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.releases import rollout
from terracrew.server.dashboard.runners import edit, page
from terracrew.server.dashboard.runners.page import HERE, address
from terracrew.server.db.seam import Tx
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.releases.model import Release
from terracrew.server.rollouts import planning
from terracrew.server.rollouts import service as rollouts
from terracrew.server.rollouts.planning import RolloutRules
from terracrew.server.runners import service, view_reads
from terracrew.server.runners.removal import remaining
from terracrew.server.runners.removal import service as removal
from terracrew.server.tree.modules import assigning
from terracrew.wording.update_words import ByHand

MAX_TYPED_CHARACTERS = 200
"""How much of what was typed is searched for."""


class BindForm(msgspec.Struct, frozen=True):
    account: str = ""
    """The id or the path of a service account; empty to unbind it."""


class RemovePage(msgspec.Struct, frozen=True):
    runner: RunnerView
    dependents: Dependents
    force: bool
    """Whether it is removed without waiting for its jobs."""
    wrong: str = ""
    """Why the removal was refused."""


class UpdateOnePage(msgspec.Struct, frozen=True):
    runner: RunnerView
    release: Release | None
    """The latest release."""
    by_hand: ByHand | None
    """Why the server cannot update the runner; None if it can."""
    breaking: list[BreakingChange]

    @property
    def can_update(self) -> bool:
        return self.runner.is_outdated and self.by_hand is None


@post("/{runner:str}/drain")
async def drain(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, forms.SwitchForm)
    view = await _change(request, runner, RunnerChange(is_draining=form.on))
    said = (
        f"Draining {view.path}: it finishes its jobs and takes no new ones"
        if form.on
        else f"{view.path} takes jobs again"
    )
    return render.done(request, said, address(view.id))


@post("/{runner:str}/disable")
async def disable(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, forms.SwitchForm)
    view = await _change(request, runner, RunnerChange(is_disabled=form.on))
    said = f"{view.path} is disabled and gets no new jobs" if form.on else f"{view.path} is enabled"
    return render.done(request, said, address(view.id))


@post("/{runner:str}/assign")
async def assign(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, AssignTo, strip=True)
    wanted = msgspec.structs.replace(form, place=form.place.strip("/"))
    found = await request.write(assigning.assign, runner, wanted)
    place = wanted.place or "the whole organization"
    return render.done(request, f"{found.path} is assigned to {place}", address(found.id))


@get("/{runner:str}/places")
async def places(request: DashboardCall, runner: FromPath[str], place: FromQuery[str] = "") -> Response[Any]:
    """Return the groups and modules whose path contains what was typed, for the form that assigns the runner."""

    async def read(tx: Tx, who: Principal) -> list[str]:
        found = await service.find(tx, who, runner, Verb.RUNNER_WRITE)
        return await page.offered(tx, who, found, place[:MAX_TYPED_CHARACTERS])

    offered = await request.read(read)
    return await render.template(request, "runners/offered.html", offered=offered)


@post("/{runner:str}/unassign")
async def unassign(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    found = await request.write(assigning.withdraw, runner, await forms.read(request, AssignTo))
    return render.done(request, f"The assignment of {found.path} is removed", address(found.id))


@post("/{runner:str}/assign-all")
async def assign_to_all(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, forms.SwitchForm)
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
    seen = await forms.read(request, Acknowledgement)
    await request.write(service.acknowledge_alerts, runner, seen)
    return render.done(request, "The alerts are acknowledged", address(runner))


@get("/{runner:str}/remove")
async def remove_page(request: DashboardCall, runner: FromPath[str], force: FromQuery[bool] = False) -> Response[Any]:
    """Show what a removal would do. Only the button of the page removes the runner."""
    return await _ask(request, runner, force, "")


@post("/{runner:str}/remove")
async def remove(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, forms.ForceForm)
    try:
        found = await request.write(removal.remove, runner, form.force)
    except Conflict as error:
        return await _ask(request, runner, form.force, error.message)
    if found.is_removed:
        return render.done(request, f"{found.path} is removed", HERE)
    return render.done(request, f"Removing {found.path}: it finishes its jobs first", address(runner))


@get("/{runner:str}/reregister")
async def reregister_page(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    found = await request.read(service.show, runner, Verb.RUNNER_WRITE)
    return await render.template(request, "runners/reregister_page.html", runner=found, made=None, wrong="")


@post("/{runner:str}/reregister", status_code=200)
async def reregister(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    """Replace the token of a runner. Only this answer contains the new one."""
    wrong, how, context = "", dict[str, Any](made=None), request.context
    seconds = context.identity.tokens.worker_token_seconds

    async def write(tx: Tx, who: Principal) -> dict[str, Any]:
        made = await service.reregister(tx, who, runner, context.url, seconds, context.release_key)
        return edit.shown(made, tx.now)

    try:
        how = await request.write(write)
    except Conflict as error:
        wrong = error.message
    found = await request.read(service.show, runner, Verb.RUNNER_WRITE)
    return await render.template(request, "runners/reregister_page.html", runner=found, wrong=wrong, **how)


async def _ask(request: DashboardCall, runner: str, force: bool, wrong: str) -> Response[Any]:
    async def read(tx: Tx, who: Principal) -> RemovePage:
        view = await service.show(tx, who, runner, Verb.RUNNER_WRITE)
        return RemovePage(view, await remaining.dependents(tx, who, runner), force, wrong)

    status, found = Conflict.status if wrong else 200, await request.read(read)
    return await render.template(request, "runners/remove_page.html", status, page=found)


async def _change(request: DashboardCall, runner: str, change: RunnerChange) -> RunnerView:
    return await request.write(service.change, runner, change)


async def _read_update(tx: Tx, who: Principal, rules: RolloutRules, reference: str) -> UpdateOnePage:
    record = await service.find(tx, who, reference, Verb.RUNNER_WRITE)
    runner = await view_reads.view(tx, record)
    release = await planning.latest(tx, rules)
    if release is None or not runner.is_outdated:
        return UpdateOnePage(runner, release, None, [])
    by_hand = await rollout.by_hand(tx, rules, record)
    passed = await planning.breaking(tx, [runner.version or ""], release)
    return UpdateOnePage(runner, release, by_hand, passed)


@get("/{runner:str}/update")
async def update_page(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    return await _ask_update(request, runner, "")


@post("/{runner:str}/update", status_code=200)
async def update(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    wanted, rules = await forms.read(request, RunnerUpdate), request.context.rollout_rules
    try:
        job = await request.write(rollouts.update_runner, rules, runner, wanted)
    except Conflict as error:
        return await _ask_update(request, runner, error.message)
    return render.go(request, f"/dashboard/fleet-jobs/{job.id}")


async def _ask_update(request: DashboardCall, runner: str, wrong: str) -> Response[Any]:
    found = await request.read(_read_update, request.context.rollout_rules, runner)
    status, here = Conflict.status if wrong else 200, address(found.runner.id)
    return await render.page(request, "runners/update", status=status, page=found, wrong=wrong, here=here)
