"""Makes, changes, shows, deletes and runs schedules, and checks that the caller may do so."""

from collections.abc import Sequence
from datetime import UTC, datetime

from cronsim import CronSim
from msgspec.structs import replace

from terracrew import ids
from terracrew.api import fields
from terracrew.api.pages import Page
from terracrew.api.schedules import (
    NewSchedule,
    Schedule,
    ScheduleChange,
    ScheduleSettings,
    ScheduleView,
    StartedSchedule,
)
from terracrew.errors import Conflict, Invalid, NotFound
from terracrew.server import paging, time_zones
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.drift import service as drift
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Place, Verb
from terracrew.server.principals.model import Principal
from terracrew.server.schedules import model, reads, starting, store
from terracrew.server.schedules.reads import PlacedSchedule
from terracrew.server.schedules.starting import Sources
from terracrew.server.tree.modules import places
from terracrew.wording import schedule_words

MAX_SCHEDULES = 1_000
"""For each organization."""
MAX_TEXT_CHARACTERS = 100
_TIMES = frozenset({"kind", "cron", "time_zone", "jitter_minutes", "is_enabled"})
"""The settings that decide when a schedule starts."""


async def create(tx: Tx, who: Principal, new: NewSchedule) -> ScheduleView:
    """Make a schedule of a group or module in which the caller may run jobs."""
    at = await places.hold(tx, who, new.place)
    await authorize.require(tx, who, Verb.JOB_RUN, drift.authorize_place(at))
    _check(who, new)
    if await store.count(tx, at.organization_id) >= MAX_SCHEDULES:
        raise Conflict(f"the organization has {MAX_SCHEDULES:,} schedules: delete one that is no longer needed")
    now = tx.moment
    made = fields.created(
        Schedule,
        new,
        id=ids.new("sch"),
        organization_id=at.organization_id,
        group_id=at.id if at.kind != "module" else None,
        module_id=at.id if at.kind == "module" else None,
        name=_name(new.name),
        cron=" ".join(new.cron.split()),
        created_at=now,
        changed_by=who.id,
        changed_by_name=who.name,
        changed_at=now,
    )
    made = replace(made, next_at=model.start_after(made, tx.now))
    if any(each.schedule.name == made.name for each in await reads.at(tx, at)):
        raise Conflict(f"{at.words} has a schedule `{made.name}` already", field="name")
    await store.insert(tx, made)
    await _record(tx, who, PlacedSchedule(made, at.path), "schedule.create")
    return view(PlacedSchedule(made, at.path), now)


async def change(tx: Tx, who: Principal, schedule_id: str, wanted: ScheduleChange) -> ScheduleView:
    """Change a schedule. From then on it runs with the permissions of the caller."""
    found = await _find(tx, who, schedule_id, Verb.JOB_RUN)
    before = await store.hold(tx, found.id)
    if before is None:
        raise _unseen(schedule_id)
    after = fields.changed(before, wanted)
    after = replace(after, name=_name(after.name), cron=" ".join(after.cron.split()))
    _check(who, after)
    at = await places.find(tx, who, before.group_id or before.module_id or "")
    if any(each.schedule.name == after.name and each.id != after.id for each in await reads.at(tx, at)):
        raise Conflict(f"{at.words} has a schedule `{after.name}` already", field="name")
    changed = [name for name in ScheduleSettings.__struct_fields__ if getattr(before, name) != getattr(after, name)]
    after = replace(after, changed_by=who.id, changed_by_name=who.name, changed_at=tx.moment)
    if not _TIMES.isdisjoint(changed):  # otherwise a start that is due, or only delayed, would be lost
        after = replace(after, next_at=model.start_after(after, tx.now))
    await store.change(tx, after)
    placed = PlacedSchedule(after, found.path)
    await _record(tx, who, placed, "schedule.change", changed=changed)
    return view(placed, tx.moment)


async def delete(tx: Tx, who: Principal, schedule_id: str) -> PlacedSchedule:
    found = await _find(tx, who, schedule_id, Verb.JOB_RUN)
    await store.delete(tx, found.id)
    await _record(tx, who, found, "schedule.delete")
    return found


async def run(tx: Tx, who: Principal, schedule_id: str, sources: Sources) -> StartedSchedule:
    """Start now what a schedule is for, with the permissions of the caller. Its next time stays."""
    found = await _find(tx, who, schedule_id, Verb.JOB_RUN)
    before = await store.hold(tx, found.id)
    if before is None:
        raise _unseen(schedule_id)
    started = await starting.start(tx, who, before, sources)
    after = replace(
        before,
        last_at=tx.moment,
        last_outcome=f"{started.outcome} (run by {who.name})",
        is_last_problem=False,
        last_job_id=started.job_id or before.last_job_id,
        last_group_run_id=started.group_run_id or before.last_group_run_id,
    )
    await store.start(tx, before, after)
    await _record(tx, who, found, "schedule.run")
    return started


async def show(tx: Tx, who: Principal, schedule_id: str) -> ScheduleView:
    return view(await _find(tx, who, schedule_id, Verb.JOB_READ), tx.moment)


async def listing(tx: Tx, who: Principal, place: str, after: str | None, limit: int) -> Page[ScheduleView]:
    """Return the schedules at places that the caller may see; with `place`, those of this group or module itself."""
    if place:
        at = await places.find(tx, who, place)
        await authorize.require(tx, who, Verb.JOB_READ, drift.authorize_place(at))
        found: Sequence[PlacedSchedule] = await reads.at(tx, at)
        return Page([view(each, tx.moment) for each in found])
    seen = await authorize.visible(tx, who, Verb.JOB_READ)
    found = await reads.page(tx, who.organization_id or "", seen, paging.start(after), limit + 1)
    page = paging.page(found, limit)
    return Page([view(each, tx.moment) for each in page.items], page.next)


def view(found: PlacedSchedule, now: datetime) -> ScheduleView:
    schedule = found.schedule
    explained = CronSim(schedule.cron, datetime(2026, 1, 1, tzinfo=UTC)).explain()
    return fields.created(
        ScheduleView,
        schedule,
        path=found.path,
        times=schedule_words.times(explained, schedule.time_zone),
        next_words=schedule_words.next_start(schedule.next_at, now, schedule.time_zone, is_enabled=schedule.is_enabled),
    )


def place(found: PlacedSchedule) -> Place:
    make = authorize.module if found.schedule.module_id is not None else authorize.group
    return make(found.schedule.organization_id, found.path)


async def _find(tx: Tx, who: Principal, schedule_id: str, verb: Verb) -> PlacedSchedule:
    unseen = _unseen(schedule_id)
    found = await reads.placed(tx, ids.parse("sch", schedule_id))
    if found is None:
        raise unseen
    await authorize.require(tx, who, verb, place(found), unseen)
    return found


def _check(who: Principal, wanted: ScheduleSettings) -> None:
    """Refuse what could never be started."""
    model.check_cron(wanted.cron)
    time_zones.zone(wanted.time_zone)
    authorize.require_reader(who)


def _name(text: str) -> str:
    found = text.strip()
    if not found or not found.isprintable():
        raise Invalid.in_field("name", f"a name has 1 to {MAX_TEXT_CHARACTERS} characters, all of them printable")
    return found


def _unseen(schedule_id: str) -> NotFound:
    return NotFound(f"there is no schedule {schedule_id[:100]} here, or you may not see it")


async def _record(
    tx: Tx, who: Principal, found: PlacedSchedule, action: str, *, changed: Sequence[str] | None = None
) -> None:
    schedule = found.schedule
    kind, target = ("module", schedule.module_id) if schedule.module_id else ("group", schedule.group_id)
    details: dict[str, object] = {
        "path": found.path,
        "name": schedule.name,
        "type": schedule.kind,
        "cron": schedule.cron,
    }
    if changed is not None:
        details["changed"] = list(changed)
    await audit.record(tx, who, action, kind, target or "", details, organization_id=schedule.organization_id)
    tx.wake("schedules", schedule.id)
