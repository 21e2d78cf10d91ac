"""The question before one runner is updated; or, for a runner that the server cannot update, what to run on its machine."""

from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath

from terracrew.api.runners import RunnerView
from terracrew.errors import Conflict
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.releases import rollout
from terracrew.server.dashboard.runners import page
from terracrew.server.db.seam import Tx
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.releases.model import Release
from terracrew.server.rollouts import planning
from terracrew.server.rollouts import service as rollouts
from terracrew.server.rollouts.model import BreakingChange, RunnerUpdate
from terracrew.server.rollouts.planning import RolloutRules
from terracrew.server.runners import service, view_reads
from terracrew.wording.update_words import ByHand


class UpdateForm(msgspec.Struct, frozen=True):
    version: str = ""
    """The release that the reader was shown."""
    accept_breaking: bool = False


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


async def read(tx: Tx, who: Principal, rules: RolloutRules, reference: str) -> UpdateOnePage:
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
    return await _ask(request, runner, "")


@post("/{runner:str}/update", status_code=200)
async def update(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    form, who, rules = await forms.read(request, UpdateForm), request.user, request.context.rollout_rules
    wanted = RunnerUpdate(version=form.version or None, accept_breaking=form.accept_breaking)
    try:
        job = await request.context.db.write(lambda tx: rollouts.update_runner(tx, who, rules, runner, wanted))
    except Conflict as error:
        return await _ask(request, runner, error.message)
    return render.go(request, f"/dashboard/fleet-jobs/{job.id}")


async def _ask(request: DashboardCall, runner: str, wrong: str) -> Response[Any]:
    who, rules = request.user, request.context.rollout_rules
    found = await request.context.db.read_in_background(lambda tx: read(tx, who, rules, runner))
    answer = await render.page(
        request,
        "runners/update_page.html",
        "runners/update.html",
        page=found,
        wrong=wrong,
        here=page.address(found.runner.id),
    )
    answer.status_code = Conflict.status if wrong else 200
    return answer


handlers = [update_page, update]
