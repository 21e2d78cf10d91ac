"""The modules pages: the list, one module with what stands in the way of its next job, and the question before a destroy."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Annotated, Any, Literal

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery, QueryParameter
from litestar.response import Redirect

from terracrew import plugins
from terracrew.api.drift import ModuleDrift
from terracrew.api.groups import ApprovalRule, Group
from terracrew.api.job_views import AttemptReport, HeldLock, ModuleHold, Placement
from terracrew.api.jobs import Job, JobStatus, NewJob
from terracrew.api.locks import Lock, TakeLock
from terracrew.api.modules import Module
from terracrew.api.states import Resources
from terracrew.errors import Invalid
from terracrew.protocol.spec import JobType, Step
from terracrew.server.dashboard import badges, forms, render, words
from terracrew.server.dashboard.badges import Badge
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.jobs import rows as job_rows
from terracrew.server.dashboard.jobs.rows import JobFilters, JobRow
from terracrew.server.dashboard.modules import contents as module_contents
from terracrew.server.dashboard.modules import states
from terracrew.server.dashboard.modules.states import QuarantineRow
from terracrew.server.dashboard.notifications import page as notifications
from terracrew.server.dashboard.notifications.page import ChannelsPanel
from terracrew.server.dashboard.policies import page as policies
from terracrew.server.dashboard.policies.page import PolicyPanel
from terracrew.server.dashboard.schedules import page as schedules
from terracrew.server.dashboard.schedules.page import SchedulesPanel
from terracrew.server.dashboard.tree import inputs, steps
from terracrew.server.dashboard.tree.inputs import InputsPanel
from terracrew.server.dashboard.tree.steps import StepsPanel
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.drift import service as drift
from terracrew.server.http.request import tree_path
from terracrew.server.jobs import service as jobs
from terracrew.server.jobs.create import JobRequest
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb, Visible
from terracrew.server.principals.model import Principal
from terracrew.server.runs import attempt_report, module_view
from terracrew.server.runs.reasons import Watch
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import locks, resources
from terracrew.server.state import service as state_service
from terracrew.server.tree.groups import reads as level_reads
from terracrew.server.tree.inputs import dependencies
from terracrew.server.tree.inputs import reads as trigger_reads
from terracrew.server.tree.modules import output_references, places, policy, reads, service
from terracrew.server.tree.modules.reads import NO_FILTER, ModuleFilter
from terracrew.wording import approval_words

HERE = "/dashboard/modules"
MAX_RECENT_JOBS = 20
PAGE_ROWS = 50
MAX_HOLDING = 5
"""How many of the modules that a module waits for are named."""
MAX_SEARCH_CHARACTERS = 200
Start = Annotated[int, QueryParameter(ge=0, le=1_000_000)]


class ModuleRow(msgspec.Struct, frozen=True):
    id: str
    organization_id: str
    path: str
    name: str
    group: str
    description: str
    team: str
    engine: str
    state_version: int
    may_run: bool = False
    job_id: str | None = None
    job_number: int | None = None
    job_type: JobType | None = None
    job_status: JobStatus | None = None
    job_at: datetime | None = None
    job_step: Step | None = None
    rules: tuple[ApprovalRule, ...] = ()
    """The approval rules that apply to it."""
    quarantined: int = 0
    is_in_doubt: bool = False
    is_state_replaced: bool = False
    lock_doubt: str = ""
    orphaned_at: datetime | None = None
    """When the attempt that holds the module's lock was lost."""

    @property
    def is_asked(self) -> bool:
        """Return whether a change waits for a person, whatever the approval rules say."""
        return self.is_in_doubt or self.is_state_replaced or bool(self.lock_doubt)

    @property
    def badge(self) -> Badge | None:
        return None if self.job_status is None else badges.job_badge(self.job_status, self.job_step)


class ModulesPage(msgspec.Struct, frozen=True):
    groups: list[tuple[str, list[ModuleRow]]]
    search: str
    filters: ModuleFilter
    count: int
    """How many modules match, counted up to one more than `render.MAX_COUNTED`."""
    after: str = ""
    """The path of the last module of the page before."""
    next: str = ""
    """The path of the last module of this page, if another page follows."""
    may_create: bool = False
    """Whether the reader may create a module in some group."""
    engines: list[str] = []
    runners: list[str] = []
    """What the filters offer."""


class HoldingModule(msgspec.Struct, frozen=True):
    """A module that another one waits for before it is applied by itself."""

    text: str
    """What it waits for: `output vpc_id of module network, which is being changed`."""
    module_id: str = ""
    """Empty if the reader may not see it, or if it is the module itself."""


class BlockedTrigger(msgspec.Struct, frozen=True):
    """Why a module that has to be applied because of a changed output has not been queued."""

    since: datetime | None = None
    """Since when it waits for its turn; None if it does not."""
    holding: list[HoldingModule] = []
    problem: str = ""
    """Why the job could not be queued."""
    problem_at: datetime | None = None
    cause_job_id: str = ""


class ModulePage(msgspec.Struct, frozen=True):
    module: Module
    groups: list[Group]
    """The groups that it is in, the organization first."""
    placement: Placement
    held_lock: HeldLock | None
    lock: Lock | None
    doubts: list[AttemptReport]
    holds: list[ModuleHold]
    quarantine: list[QuarantineRow]
    jobs: list[JobRow]
    inputs: InputsPanel
    steps: StepsPanel
    schedules: SchedulesPanel
    policies: PolicyPanel
    channels: ChannelsPanel
    drift: ModuleDrift
    may_run: bool
    may_change: bool
    may_read_access: bool
    may_read_state: bool
    turn: BlockedTrigger
    rules: tuple[ApprovalRule, ...]
    """The approval rules that apply to it."""
    is_state_replaced: bool
    """Whether a person replaced the state, and no job has written one since."""
    lock_doubt: str
    """How the lock of a person ended, if not in order, and no state was written since."""
    may_unlock: bool
    """Whether the reader may remove the lock of a person by force."""
    may_lock: bool
    """Whether the reader may lock it, which is possible while nobody holds the lock."""

    @property
    def is_asked(self) -> bool:
        """Return whether a change waits for a person, because of an attempt or a lock, since the database was set back, or since
        somebody replaced the state."""
        is_in_doubt = bool(self.doubts) or any(each.is_in_doubt for each in self.holds)
        return is_in_doubt or self.is_state_replaced or bool(self.lock_doubt)


class DestroyPage(msgspec.Struct, frozen=True):
    module: Module
    managed: Resources
    again: Job | None
    """The earlier DESTROY that is to run again."""
    consequence: str
    """Who is asked before something is destroyed, in words."""
    users: list[str]
    """The modules that use its outputs."""


class RunForm(msgspec.Struct, frozen=True):
    type: Literal["PLAN", "APPLY", "DESTROY", "DESTROY_PLAN"]
    is_fresh: bool = False

    @property
    def job(self) -> NewJob:
        if self.type == "DESTROY_PLAN":
            return NewJob(JobType.PLAN, is_destroy_plan=True, is_fresh=self.is_fresh)
        return NewJob(JobType(self.type), is_fresh=self.is_fresh)


async def read_page(
    tx: Tx, who: Principal, search: str, after: str = "", filters: ModuleFilter = NO_FILTER
) -> ModulesPage:
    """Return a page of the modules that match a search and the filters, ordered by group and name."""
    seen = await authorize.visible(tx, who, Verb.TREE_READ)
    within = reads.ModuleScope(who.organization_id or "")
    ids = await reads.search(tx, seen, within, search, after, PAGE_ROWS + 1, filters)
    shown = await read_rows(tx, who, ids[:PAGE_ROWS])
    count = await reads.count(tx, seen, within, search, render.MAX_COUNTED + 1, filters)
    groups = [(group, list(of)) for group, of in groupby(shown, key=lambda row: row.group)]
    following = shown[-1].path if len(ids) > PAGE_ROWS and shown else ""
    may_create = not (await authorize.visible(tx, who, Verb.TREE_WRITE)).is_nothing
    return ModulesPage(
        groups,
        search,
        filters,
        count,
        after,
        following,
        may_create,
        engines=sorted({*plugins.names(plugins.ENGINES), *(row.engine for row in shown)} | ({filters.engine} - {""})),
        runners=await forms.offer_runner_paths(tx, who),
    )


async def read_rows(tx: Tx, who: Principal, ids: Sequence[str]) -> list[ModuleRow]:
    """Return the rows of these modules in their order, each with its newest job and whether the reader may run it."""
    runnable = await authorize.visible(tx, who, Verb.JOB_RUN)
    rows = {row["id"]: row_to(ModuleRow, row) for row in await reads.with_newest_job(tx, ids)}
    rules = await policy.of_modules(tx, ids)
    return [
        msgspec.structs.replace(
            row,
            may_run=runnable.covers(authorize.module(row.organization_id, row.path)),
            rules=rules[row.id].rules,
        )
        for row in (rows[each] for each in ids if each in rows)
    ]


async def read_one(tx: Tx, who: Principal, name: str, watch: Watch, keys: Keyring) -> ModulePage:
    module = await service.find(tx, who, name, Verb.TREE_READ)
    place = authorize.module(module.organization_id, module.path)
    lock = await jobs.lock(tx, module.id)
    is_own = lock is not None and lock.person is not None and lock.person.holder_id == who.id
    return ModulePage(
        module=module,
        groups=(await level_reads.lineage(tx, module.group_id))[::-1],
        placement=await module_view.placement(tx, module.id),
        held_lock=await module_view.held_lock(tx, module.id, module.backend),
        lock=lock,
        doubts=await attempt_report.doubts(tx, module.id),
        holds=await module_view.holds(tx, module.id),
        quarantine=await states.rows(tx, who, module.id, place),
        jobs=(await job_rows.read_page(tx, who, JobFilters(module=module.path), None, watch, MAX_RECENT_JOBS)).rows,
        inputs=await inputs.panel(tx, who, keys, places.of_module(module)),
        steps=await steps.panel(tx, who, places.of_module(module)),
        schedules=await schedules.panel(tx, who, places.of_module(module)),
        policies=await policies.of_module(tx, who, module),
        channels=await notifications.panel(tx, who, places.of_module(module)),
        drift=await drift.of_module(tx, module),
        may_run=await authorize.may(tx, who, Verb.JOB_RUN, place),
        may_change=await authorize.may(tx, who, Verb.TREE_WRITE, place),
        may_read_access=await authorize.may(tx, who, Verb.ACCESS_READ, place),
        may_read_state=await authorize.may(tx, who, Verb.STATE_READ, place),
        turn=await _read_turn(tx, who, module),
        rules=(await policy.of_module(tx, module.id)).rules,
        is_state_replaced=await state_service.is_replaced(tx, module.id),
        lock_doubt=await locks.doubt(tx, module.id),
        may_unlock=is_own or await authorize.may(tx, who, Verb.JOB_CANCEL, place),
        may_lock=lock is None and await authorize.may(tx, who, Verb.STATE_WRITE, place),
    )


async def _read_turn(tx: Tx, who: Principal, module: Module) -> BlockedTrigger:
    since, problem = await trigger_reads.changed_at(tx, module.id), await trigger_reads.problem(tx, module.id)
    holding: list[HoldingModule] = []
    if since is not None:
        seen = await authorize.visible(tx, who, Verb.TREE_READ)
        holding = [_holding(row, seen) for row in await trigger_reads.holding(tx, module.id, MAX_HOLDING)]
    return BlockedTrigger(
        None if since is None else datetime.fromtimestamp(since, UTC),
        holding,
        problem["message"] if problem else "",
        datetime.fromtimestamp(problem["created_at"], UTC) if problem else None,
        problem["cause_job_id"] if problem else "",
    )


def _holding(row: Row, seen: Visible) -> HoldingModule:
    if row["is_itself"]:
        return HoldingModule("a run of its group" if row["is_in_run"] else "another change of this module")
    is_seen = seen.covers(authorize.module(row["organization_id"], row["path"]))
    name = f"module {row['path']}" if is_seen else "a module that you may not see"
    what = f"output {row['output']} of {name}" if row["output"] else name
    if row["has_open_change"]:
        why = "which is being changed"
    elif row["is_in_run"]:
        why = "which has its turn in the run of a group"
    else:
        why = "which waits for its own turn" if row["is_triggered"] else "whose last change did not succeed"
    return HoldingModule(f"{what}, {why}", row["id"] if is_seen else "")


@get("/")
async def list_page(
    request: DashboardCall,
    q: FromQuery[str] = "",
    after: FromQuery[str] = "",
    status: FromQuery[str] = "",
    engine: FromQuery[str] = "",
    runner: FromQuery[str] = "",
    attention: FromQuery[bool] = False,
) -> Response[Any]:
    filters = ModuleFilter(status if status in words.MODULE_FILTERS else "", engine, runner.strip(), attention)
    found = await request.read(read_page, q, after, filters)
    return await render.page(request, "modules/list", page=found)


@get("/{module:str}")
async def module_page(
    request: DashboardCall, module: FromPath[str], q: FromQuery[str] = "", start: Start = 0
) -> Response[Any]:
    found = await request.read(read_one, tree_path(module), request.watch, request.context.keys)
    # The contents refresh themselves, because the state is not read again with every event.
    contents = None
    if not render.is_fragment(request):
        contents = await module_contents.read(request, found.module, q[:MAX_SEARCH_CHARACTERS], start)
    return await render.page(request, "modules/module", page=found, contents=contents)


@get("/{module:str}/contents")
async def contents_part(
    request: DashboardCall,
    module: FromPath[str],
    q: FromQuery[str] = "",
    start: Start = 0,
    known: FromQuery[str] = "",
) -> Response[Any]:
    """Return the lower part of a module's page alone, or 204 if the reader has it already."""
    found = await request.read(service.find, tree_path(module), Verb.TREE_READ)
    if not render.is_fragment(request):
        return Redirect(render.query(f"{HERE}/{found.id}", q=q, start=start), status_code=303)
    contents = await module_contents.read(request, found, q[:MAX_SEARCH_CHARACTERS], start, known)
    if contents is None:
        return Response(b"", status_code=204)
    return await render.template(request, "modules/contents.html", contents=contents)


@post("/{module:str}/run")
async def run(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, RunForm)
    made = await request.context.create_job(JobRequest(request.user, module, form.job))
    return render.go(request, f"/dashboard/jobs/{made.job.id}")


@post("/{module:str}/lock")
async def lock(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    """Lock the module for the reader, so that no job of it starts."""
    await request.write(locks.take, tree_path(module), TakeLock())
    return render.done(request, "The module is locked: no job of it starts", f"{HERE}/{module}")


class UnlockForm(msgspec.Struct, frozen=True):
    id: str
    """The lock that the reader has seen."""


@post("/{module:str}/unlock")
async def unlock(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    """Remove the lock of a person by force."""
    form = await forms.read(request, UnlockForm)
    await request.write(locks.force, tree_path(module), "", form.id)
    return render.done(request, "The module is unlocked", f"{HERE}/{module}")


@post("/{module:str}/references/{reference:str}/end")
async def end_reference(request: DashboardCall, module: FromPath[str], reference: FromPath[str]) -> Response[Any]:
    """End the use of an output of this module by another one."""
    await request.write(output_references.end, tree_path(module), reference)
    return render.done(request, "The other module does not get this output any more", f"{HERE}/{module}#dependencies")


@get("/{module:str}/destroy")
async def destroy_page(
    request: DashboardCall, module: FromPath[str], again: FromQuery[str | None] = None
) -> Response[Any]:
    """Show what a destroy would destroy. Only the page's buttons queue the DESTROY, or a plan of it."""

    async def read(tx: Tx, who: Principal) -> tuple[Module, Job | None, str, list[str]]:
        found = await service.find(tx, who, module, Verb.JOB_RUN)
        earlier = None if again is None else await jobs.find(tx, who, again, Verb.JOB_READ)
        if earlier is not None and (earlier.module_id, earlier.type) != (found.id, JobType.DESTROY):
            raise Invalid(f"job {earlier.number} is not a DESTROY of {found.path}")
        rules = (await policy.of_module(tx, found.id)).rules
        is_asked = earlier is not None and earlier.needs_approval
        is_asked = is_asked or await module_view.is_in_doubt(tx, found.id)
        is_asked = is_asked or await state_service.is_replaced(tx, found.id) or bool(await locks.doubt(tx, found.id))
        consequence = approval_words.before_change(rules, JobType.DESTROY, is_asked=is_asked)
        return found, earlier, consequence, await dependencies.users(tx, who, found.id)

    context, (found, earlier, consequence, users) = request.context, await request.read(read)
    is_kept_here = found.backend == "terracrew"
    managed = await resources.current(context.db, context.objects, context.keys, found.id, is_kept_here=is_kept_here)
    shown = DestroyPage(found, managed, earlier, consequence, users)
    return await render.page(request, "modules/destroy", page=shown)
