"""Rows of step settings: a place of the tree, a step, and what the place adds to it."""

from datetime import UTC, datetime
from typing import LiteralString

import msgspec

from terracrew.api.steps import NewStepSettings, StepSettings
from terracrew.protocol.spec import Hook, Step
from terracrew.server.db.seam import Row, Tx

_SET: LiteralString = """
INSERT INTO step_settings (place_id, step, organization_id, path, before, after, flags, changed_by, changed_at)
VALUES (:place_id, :step, :organization_id, :path, :before, :after, :flags, :changed_by, :now)
ON CONFLICT (place_id, step) DO UPDATE SET before = excluded.before, after = excluded.after, flags = excluded.flags,
    changed_by = excluded.changed_by, changed_at = excluded.changed_at"""
_ABOVE: LiteralString = """
SELECT step, path, before, after, flags, changed_by, changed_at FROM step_settings
WHERE organization_id = :organization_id
    AND (path = '' OR path = :path OR substr(:path, 1, length(path) + 1) = path || '/')
ORDER BY length(path), step"""


async def of_place(tx: Tx, place_id: str) -> list[StepSettings]:
    """Return what a place itself adds to the steps of the jobs in and below it."""
    rows = await tx.all(
        "SELECT step, path, before, after, flags, changed_by, changed_at FROM step_settings WHERE place_id = :id",
        id=place_id,
    )
    return sorted(map(_read, rows), key=lambda each: each.step.number)


async def that_apply(tx: Tx, organization_id: str, path: str) -> list[StepSettings]:
    """Return what applies to a place: its own, and that of every group above it. The highest place comes first."""
    return [_read(row) for row in await tx.all(_ABOVE, organization_id=organization_id, path=path)]


async def put(
    tx: Tx, place_id: str, organization_id: str, path: str, step: Step, wanted: NewStepSettings, by: str
) -> None:
    await tx.run(
        _SET,
        place_id=place_id,
        step=str(step),
        organization_id=organization_id,
        path=path,
        before=_text(wanted.before),
        after=_text(wanted.after),
        flags=msgspec.json.encode(wanted.flags).decode(),
        changed_by=by,
        now=tx.now,
    )


async def remove(tx: Tx, place_id: str, step: Step) -> bool:
    """Remove what a place adds to a step. Returns False if it added nothing."""
    done = await tx.run(
        "DELETE FROM step_settings WHERE place_id = :place_id AND step = :step", place_id=place_id, step=str(step)
    )
    return done > 0


async def move(tx: Tx, place_id: str, path: str) -> None:
    """Note the new path of a place."""
    await tx.run("UPDATE step_settings SET path = :path WHERE place_id = :place_id", place_id=place_id, path=path)


async def forget(tx: Tx, place_id: str) -> None:
    """Remove everything that a place added, because it is being deleted."""
    await tx.run("DELETE FROM step_settings WHERE place_id = :place_id", place_id=place_id)


def _text(hook: Hook | None) -> str | None:
    return None if hook is None else msgspec.json.encode(hook).decode()


def _hook(text: str | None) -> Hook | None:
    return None if text is None else msgspec.json.decode(text, type=Hook)


def _read(row: Row) -> StepSettings:
    return StepSettings(
        before=_hook(row["before"]),
        after=_hook(row["after"]),
        flags=msgspec.json.decode(row["flags"], type=dict[str, list[str]]),
        step=Step(row["step"]),
        path=row["path"],
        changed_by=row["changed_by"],
        changed_at=datetime.fromtimestamp(row["changed_at"], UTC),
    )
