"""The pages that ask before a runner is removed or its token replaced, and say what would follow."""

from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from terracrew.errors import Conflict
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.runners import actions, start
from terracrew.server.db.seam import Tx
from terracrew.server.principals.authorize import Verb
from terracrew.server.runners import service, views
from terracrew.server.runners.model import RunnerView
from terracrew.server.runners.removal import remaining
from terracrew.server.runners.removal import service as removal
from terracrew.server.runners.removal.model import Dependents


class RemoveForm(msgspec.Struct, frozen=True):
    force: bool = False


class RemovePage(msgspec.Struct, frozen=True):
    runner: RunnerView
    dependents: Dependents
    force: bool
    """Whether it is removed without waiting for its jobs."""
    wrong: str = ""
    """Why the removal was refused."""


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
        return render.done(request, f"{found.path} is removed", actions.HERE)
    return render.done(request, f"Removing {found.path}: it finishes its jobs first", actions.address(runner))


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


async def _changeable(tx: Tx, request: DashboardCall, runner: str) -> RunnerView:
    return await views.view(tx, await service.find(tx, request.user, runner, Verb.RUNNER_WRITE))


handlers = [remove_page, remove, reregister_page, reregister]
