"""Collects what is known about an attempt, for the person who decides whether it is gone or approves the next plan."""

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from terracrew.api.job_views import AttemptReport, ModuleState
from terracrew.api.jobs import StepRow
from terracrew.api.lost_resources import LoggedChange
from terracrew.errors import NotFound
from terracrew.server.db.seam import Database, Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.jobs import attempt_store
from terracrew.server.jobs.attempts import reads as attempt_reads
from terracrew.server.jobs.lost_resources import gaps
from terracrew.server.logs import chunk_reads, chunks, ending
from terracrew.server.objects import Objects
from terracrew.server.runs import made, reads
from terracrew.server.state import reads as states
from terracrew.wording.escapes import plain

MAX_LINE_CHARACTERS = 400
LAST_BYTES = 8 << 10
"""The number of bytes at the end of a log that are searched for its last line."""
MAX_DOUBTS_WITH_MADE = 5
"""The number of attempts in doubt whose logs one view searches for changes."""


async def read(db: Database, objects: Objects, job_id: str, attempt: int) -> AttemptReport:
    """Report on any attempt, wherever its log is stored. This may read megabytes of the log."""
    moved = await ending.read(db, objects, job_id, attempt, made.MAX_LOG_BYTES)
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
        changed, is_cut = await made.since(tx, job_id, attempt, state_event, moved)
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
