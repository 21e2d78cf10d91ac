"""Creates, finds, follows and cancels the jobs of the fleet, and checks that the caller may."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Literal

import msgspec
from msgspec.structs import asdict

from terracrew import ids
from terracrew.api.fleet_jobs import FleetJob, FleetJobStatus, FleetJobView, FleetLine, NewFleetJob
from terracrew.api.pages import Page
from terracrew.errors import Conflict, Invalid, NotFound, Unavailable
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.db.topics import log_of
from terracrew.server.fleet_jobs import decide, reads, store
from terracrew.server.fleet_jobs.handlers import FleetHandlers, handler_of
from terracrew.server.fleet_jobs.reads import FleetJobFilter
from terracrew.server.paging import page, start
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Place, Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.groups import store as groups


async def create(tx: Tx, who: Principal, new: NewFleetJob) -> FleetJob:
    """Queue a job. The caller has checked that its principal may. Refused while a job of the same type and target is open."""
    [number] = await groups.take_job_numbers(
        tx, new.organization_id, 1
    )  # it also holds back others that create one now
    for other in await store.open_of_target(tx, new.target_id):
        if other.type is new.type:
            raise Conflict(
                f"job {other.number} ({other.type} of `{other.target_name}`) has not ended: wait for it, or cancel it",
                job_id=other.id,
                number=other.number,
            )
    now = tx.moment
    job = FleetJob(
        **asdict(new),
        id=ids.new("fjb"),
        number=number,
        status=FleetJobStatus.QUEUED,
        attempt=1,
        due_at=now,
        created_by=who.id,
        created_by_name=who.name,
        created_at=now,
    )
    await store.insert(tx, job)
    if who.kind != "system":
        await _record(tx, who, "fleet_job.create", job)
    return job


async def find(tx: Tx, who: Principal, reference: str, verb: Verb = Verb.RUNNER_READ) -> FleetJob:
    """Find a job by its id, or by its number in the caller's organization."""
    unseen = NotFound(f"there is no fleet job `{reference[:100]}` here, or you may not see it")
    if reference.isdecimal() and len(reference) < 16:
        job = await store.numbered(tx, who.organization_id or "", int(reference))
    elif ids.is_id("fjb", reference):
        job = await store.get(tx, ids.parse("fjb", reference))
    else:
        raise Invalid(f"`{reference[:100]}` is neither the id nor the number of a fleet job")
    if job is None:
        raise unseen
    place = await _place(tx, job)
    if not (await authorize.decide(tx, who, Verb.RUNNER_READ, place)).is_allowed:
        raise unseen  # also for a job of the organization itself, whose existence is nobody else's business
    await authorize.require(tx, who, verb, place, unseen)
    return job


async def seen(tx: Tx, who: Principal, number: int) -> FleetJob | None:
    """Return the job with this number of the caller's organization, if the caller may see it."""
    job = await store.numbered(tx, who.organization_id or "", number)
    if job is None or not (await authorize.decide(tx, who, Verb.RUNNER_READ, await _place(tx, job))).is_allowed:
        return None
    return job


async def show(tx: Tx, who: Principal, reference: str) -> FleetJobView:
    """Return a job with the steps of its current attempt."""
    return await view(tx, await find(tx, who, reference))


async def view(tx: Tx, job: FleetJob) -> FleetJobView:
    """Return a job that the caller has found, with the steps of its current attempt."""
    return FleetJobView(**asdict(job), steps=await reads.steps(tx, job.id, job.attempt))


async def lines(tx: Tx, who: Principal, reference: str, attempt: int, since: int, count: int) -> list[FleetLine]:
    """Return the lines of a job's log that follow line `since` of `attempt`."""
    job = await find(tx, who, reference)
    return await reads.lines(tx, job.id, attempt, since, count)


async def listing(tx: Tx, who: Principal, wanted: FleetJobFilter, after: str | None, limit: int) -> Page[FleetJob]:
    """Return the jobs that the caller may see, the newest first."""
    seen = await authorize.visible(tx, who, Verb.RUNNER_READ)
    return page(await reads.listing(tx, seen, who.organization_id or "", wanted, start(after), limit + 1), limit)


async def cancel(tx: Tx, who: Principal, reference: str, handlers: FleetHandlers) -> FleetJob:
    """End a job that waits; ask one that runs to remove what it has made and to end. A repetition changes nothing."""
    found = await find(tx, who, reference, Verb.RUNNER_WRITE)
    before = await store.hold(tx, found.id)
    after = decide.cancel(before, who.name, tx.moment)
    if after is None:
        return before
    await store.save(tx, before, after)
    if after.is_terminal and (handler := handler_of(handlers, after)) is not None:
        await handler.on_end(tx, after, {})
    await _record(tx, who, "fleet_job.cancel", after)
    return after


async def may_cancel(tx: Tx, who: Principal, job: FleetJob) -> bool:
    """Return whether the caller may cancel a job that they have found."""
    return (await authorize.decide(tx, who, Verb.RUNNER_WRITE, await _place(tx, job))).is_allowed


async def _place(tx: Tx, job: FleetJob) -> Place:
    """Return the place whose rights count: the group of the runner or identity, or the organization once that group is gone."""
    group = await groups.get(tx, job.group_id)
    return authorize.group(job.organization_id, group.path if group else "")


async def _record(tx: Tx, who: Principal, action: str, job: FleetJob) -> None:
    details = {"job": job.number, "type": job.type.value, "path": job.target_name}
    await audit.record(tx, who, action, "fleet_job", job.id, details, organization_id=job.organization_id)


QUIET_SECONDS = 15.0
RECHECK_SECONDS = 0.5
MAX_LINES_PER_READ = 1_000


class LogPlace(msgspec.Struct, frozen=True):
    """The last line that a viewer has."""

    attempt: int = 1
    number: int = 0

    def __str__(self) -> str:
        return f"{self.attempt}.{self.number}"


FleetNews = list[FleetLine] | Literal["changed", "quiet", "end"]
"""Lines of the log; the job has changed; nothing has happened for a while; or nothing more follows."""


async def follow(
    db: Database, closing: asyncio.Event, job_id: str, place: LogPlace
) -> AsyncGenerator[tuple[LogPlace, FleetNews]]:
    """Yield what happens to a job and its log after this place, with a "changed" at the start.

    When the server stops, it ends without "end", and the viewer reconnects.
    """
    stopping = asyncio.create_task(closing.wait())
    stopping.add_done_callback(lambda done: done.cancelled() or db.wake_here(log_of(job_id), ""))
    try:
        with db.listen(log_of(job_id), "fleet") as wakeups:
            yield place, "changed"
            while not closing.is_set():
                try:
                    lines, is_ended = await db.read(lambda tx, place=place: _after(tx, job_id, place))
                except Unavailable:
                    await db.ready(RECHECK_SECONDS)
                    yield place, "quiet"
                    continue
                if lines:
                    place = LogPlace(lines[-1].attempt, lines[-1].number)
                    yield place, lines
                    continue
                if is_ended:
                    yield place, "end"
                    return
                woken = await wakeups.get(timeout=QUIET_SECONDS)
                if not woken:
                    yield place, "quiet"
                elif any(topic == "fleet" and key in ("", job_id) for topic, key in woken):
                    yield place, "changed"
    finally:
        stopping.cancel()


async def _after(tx: Tx, job_id: str, place: LogPlace) -> tuple[list[FleetLine], bool]:
    """Return more of the log, and whether the job had ended when it was read. Its last lines are written before its end."""
    job = await store.get(tx, job_id)
    lines = await reads.lines(tx, job_id, place.attempt, place.number, MAX_LINES_PER_READ)
    return lines, job is None or job.is_terminal
