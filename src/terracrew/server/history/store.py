"""Rows of the history, of holds, and of what each hold means for each module."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import LiteralString

import msgspec

from terracrew import ids
from terracrew.api.job_views import Hold
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import to_params
from terracrew.server.db.statements.table import Table


class HeldModule(msgspec.Struct, frozen=True):
    """What a hold means for one module."""

    module_id: str
    hold_id: str
    is_held: bool
    """Whether it waits for a person to release it."""
    is_in_doubt: bool
    """Whether a change may be unaccounted for. Every plan of the module waits for approval until one of them has begun."""
    evidence: str = ""
    """What is known of changes that the database has lost; empty if the module only may have been changed."""
    released_at: datetime | None = None
    released_by: str | None = None


HOLDS = Table("holds", Hold)
HELD_MODULES = Table("held_modules", HeldModule)
IS_HELD: LiteralString = """EXISTS (SELECT 1 FROM holds WHERE holds.is_open AND NOT EXISTS (
    SELECT 1 FROM held_modules WHERE held_modules.module_id = jobs.module_id AND held_modules.hold_id = holds.id
        AND NOT held_modules.is_held))"""
"""The condition that nothing that changes the module of a row of `jobs` may be handed out. `is_held` says the same."""


async def add_point(tx: Tx, point_id: str) -> None:
    """Write a point of the history. A database that does not have it was set back to a time before it."""
    await tx.run("INSERT INTO history (id, at) VALUES (:id, :now)", id=point_id, now=tx.now)


async def known_points(tx: Tx, point_ids: Sequence[str]) -> set[str]:
    """Return those of these points that the database has."""
    rows = await tx.each_id(
        "SELECT history.id FROM batch JOIN history ON history.id = batch.id", sorted(set(point_ids))
    )
    return {row["id"] for row in rows}


async def newest_point_at(tx: Tx, before: float) -> float | None:
    """Return the time of the newest point that is older than this; None if there is none."""
    return await tx.value("SELECT max(at) AS at FROM history WHERE at < :before", before=before)


async def prune(tx: Tx, before: float, count: int) -> int:
    """Forget points that are older than this, but never the newest one."""
    return await tx.run(
        """DELETE FROM history WHERE id IN (SELECT id FROM history WHERE at < :before ORDER BY at LIMIT :count)
            AND at < (SELECT max(at) FROM history)""",
        before=before,
        count=count,
    )


async def open_hold(tx: Tx) -> Hold | None:
    return await HOLDS.one(tx, "FROM holds WHERE holds.is_open")


async def holds(tx: Tx) -> list[Hold]:
    """Return all holds, the newest first."""
    return await HOLDS.all(tx, "FROM holds ORDER BY holds.id DESC")


async def start(tx: Tx, reason: str, *, is_set_back: bool, set_back_to: float | None) -> Hold | None:
    """Open a hold that holds every module and puts it in doubt. Returns None if one is open already."""
    back_to = None if set_back_to is None else datetime.fromtimestamp(set_back_to, UTC)
    hold = Hold(ids.new("hld"), reason, is_set_back, back_to, tx.moment)
    if not await tx.run(HOLDS.insert() + " ON CONFLICT DO NOTHING", **to_params(hold)):
        return None
    await _hold_modules(tx, hold.id)
    return hold


async def start_again(tx: Tx, hold_id: str, reason: str, set_back_to: float | None) -> Hold:
    """Hold every module again, because the database was set back after an open hold had started."""
    await tx.run(
        """UPDATE holds SET reason = :reason, is_set_back = true, set_back_to = :set_back_to, started_at = :now
        WHERE id = :id""",
        id=hold_id,
        reason=reason,
        set_back_to=set_back_to,
        now=tx.now,
    )
    await _hold_modules(tx, hold_id)
    hold = await open_hold(tx)
    assert hold is not None
    return hold


async def _hold_modules(tx: Tx, hold_id: str) -> None:
    await tx.run(
        """INSERT INTO held_modules (module_id, hold_id, is_held, is_in_doubt)
        SELECT modules.id, CAST(:hold_id AS text), true, true FROM modules WHERE true
        ON CONFLICT (module_id, hold_id) DO UPDATE SET is_held = true, is_in_doubt = true, released_at = NULL,
            released_by = NULL""",
        hold_id=hold_id,
    )


async def note_evidence(tx: Tx, hold_id: str, module_id: str, evidence: str) -> None:
    """Note that a module was changed after the time that the database was set back to. It is in doubt, and held if the hold is open.

    Runners tell the same again with every hello. What was noted once brings no doubt back that a person has ended.
    """
    await tx.run(
        """INSERT INTO held_modules (module_id, hold_id, is_held, is_in_doubt, evidence)
        SELECT modules.id, holds.id, holds.is_open, true, CAST(:evidence AS text) FROM holds CROSS JOIN modules
        WHERE holds.id = :hold_id AND modules.id = :module_id
        ON CONFLICT (module_id, hold_id) DO UPDATE SET is_in_doubt = true, evidence = excluded.evidence
            WHERE held_modules.evidence = ''""",
        hold_id=hold_id,
        module_id=module_id,
        evidence=evidence,
    )


async def release(tx: Tx, hold_id: str, by: str, *, is_untouched: bool) -> None:
    """End a hold. With `is_untouched`, the doubt ends as well, except for modules that are known to have been changed."""
    await tx.run(
        "UPDATE holds SET is_open = false, released_at = :now, released_by = :by WHERE id = :id AND is_open",
        id=hold_id,
        by=by,
        now=tx.now,
    )
    await tx.run(
        """UPDATE held_modules SET is_held = false, released_at = :now, released_by = :by,
            is_in_doubt = is_in_doubt AND (NOT :is_untouched OR evidence <> '')
        WHERE hold_id = :id AND is_held""",
        id=hold_id,
        by=by,
        now=tx.now,
        is_untouched=is_untouched,
    )


async def release_module(tx: Tx, hold_id: str, module_id: str, by: str, *, is_untouched: bool) -> None:
    """Hold one module no longer. With `is_untouched`, its doubt ends as well."""
    await tx.run(
        """INSERT INTO held_modules (module_id, hold_id, is_held, is_in_doubt, released_at, released_by)
        VALUES (:module_id, :hold_id, false, NOT :is_untouched, :now, :by)
        ON CONFLICT (module_id, hold_id) DO UPDATE SET is_held = false,
            released_at = CASE WHEN held_modules.is_held THEN excluded.released_at ELSE held_modules.released_at END,
            released_by = CASE WHEN held_modules.is_held THEN excluded.released_by ELSE held_modules.released_by END,
            is_in_doubt = held_modules.is_in_doubt AND excluded.is_in_doubt""",
        hold_id=hold_id,
        module_id=module_id,
        by=by,
        now=tx.now,
        is_untouched=is_untouched,
    )


async def is_held(tx: Tx, module_id: str) -> bool:
    """Return whether nothing that changes this module may be handed out. `IS_HELD` says the same."""
    row = await tx.one(
        """SELECT 1 AS yes FROM holds WHERE holds.is_open AND NOT EXISTS (
            SELECT 1 FROM held_modules WHERE held_modules.module_id = :module_id AND held_modules.hold_id = holds.id
                AND NOT held_modules.is_held)""",
        module_id=module_id,
    )
    return row is not None


async def held_among(tx: Tx, hold_id: str, module_ids: Collection[str]) -> set[str]:
    """Return those of these modules that nobody has released from an open hold."""
    rows = await tx.each(
        """SELECT held_modules.module_id FROM batch JOIN held_modules ON held_modules.module_id = batch.module_id
            AND held_modules.hold_id = batch.hold_id AND NOT held_modules.is_held""",
        {"module_id": "text", "hold_id": "text"},
        [(each, hold_id) for each in sorted(module_ids)],
    )
    return set(module_ids) - {row["module_id"] for row in rows}


async def doubtful(tx: Tx, module_id: str) -> list[Hold]:
    """Return the holds because of which this module is in doubt."""
    return await HOLDS.all(
        tx,
        """FROM held_modules JOIN holds ON holds.id = held_modules.hold_id
        WHERE held_modules.module_id = :module_id AND held_modules.is_in_doubt ORDER BY holds.id""",
        module_id=module_id,
    )


async def end_doubt(tx: Tx, module_id: str) -> None:
    await tx.run(
        "UPDATE held_modules SET is_in_doubt = false WHERE module_id = :module_id AND is_in_doubt", module_id=module_id
    )


async def doubt_again(tx: Tx, module_id: str, hold_ids: Sequence[str]) -> None:
    """Put a module in doubt again because of these holds."""
    await tx.each(
        """UPDATE held_modules SET is_in_doubt = true FROM batch
        WHERE held_modules.hold_id = batch.hold_id AND held_modules.module_id = batch.module_id""",
        {"hold_id": "text", "module_id": "text"},
        [(hold_id, module_id) for hold_id in sorted(hold_ids)],
    )
