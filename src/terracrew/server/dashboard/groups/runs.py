"""The pages of a run of all modules of a group, and the question before all of them are destroyed."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from terracrew.api.group_runs import GroupRun, GroupRunView, NewGroupRun, RunModuleView
from terracrew.api.jobs import JobStatus
from terracrew.errors import Conflict, Invalid
from terracrew.server.dashboard import badges, forms, render, words
from terracrew.server.dashboard.badges import Badge
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.groups import page
from terracrew.server.dashboard.groups.page import HERE, GroupHead
from terracrew.server.db.seam import Tx
from terracrew.server.group_runs import service
from terracrew.server.group_runs.model import RunModule
from terracrew.server.http import request as requests
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runs.reasons import Watch
from terracrew.server.tree.groups import service as groups
from terracrew.wording import plan_words

MAX_OTHER_RUNS = 20
MAX_MODULES_NAMED = 50
"""The question before a destroy names this many modules and counts the others."""


class RunRow(msgspec.Struct, frozen=True):
    module: RunModuleView
    held_up: list[str]
    """The paths of the modules that are not run because this one did not succeed."""

    @property
    def badge(self) -> Badge:
        return badges.run_module_badge(self.module.status, self.module.job_status, self.module.reason)

    @property
    def plan_counts(self) -> str:
        """Return what the plan of its job would do, in words."""
        return plan_words.counts(self.module.plan)

    @property
    def is_destructive(self) -> bool:
        return plan_words.destroy_count(self.module.plan) > 0

    @property
    def standing(self) -> str:
        """Return the status of the module, or NEEDS_A_PERSON or WAITING if that is the condition of its job."""
        if self.module.status != "RUNNING":
            return self.module.status
        if self.module.reason is not None and words.needs_a_person(self.module.reason):
            return "NEEDS_A_PERSON"
        return "WAITING" if self.module.job_status == JobStatus.QUEUED else "RUNNING"


class RunPage(msgspec.Struct, frozen=True):
    head: GroupHead
    run: GroupRun
    rows: list[RunRow]
    """The modules in the order of the run."""
    others: list[GroupRun]
    """Other runs of the group, the newest first."""

    @property
    def is_newest(self) -> bool:
        return all(each.id < self.run.id for each in self.others)

    @property
    def applicable(self) -> int:
        """Return how many plans of the run can be applied."""
        return sum(row.module.is_plan_applicable for row in self.rows)

    @property
    def destroys(self) -> int:
        """Return how many resources these plans destroy or replace."""
        plans = [row.module.plan for row in self.rows if row.module.is_plan_applicable and row.module.plan]
        return sum(plan.destroy + plan.replace for plan in plans)

    def count(self, standing: str) -> int:
        """Return how many modules are in this condition."""
        return sum(row.standing == standing for row in self.rows)


class RunAllForm(msgspec.Struct, frozen=True):
    type: Literal["PLAN", "APPLY"] = "APPLY"


class GroupDestroyPage(msgspec.Struct, frozen=True):
    head: GroupHead
    left: list[RunModule]
    """The modules that are destroyed, in this order."""
    empty: int
    """How many others have nothing to destroy."""
    resumed: GroupRun | None
    """The run that is to be resumed."""
    shown: int = MAX_MODULES_NAMED


class DestroyForm(msgspec.Struct, frozen=True):
    """What was typed to confirm, the id of the group that the page named, and the run to resume."""

    typed: str = ""
    group: str = ""
    resume: str = ""


def held_up(modules: Sequence[RunModuleView]) -> dict[str, list[str]]:
    """Return for each module that did not succeed the modules that are not run because of it, directly or not."""
    found: dict[str, list[str]] = {}
    for cause in modules:
        if cause.status not in ("FAILED", "CANCELED"):
            continue
        reached = {cause.path}
        for each in sorted(modules, key=lambda each: each.position):
            if each.status in ("SKIPPED", "WAITING") and reached.intersection(each.waits_for):
                reached.add(each.path)
        found[cause.path] = [each.path for each in modules if each.path in reached - {cause.path}]
    return found


async def read(tx: Tx, who: Principal, reference: str, run_id: str, watch: Watch) -> RunPage:
    run = await service.find(tx, who, reference, run_id)
    head = await page.read_head(tx, who, run.group_id)
    view: GroupRunView = await service.view(tx, run, watch)
    behind = held_up(view.modules)
    recent = (await service.listing(tx, who, run.group_id, None, MAX_OTHER_RUNS)).items
    rows = [RunRow(each, behind.get(each.path, [])) for each in view.modules]
    return RunPage(head, run, rows, [each for each in recent if each.id != run.id])


@get("/{group:str}/runs/{run:str}")
async def run_page(request: DashboardCall, group: FromPath[str], run: FromPath[str]) -> Response[Any]:
    found = await request.read(read, requests.tree_path(group), run, request.watch)
    return await render.page(request, "groups/whole_run", page=found)


@post("/{group:str}/apply")
async def apply_all(request: DashboardCall, group: FromPath[str]) -> Response[Any]:
    """Start an apply or a plan of all modules in a group and below it."""
    form = await forms.read(request, RunAllForm)
    made = await request.write(service.begin, requests.tree_path(group), NewGroupRun(form.type))
    return render.go(request, _address(made))


@post("/{group:str}/runs/{run:str}/apply")
async def apply_planned(request: DashboardCall, group: FromPath[str], run: FromPath[str]) -> Response[Any]:
    """Apply the plans of a run that can be applied, as the page showed them."""
    who, reference, context = request.user, requests.tree_path(group), request.context
    found = await service.apply_plans(context.db, context.apply_plan, who, reference, run)
    made = sum(each.job_id is not None for each in found.items)
    left_out = f", {len(found.items) - made:,} left out" if made < len(found.items) else ""
    return render.done(request, f"{words.counted(made, 'job')} queued{left_out}", f"{HERE}/{group}/runs/{run}")


@get("/{group:str}/destroy")
async def destroy_page(request: DashboardCall, group: FromPath[str], resume: FromQuery[str] = "") -> Response[Any]:
    return await _destroy_answer(request, group, resume)


@post("/{group:str}/destroy", status_code=200)
async def destroy_all(request: DashboardCall, group: FromPath[str]) -> Response[Any]:
    """Destroy all modules in a group and below it, if what was typed is the name of the group that the page showed."""
    form = await forms.read(request, DestroyForm)

    async def work(tx: Tx, who: Principal, reference: str) -> GroupRun:
        head = await page.read_head(tx, who, reference)
        await authorize.require(tx, who, Verb.JOB_RUN, groups.place(head.group), groups.unseen(reference))
        # A path names another group after the reader has changed to another organization; the id does not.
        if form.group != head.group.id:
            raise Conflict(f"this page was about another group than {head.title} of {head.organization}: open it again")
        if form.typed.strip() != head.title:
            raise Invalid(f"type `{head.title}` exactly: nothing was destroyed")
        if not form.resume:
            return await service.begin(tx, who, head.group.id, NewGroupRun("DESTROY"))
        await _resumable(tx, who, head, form.resume)
        return await service.resume(tx, who, head.group.id, form.resume)

    try:
        made = await request.write(work, requests.tree_path(group))
    except Invalid as error:
        return await _destroy_answer(request, group, form.resume, error.message)
    return render.go(request, _address(made))


@post("/{group:str}/runs/{run:str}/stop")
async def stop(request: DashboardCall, group: FromPath[str], run: FromPath[str]) -> Response[Any]:
    made = await request.write(service.stop, requests.tree_path(group), run)
    return render.done(request, "The run is stopped", _address(made))


@post("/{group:str}/runs/{run:str}/resume")
async def resume(request: DashboardCall, group: FromPath[str], run: FromPath[str]) -> Response[Any]:
    """Resume an apply. To resume a destroy, the page with the question has to be answered again."""

    async def work(tx: Tx, who: Principal, reference: str) -> GroupRun:
        found = await service.find(tx, who, reference, run)
        place = authorize.group(found.organization_id, found.path)
        await authorize.require(tx, who, Verb.JOB_RUN, place, groups.unseen(reference))
        if found.type == "DESTROY":
            raise Conflict("this run destroys: resume it on the page that asks for the name of the group")
        return await service.resume(tx, who, reference, run)

    return render.go(request, _address(await request.write(work, requests.tree_path(group))))


async def _destroy_answer(request: DashboardCall, group: str, resume: str, wrong: str = "") -> Response[Any]:

    async def find(tx: Tx, who: Principal, reference: str) -> GroupDestroyPage:
        found, modules = await service.preview(tx, who, reference, "DESTROY")
        head = await page.read_head(tx, who, found.id)
        run = await _resumable(tx, who, head, resume) if resume else None
        left = [each for each in modules if each.status != "SUCCEEDED"]
        if run is not None:
            done = await service.succeeded(tx, run)
            left = [each for each in left if each.module_id not in done]
        return GroupDestroyPage(head, left, len(modules) - len(left), run)

    shown = await request.read(find, requests.tree_path(group))
    return await render.page(request, "groups/destroy", page=shown, wrong=wrong)


async def _resumable(tx: Tx, who: Principal, head: GroupHead, run_id: str) -> GroupRun:
    found = await service.find(tx, who, head.group.id, run_id)
    if found.type != "DESTROY":
        raise Conflict(f"this run of {head.title} does not destroy: resume it on its own page")
    return found


def _address(run: GroupRun) -> str:
    return f"{HERE}/{run.group_id}/runs/{run.id}"
