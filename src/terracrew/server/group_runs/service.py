"""Starts, resumes, stops and shows the runs of groups, applies the plans that they made, and checks that the caller may do so."""

from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import asdict, replace

from terracrew import ids
from terracrew.api import fields
from terracrew.api.group_runs import (
    AppliedPlan,
    AppliedPlans,
    GroupRun,
    GroupRunView,
    NewGroupRun,
    RunModuleView,
    RunType,
)
from terracrew.api.groups import Group
from terracrew.api.jobs import ApplyPlan, JobStatus
from terracrew.api.modules import Module
from terracrew.api.pages import Page
from terracrew.errors import Conflict, NotFound, TerracrewError, TooLarge
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.group_runs import model, store
from terracrew.server.group_runs.model import RunModule
from terracrew.server.jobs import decide
from terracrew.server.jobs import store as jobs
from terracrew.server.jobs.apply_plan import Apply
from terracrew.server.paging import page, start
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runs import plan_offers, reasons
from terracrew.server.tree.groups import service as groups
from terracrew.server.tree.groups import tree_path
from terracrew.server.tree.inputs import dependency_reads
from terracrew.server.tree.modules import moving
from terracrew.server.tree.modules import reads as modules
from terracrew.server.tree.modules import service as module_service
from terracrew.wording import plan_words

MAX_MODULES = 1_000
"""The most modules that a run can have."""
MAX_KEPT_RUNS = 20
"""How many ended runs of a group are kept."""
_STOPPED = "the run was stopped before its turn came"


async def begin(tx: Tx, who: Principal, reference: str, new: NewGroupRun) -> GroupRun:
    """Start a run of all modules in a group and below it."""
    group = await _hold(tx, who, reference)
    now = tx.moment
    run = GroupRun(
        ids.new("grn"), group.organization_id, group.id, group.path, new.type, "RUNNING", who.id, who.name, now
    )
    found = await _modules(tx, group, run.id, new.type, done=())
    await store.prune(tx, group.id, MAX_KEPT_RUNS)
    await store.insert(tx, run, found)
    await _record(tx, who, run, "group.run")
    return run


async def resume(tx: Tx, who: Principal, reference: str, run_id: str) -> GroupRun:
    """Run again what did not succeed in a run that has ended, in the order of the dependencies of this moment."""
    group = await _hold(tx, who, reference)
    before = await _held(tx, group, run_id)
    if before.status in ("RUNNING", "SUCCEEDED"):
        raise Conflict(f"this run is {before.status}: only one that has failed or was stopped can be resumed")
    done = {each.module_id: each for each in await store.modules(tx, run_id) if each.status == "SUCCEEDED"}
    found = await _modules(tx, group, run_id, before.type, done=done)
    found = [done.get(each.module_id) or each for each in found]
    await store.delete_modules(tx, run_id)
    await store.insert_modules(tx, found)
    after = replace(before, status="RUNNING", finished_at=None, started_by=who.id, started_by_name=who.name)
    await store.save(tx, before, after)
    await _record(tx, who, after, "group.resume_run")
    return after


async def stop(tx: Tx, who: Principal, reference: str, run_id: str) -> GroupRun:
    """Queue no more jobs of a run. Those of its jobs that have not started, or wait for approval, are canceled; the others end."""
    group = await groups.find(tx, who, reference)
    await authorize.require(tx, who, Verb.JOB_CANCEL, groups.place(group), groups.unseen(reference))
    run = await _held(tx, group, run_id)
    if run.status != "RUNNING":
        raise Conflict(f"this run has ended already: it is {run.status}")
    found = await store.modules(tx, run_id)
    left = [replace(each, status="CANCELED", message=_STOPPED) if each.status == "WAITING" else each for each in found]
    await store.save_modules(tx, [each for each in left if each.status == "CANCELED"])
    for job_id in sorted(each.job_id for each in found if each.status == "RUNNING" and each.job_id):
        job = await jobs.hold_job(tx, job_id)
        if job.status in (JobStatus.QUEUED, JobStatus.AWAITING_APPROVAL):
            await jobs.save_transition(tx, job, decide.cancel(job, "interrupt", tx.moment, who.name))
            details = {"job": job.number, "mode": "interrupt", "many": True}
            await audit.record(tx, who, "job.cancel", "job", job.id, details, organization_id=job.organization_id)
    status = model.next_step(left).status
    after = run if status == "RUNNING" else replace(run, status=status, finished_at=tx.moment)
    await store.save(tx, run, after)
    await _record(tx, who, after, "group.stop_run")
    return after


async def preview(tx: Tx, who: Principal, reference: str, type_: RunType) -> tuple[Group, list[RunModule]]:
    """Return a group whose modules the caller may run, and these modules in the order of a run."""
    group = await groups.find(tx, who, reference)
    await authorize.require(tx, who, Verb.JOB_RUN, groups.place(group), groups.unseen(reference))
    found = await _modules(tx, group, "", type_, done=())
    return group, sorted(found, key=lambda each: (each.position, each.path))


async def find(tx: Tx, who: Principal, reference: str, run_id: str) -> GroupRun:
    """Find a run of a group that the caller may see."""
    group = await groups.show(tx, who, reference)
    found = await store.get(tx, ids.parse("grn", run_id))
    if found is None or found.group_id != group.id:
        raise _unknown(group, run_id)
    return found


async def listing(tx: Tx, who: Principal, reference: str, after: str | None, limit: int) -> Page[GroupRun]:
    """Return the runs of a group, the newest first."""
    group = await groups.show(tx, who, reference)
    return page(await store.page(tx, group.id, start(after), limit + 1), limit)


async def known(tx: Tx, run_id: str) -> GroupRun | None:
    """Return a run that a job names; None if it is no longer kept. The caller decides who may see it."""
    return await store.get(tx, run_id)


async def succeeded(tx: Tx, run: GroupRun) -> set[str]:
    """Return the ids of the modules that have succeeded in a run that the caller has found."""
    return {each.module_id for each in await store.modules(tx, run.id) if each.status == "SUCCEEDED"}


async def newest(tx: Tx, group: Group) -> tuple[GroupRun, list[RunModule]] | None:
    """Return the newest run of a group that the caller has found, with its modules in their order."""
    found = await store.page(tx, group.id, "", 1)
    return (found[0], await store.modules(tx, found[0].id)) if found else None


async def job_statuses(tx: Tx, modules: Iterable[RunModule]) -> dict[str, JobStatus]:
    """Return the statuses of the jobs of these modules of a run, by the ids of the jobs."""
    found = await jobs.get_many(tx, sorted(each.job_id for each in modules if each.job_id))
    return {job.id: job.status for job in found}


async def view(tx: Tx, run: GroupRun, watch: reasons.Watch) -> GroupRunView:
    """Return a run with its modules, their jobs, and why these do not proceed."""
    found = await store.modules(tx, run.id)
    paths = {each.module_id: each.path for each in found}
    known = {job.id: job for job in await jobs.get_many(tx, sorted(each.job_id for each in found if each.job_id))}
    open_jobs = [job for job in known.values() if not job.is_terminal]
    why = await reasons.why_each(tx, open_jobs, watch) if open_jobs else {}
    problems = await plan_offers.problems(tx, known.values())
    shown: list[RunModuleView] = []
    for each in found:
        job = known.get(each.job_id or "")
        shown.append(
            fields.created(
                RunModuleView,
                each,
                waits_for=[paths[other] for other in each.waits_for if other in paths],
                job_number=job.number if job else None,
                job_status=job.status if job else None,
                reason=why.get(job.id) if job else None,
                plan=replace(job.plan, resources=[], outputs={}) if job and job.plan else None,
                has_changes=job is not None and plan_words.has_changes(job.plan),
                is_plan_applicable=job is not None and problems.get(job.id) == "",
                plan_problem=problems.get(job.id, "") if job else "",
            )
        )
    return GroupRunView(**asdict(run), modules=shown)


async def _hold(tx: Tx, who: Principal, reference: str) -> Group:
    """Find a group whose modules the caller may run, and refuse it while another run concerns some of them.

    Runs of an organization are started one after the other: each holds the row of the root group until it is committed.
    """
    group = await groups.find(tx, who, reference)
    await authorize.require(tx, who, Verb.JOB_RUN, groups.place(group), groups.unseen(reference))
    await groups.hold_organization(tx, group.organization_id)
    for other in await store.running(tx, group.organization_id):
        if tree_path.is_within(other.path, group.path) or tree_path.is_within(group.path, other.path):
            where = f"`{other.path}`" if other.path else "the organization"
            raise Conflict(
                f"{other.started_by_name} has started a run ({other.type}) of {where}, which has not ended: "
                f"wait for it, or stop it (terracrew group stop {other.path or '/'})",
                run_id=other.id,
            )
    return group


async def _held(tx: Tx, group: Group, run_id: str) -> GroupRun:
    run = await store.hold(tx, ids.parse("grn", run_id))
    if run is None or run.group_id != group.id:
        raise _unknown(group, run_id)
    return run


async def _modules(tx: Tx, group: Group, run_id: str, type_: RunType, done: Collection[str]) -> list[RunModule]:
    """Return the modules of a run in the order of their dependencies. What is done, or has nothing to destroy, counts as such."""
    rows = await modules.below(tx, group.id, MAX_MODULES + 1)
    where = f"group `{group.path}`" if group.path else "the organization"
    if not rows:
        raise Conflict(f"{where} has no modules")
    if len(rows) > MAX_MODULES:
        raise TooLarge(f"{where} has more than {MAX_MODULES:,} modules: run the groups below it one by one")
    members = [row["id"] for row in rows]
    before = model.waits(type_, members, await dependency_reads.references(tx, members))
    positions = model.positions(before)
    if type_ == "PLAN":  # a plan changes no output, so that none has to wait for another one
        return await _plannable(
            tx, [RunModule(run_id, row["id"], row["path"], positions[row["id"]], []) for row in rows]
        )
    found = [RunModule(run_id, row["id"], row["path"], positions[row["id"]], before[row["id"]]) for row in rows]
    if type_ == "APPLY":
        return found
    empty = {row["id"] for row in rows if not row["has_content"] and row["id"] not in done}
    return [
        replace(each, status="SUCCEEDED", message="there is nothing to destroy") if each.module_id in empty else each
        for each in found
    ]


async def _plannable(tx: Tx, modules: Sequence[RunModule]) -> list[RunModule]:
    """Leave out the modules that cannot be planned yet, because they use an output that does not exist: their jobs would wait."""
    missing = await dependency_reads.missing_outputs(tx, [each.module_id for each in modules])
    found: list[RunModule] = []
    for each in modules:
        if source := missing.get(each.module_id):
            message = f"it uses an output of `{source}` that does not exist yet: apply `{source}` first"
            each = replace(each, status="SKIPPED", message=message)
        found.append(each)
    return found


def _unknown(group: Group, run_id: str) -> NotFound:
    where = f"group `{group.path}`" if group.path else "the organization"
    return NotFound(f"{where} has no run {run_id[:100]}: `terracrew group runs {group.path or '/'}` lists them")


async def _record(tx: Tx, who: Principal, run: GroupRun, action: str) -> None:
    details = {"path": run.path, "type": run.type, "run": run.id}
    await audit.record(tx, who, action, "group", run.group_id, details, organization_id=run.organization_id)
    tx.wake("group_runs", run.group_id)
    tx.wake("tree", run.group_id)  # the page of the group shows the run


async def move_module(tx: Tx, who: Principal, reference: str, to: str) -> Module:
    """Give a module another path. Runs are started under the same lock, so none begins with the module in its old group."""
    module = await module_service.find(tx, who, reference, Verb.TREE_WRITE)
    await groups.hold_organization(tx, module.organization_id)
    if await store.is_open_for(tx, module.id):
        raise Conflict(
            f"module `{module.path}` is part of a run of its group: stop the run first, or wait, and move it then"
        )
    return await moving.move(tx, who, module.id, to)


async def apply_plans(db: Database, apply: Apply, who: Principal, reference: str, run_id: str) -> AppliedPlans:
    """Apply all plans of a PLAN run that can still be applied, those of modules whose outputs others use first.

    Each is applied as it was made, or its job asks again: no order of the jobs applies something that nobody has seen.
    """

    async def read(tx: Tx) -> list[tuple[RunModule, str]]:
        run = await _run(tx, who, reference, run_id)
        modules = {each.job_id: each for each in await store.modules(tx, run.id) if each.job_id is not None}
        problems = await plan_offers.problems(tx, await jobs.get_many(tx, sorted(modules)))
        found = [(modules[job_id], why) for job_id, why in problems.items()]
        return sorted(found, key=lambda each: (each[0].position, each[0].path))

    items = [
        AppliedPlan(module.path, problem=why) if why else await _applied(apply, who, module)
        for module, why in await db.read(read)
    ]
    if not items:
        raise Conflict("no plan of this run would change anything, so there is nothing to apply")
    return AppliedPlans(items)


async def _applied(apply: Apply, who: Principal, module: RunModule) -> AppliedPlan:
    try:
        made = await apply(who, module.job_id or "", ApplyPlan())
    except TerracrewError as error:
        return AppliedPlan(module.path, problem=error.message)
    return AppliedPlan(module.path, made.job.id, made.job.number)


async def _run(tx: Tx, who: Principal, reference: str, run_id: str) -> GroupRun:
    run = await find(tx, who, reference, run_id)
    place = authorize.group(run.organization_id, run.path)
    await authorize.require(tx, who, Verb.JOB_RUN, place, groups.unseen(reference))
    if run.type != "PLAN":
        raise Conflict(f"this run is {run.type}: only the plans of a PLAN are applied later")
    return run
