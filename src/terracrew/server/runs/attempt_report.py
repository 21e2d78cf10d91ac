"""Collects what is known about an attempt, for the person who decides whether it is gone or approves the next plan."""

import itertools
from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from terracrew.api.job_views import AttemptReport, ModuleState
from terracrew.api.jobs import StepRow
from terracrew.api.lost_resources import LoggedChange
from terracrew.errors import NotFound
from terracrew.protocol.events import Stream
from terracrew.server.db.seam import Database, Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.jobs import attempt_store
from terracrew.server.jobs.attempts import reads as attempt_reads
from terracrew.server.jobs.lost_resources import gaps, log_lines
from terracrew.server.logs import chunk_reads, chunks, ending
from terracrew.server.objects import Objects
from terracrew.server.runs import reads
from terracrew.server.state import reads as states
from terracrew.wording.escapes import plain

MAX_LINE_CHARACTERS = 400
LAST_BYTES = 8 << 10
"""The number of bytes at the end of a log that are searched for its last line."""
MAX_DOUBTS_WITH_MADE = 5
"""The number of attempts in doubt whose logs one view searches for changes."""
MAX_LOG_BYTES = 2 << 20
"""How much of a log is read, from its end, to answer one question."""
MAX_RESOURCES = 200


async def read(db: Database, objects: Objects, job_id: str, attempt: int) -> AttemptReport:
    """Report on any attempt, wherever its log is stored. This may read megabytes of the log."""
    moved = await ending.read(db, objects, job_id, attempt, MAX_LOG_BYTES)
    return await db.read_in_background(lambda tx: report(tx, job_id, attempt, moved=moved))


async def report(
    tx: Tx, job_id: str, attempt: int, *, with_made: bool = True, moved: ending.Ending | None = None
) -> AttemptReport:
    """Report on an attempt. Without `with_made`, the log is not searched for changes, and the report says so.

    The log of an attempt that is lost or in doubt is in rows, unless its doubt had ended and came back. `moved` is the end of
    any other log.
    """
    row = await reads.attempt_facts(tx, job_id, attempt)
    if row is None:
        raise NotFound(f"{job_id} has no attempt {attempt}")
    found = row_to(AttemptReport, row)
    steps = await attempt_store.steps(tx, job_id, attempt)
    latest = max(steps, key=lambda step: (step.started_at is not None, step.started_at), default=None)
    received_at = None if row["received_at"] is None else datetime.fromtimestamp(row["received_at"], UTC)
    heard_at = max(filter(None, (found.heard_at, found.begun_at, found.started_at, received_at)))
    may_miss_state = (found.begun_at is not None or found.may_have_begun) and not row["is_change_ended"]
    changed, is_cut = list[LoggedChange](), may_miss_state
    if may_miss_state and with_made:
        state_event = row["state_event"] or 0
        changed, is_cut = await changes_since(tx, job_id, attempt, state_event, moved)
        is_cut = is_cut or (moved is None and row["log_moved"] > state_event)
    is_complete = not may_miss_state or row["has_result"] or (row["is_delivered"] and not row["is_output_missing"])
    gap = None
    if not is_complete and (found.ended_at or found.lost_at):
        log_ends_at = received_at or found.begun_at or heard_at
        gap = gaps.gap(
            job_id,
            attempt,
            log_ends_at,
            heard_at,
            is_output_missing=bool(row["is_output_missing"]),
            is_begin_unknown=found.begun_at is None,
        )
    return msgspec.structs.replace(
        found,
        heard_at=heard_at,
        step=None if latest is None else latest.name,
        last_line=await _last_line(tx, job_id, attempt, moved),
        may_miss_state=may_miss_state,
        module_state=await _module_state(tx, row["module_id"], job_id, attempt),
        made=changed,
        is_made_cut=is_cut,
        is_complete=bool(is_complete),
        gap=gap,
    )


async def doubts(tx: Tx, module_id: str) -> list[AttemptReport]:
    """Report on each attempt that puts a module in doubt, oldest first."""
    rows = await attempt_reads.in_doubt(tx, module_id)
    return [
        await report(tx, row["job_id"], row["number"], with_made=index < MAX_DOUBTS_WITH_MADE)
        for index, row in enumerate(rows)
    ]


async def steps_of(tx: Tx, job_id: str, attempts: Iterable[int]) -> dict[int, list[StepRow]]:
    """Return the steps of these attempts of a job, by the number of the attempt."""
    return {number: await attempt_store.steps(tx, job_id, number) for number in attempts}


async def _module_state(tx: Tx, module_id: str, job_id: str, attempt: int) -> ModuleState | None:
    row = await states.current_facts(tx, module_id, job_id, attempt)
    return None if row is None else row_to(ModuleState, {**row, "is_own": bool(row["is_own"])})


async def _last_line(tx: Tx, job_id: str, attempt: int, moved: ending.Ending | None) -> str:
    last = await chunk_reads.last_chunk(tx, job_id, attempt)
    if last is None and moved and moved.blocks:
        last = moved.blocks[-1]
    if last is None:
        return ""
    text = plain(chunks.text(last)[-LAST_BYTES:].decode(errors="replace"))
    return next((line.strip()[:MAX_LINE_CHARACTERS] for line in reversed(text.splitlines()) if line.strip()), "")


async def changes_since(
    tx: Tx, job_id: str, attempt: int, event: int, moved: ending.Ending | None = None
) -> tuple[list[LoggedChange], bool]:
    """Return what the attempt's log says after this event, and whether the log was too long to be read from there.

    `moved` is the end of the part that is in the object store, which a transaction cannot read.
    """
    moved = moved or ending.Ending()
    rows = await chunk_reads.sizes_after(tx, job_id, attempt, max(event, moved.last))
    total, start = 0, None
    for row in rows:
        total += row["size"]
        if total > MAX_LOG_BYTES:
            break
        start = row["first"]
    if start is None and rows:
        return [], True
    kept = [] if start is None else await chunk_reads.data_from(tx, job_id, attempt, start)
    is_cut = total > MAX_LOG_BYTES
    records = itertools.chain(() if is_cut else moved.records(), *(chunks.records(data) for data in kept))
    text = b"".join(record.payload for number, record in records if number > event and record.stream == Stream.OUTPUT)
    found = log_lines.changes(text.decode(errors="replace").split("\n"))
    is_cut = is_cut or len(found) > MAX_RESOURCES or (not moved.is_whole and event < moved.first)
    return found[-MAX_RESOURCES:], is_cut
