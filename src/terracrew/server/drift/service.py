"""Asks for checks, records what they have found, mutes addresses, and shows drift; checks that the caller may do so."""

from collections.abc import Sequence
from datetime import timedelta

from msgspec.structs import replace

from terracrew import ids
from terracrew.api import fields
from terracrew.api.drift import (
    AskDriftCheck,
    AskedDriftCheck,
    DriftFilter,
    DriftItemView,
    DriftMute,
    DriftResult,
    ModuleDrift,
    ModuleDriftView,
    NewMute,
)
from terracrew.api.jobs import Job, NewJob
from terracrew.api.modules import Module
from terracrew.api.pages import Page
from terracrew.errors import Conflict, Invalid, NotFound
from terracrew.protocol.spec import JobType
from terracrew.server import paging
from terracrew.server.announcements.service import announce
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.drift import model, news, reads, store
from terracrew.server.drift.model import DriftModule, Findings
from terracrew.server.jobs.create import Create, JobRequest
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import SYSTEM, Principal
from terracrew.server.tree.inputs.model import InputPlace
from terracrew.server.tree.modules import places
from terracrew.server.tree.modules import reads as module_reads
from terracrew.server.tree.modules import service as modules

MAX_MODULES = 1_000
"""The most modules that are checked by one request or schedule."""
MAX_KEPT_RESULTS = 20
"""How many results of each module are kept."""
GIVE_UP_SECONDS = 24 * 3600.0
"""A check that could not begin for so long after it was due is given up."""
MAX_MUTES = 1_000
"""For each module."""
MAX_MUTE_DAYS = 366


async def ask(tx: Tx, who: Principal, asked: AskDriftCheck) -> AskedDriftCheck:
    """Have a module, or all modules of a group, checked as soon as that is possible."""
    at = await places.find(tx, who, asked.place)
    await authorize.require(tx, who, Verb.JOB_RUN, authorize_place(at))
    count = await ask_for(tx, who, at, is_refresh_only=asked.is_refresh_only)
    details = {"path": at.path, "modules": count, "is_refresh_only": asked.is_refresh_only}
    await audit.record(tx, who, "drift.check", at.noun, at.id, details, organization_id=at.organization_id)
    return AskedDriftCheck(count)


async def ask_for(
    tx: Tx,
    who: Principal,
    at: InputPlace,
    *,
    is_refresh_only: bool,
    window_seconds: float = 0.0,
    schedule: tuple[str, str] | None = None,
) -> int:
    """Have the modules of a place checked, each at its own time within the window. Returns how many there are.

    The caller has checked that `who` may run jobs there. `schedule` has the id and the name of the schedule that asks.
    """
    if at.kind == "module":
        module_ids = [at.id]
    else:
        rows = await module_reads.below(tx, at.id, MAX_MODULES + 1)
        if len(rows) > MAX_MODULES:
            raise Conflict(
                f"{at.words} has more than {MAX_MODULES:,} modules: check the groups below it one by one, or give each its schedule"
            )
        module_ids = [row["id"] for row in rows if row["has_content"]]
        if not module_ids:
            raise Conflict(f"{at.words} has no module in which anything exists, so there is nothing to check")
    schedule_id, schedule_name = schedule or (None, "")
    wanted: list[DriftModule] = []
    for module_id in module_ids:
        due_at = tx.moment + timedelta(seconds=model.delay_seconds(module_id, window_seconds))
        wanted.append(
            DriftModule(
                module_id=module_id,
                organization_id=at.organization_id,
                due_at=due_at,
                give_up_at=due_at + timedelta(seconds=GIVE_UP_SECONDS),
                asked_by=who.id,
                asked_by_name=who.name,
                schedule_id=schedule_id,
                schedule_name=schedule_name,
                is_refresh_only=is_refresh_only,
            )
        )
    await store.ask(tx, wanted)
    tx.wake("drift", "" if len(module_ids) > 1 else module_ids[0])
    return len(wanted)


async def reconcile(db: Database, create: Create, who: Principal, reference: str) -> Job:
    """Apply a module, with all of its approvals, and have it checked again after that."""
    module = await db.read(lambda tx: modules.find(tx, who, reference, Verb.JOB_RUN))
    job = (await create(JobRequest(who, module.id, NewJob(JobType.APPLY)))).job
    await db.write(lambda tx: _check_after(tx, who, module, job))
    return job


async def _check_after(tx: Tx, who: Principal, module: Module, job: Job) -> None:
    known = await store.get(tx, module.id)
    is_refresh_only = True if known is None else known.is_refresh_only
    due = DriftModule(
        module_id=module.id,
        organization_id=module.organization_id,
        due_at=tx.moment,
        give_up_at=tx.moment + timedelta(seconds=job.approval_seconds + GIVE_UP_SECONDS),
        asked_by=who.id,
        asked_by_name=who.name,
        is_refresh_only=is_refresh_only and module.engine != "pulumi",
        after_job_id=job.id,
    )
    await store.ask(tx, [due])
    tx.wake("drift", module.id)


async def record(tx: Tx, module_id: str, job: Job | None, found: Findings | None, problem: str) -> DriftResult | None:
    """Record how the check of a module has ended. Returns None if another server has recorded it already."""
    before = await store.hold(tx, module_id)
    if before is None or before.job_id is None or (job is not None and before.job_id != job.id):
        return None
    now, job_id = tx.moment, before.job_id
    known = await store.items(tx, module_id)
    muted = {each.address for each in await store.mutes(tx, module_id) if each.until > now}
    after = before.without_check()
    if found is None:
        after = replace(after, problem=problem, problem_at=now)
        result = DriftResult(
            job_id=job_id,
            module_id=module_id,
            checked_at=now,
            is_refresh_only=before.is_refresh_only,
            problem=problem,
            drifted=len(known),
            muted=len(muted & set(known)),
        )
    else:
        compared = model.compare(module_id, known, found, muted, now)
        await store.replace_items(tx, module_id, known, compared.items)
        drifted = len(compared.items)
        result = DriftResult(
            job_id=job_id,
            module_id=module_id,
            checked_at=now,
            is_refresh_only=before.is_refresh_only,
            drifted=drifted,
            muted=sum(each.address in muted for each in compared.items),
            differences=compared.differences[: model.MAX_DIFFERENCES],
        )
        after = replace(
            after,
            checked_at=now,
            checked_job_id=job_id,
            drifted=drifted,
            drifted_since=(before.drifted_since or now) if drifted else None,
            problem="",
            problem_at=None,
        )
    await store.save(tx, after)
    await store.insert_result(tx, result, MAX_KEPT_RESULTS)
    if result.differences:
        await announce(tx, news.of_result(result, before.organization_id))
    await announce(tx, *news.of_problem(before, after))
    tx.wake("drift", module_id)
    return result


async def mute(tx: Tx, who: Principal, wanted: NewMute) -> DriftMute:
    """Tell nothing about an address until a time."""
    module = await modules.find(tx, who, wanted.module, Verb.JOB_RUN)
    if wanted.until.tzinfo is None:
        raise Invalid.in_field("until", "write a time with its zone, such as 2026-12-31T00:00:00Z")
    if wanted.until <= tx.moment:
        raise Invalid.in_field("until", "the end of a mute is a time that has not come yet")
    if wanted.until > tx.moment + timedelta(days=MAX_MUTE_DAYS):
        raise Invalid.in_field("until", "a mute ends within a year: somebody has to look at it again")
    if not wanted.reason.strip():
        raise Invalid.in_field("reason", "say why this drift is expected")
    if await store.get(tx, module.id) is None:
        raise Conflict(f"module `{module.path}` has not been checked for drift yet")
    if await store.count_mutes(tx, module.id) >= MAX_MUTES:
        raise Conflict(f"module `{module.path}` has {MAX_MUTES:,} mutes: end some of them first")
    made = DriftMute(
        id=ids.new("mut"),
        organization_id=module.organization_id,
        module_id=module.id,
        address=wanted.address,
        reason=wanted.reason.strip(),
        until=wanted.until,
        created_by=who.id,
        created_by_name=who.name,
        created_at=tx.moment,
    )
    await store.mute(tx, made)
    details = {"path": module.path, "address": made.address, "reason": made.reason, "until": made.until}
    await audit.record(tx, who, "drift.mute", "module", module.id, details, organization_id=module.organization_id)
    tx.wake("drift", module.id)
    return made


async def unmute(tx: Tx, who: Principal, mute_id: str) -> DriftMute:
    """End a mute before its time."""
    unseen = NotFound(f"there is no mute {mute_id[:100]} here, or you may not see it")
    found = await store.get_mute(tx, ids.parse("mut", mute_id))
    if found is None:
        raise unseen
    await modules.find(tx, who, found.module_id, Verb.JOB_RUN, unseen)
    await end_mute(tx, who, found)
    return found


async def end_mute(tx: Tx, who: Principal, found: DriftMute) -> bool:
    """Delete a mute. Returns whether its address still differs, so that it is told again."""
    if not await store.delete_mute(tx, found.id):
        return False
    details = {"address": found.address, "reason": found.reason}
    await audit.record(
        tx, who, "drift.unmute", "module", found.module_id, details, organization_id=found.organization_id
    )
    tx.wake("drift", found.module_id)
    return found.address in await store.items(tx, found.module_id)


async def end_due_mutes(tx: Tx, count: int) -> list[DriftMute]:
    """End the mutes whose time has come. Returns those whose addresses still differ, of which people are notified again."""
    found = [each for each in await reads.ended_mutes(tx, count) if await end_mute(tx, SYSTEM, each)]
    if found:
        await announce(tx, *(news.of_ended_mute(each) for each in found))
    return found


async def listing(
    tx: Tx, who: Principal, wanted: DriftFilter, place: str, after: str | None, limit: int
) -> Page[ModuleDrift]:
    """Return the drift of the modules that the caller may see, in the order of their paths."""
    seen = await authorize.visible(tx, who, Verb.JOB_READ)
    below = (await places.find(tx, who, place)).path if place else ""
    organization_id = who.organization_id or ""
    found = await reads.listing(tx, organization_id, seen, wanted, below, paging.start(after), limit + 1)
    items: Sequence[ModuleDrift] = found[:limit]
    return Page(list(items), paging.cursor(items[-1].path) if len(found) > limit else None)


async def of_module(tx: Tx, module: Module) -> ModuleDrift:
    """Return what is known about the drift of a module that the caller has found."""
    found = await reads.of_module(tx, module.id)
    return found or ModuleDrift(module_id=module.id, path=module.path, engine=module.engine)


async def show(tx: Tx, who: Principal, reference: str) -> ModuleDriftView:
    """Return the drift of a module with its addresses, mutes and newest results."""
    module = await modules.find(tx, who, reference, Verb.JOB_READ)
    found = await of_module(tx, module)
    mutes = await store.mutes(tx, module.id)
    by_address = {each.address: each for each in mutes if each.until > tx.moment}
    items = [
        fields.created(DriftItemView, each, mute=by_address.get(each.address))
        for each in (await store.items(tx, module.id)).values()
    ]
    items.sort(key=lambda each: (each.mute is not None, each.address))
    results = await store.results(tx, module.id, MAX_KEPT_RESULTS)
    return fields.created(ModuleDriftView, found, items=items, mutes=mutes, results=results)


def authorize_place(at: InputPlace) -> authorize.Place:
    place = authorize.module if at.kind == "module" else authorize.group
    return place(at.organization_id, at.path)
