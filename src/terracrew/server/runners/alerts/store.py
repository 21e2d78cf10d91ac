"""Rows of alerts about runners."""

from collections.abc import Sequence
from typing import LiteralString

import msgspec

from terracrew import ids
from terracrew.api.runners import AlertKind, RunnerAlert
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.fragments import delete_some
from terracrew.server.db.statements.mapping import to_params
from terracrew.server.db.statements.table import Table, excluded_assignments


class Occurrence(msgspec.Struct, frozen=True):
    """One event that raises an alert, or is counted by one that is open."""

    kind: AlertKind
    instance: str
    address: str | None
    former_address: str | None = None
    former_at: float | None = None
    is_other_machine: bool = False


ALERTS = Table("runner_alerts", RunnerAlert)
_LAST: tuple[LiteralString, ...] = ("address", "former_address", "former_at", "is_other_machine", "last_at")
_RAISE: LiteralString = (
    Table("runner_alerts", Occurrence).insert("id", "runner_id", "count", "first_at", "last_at", "audited_at")
    + f""" ON CONFLICT (runner_id, kind, instance) WHERE acknowledged_at IS NULL DO UPDATE SET
    {excluded_assignments(*_LAST)}, count = runner_alerts.count + 1,
    audited_at = CASE WHEN runner_alerts.audited_at < :audit_before THEN excluded.audited_at ELSE runner_alerts.audited_at END
RETURNING id, count, audited_at"""
)
_PRECISION_SECONDS = 0.000_001
OPEN: LiteralString = "acknowledged_at IS NULL AND (kind <> 'moved' OR last_at > :moved_since)"
"""The condition of an alert that is shown."""
MOVE_SHOWN_SECONDS = 7 * 24 * 3600.0


async def raise_or_count(tx: Tx, runner_id: str, what: Occurrence, audit_before: float) -> Row:
    """Insert an alert, or count one more occurrence of the open one. `audited_at` is now if it is to be audited (again)."""
    row = await tx.one(
        _RAISE,
        **to_params(what),
        id=ids.new("alr"),
        runner_id=runner_id,
        count=1,
        first_at=tx.now,
        last_at=tx.now,
        audited_at=tx.now,
        audit_before=audit_before,
    )
    if row is None:
        raise AssertionError("an upsert without a condition returns its row")
    return row


async def is_raised(tx: Tx, runner_id: str, kind: str, instance: str) -> bool:
    row = await tx.one(
        "SELECT id FROM runner_alerts WHERE runner_id = :id AND kind = :kind AND instance = :instance AND acknowledged_at IS NULL",
        id=runner_id,
        kind=kind,
        instance=instance,
    )
    return row is not None


async def open_count(tx: Tx, runner_id: str) -> int:
    return await tx.value(
        "SELECT count(*) AS count FROM runner_alerts WHERE runner_id = :id AND acknowledged_at IS NULL", id=runner_id
    )


async def shown(tx: Tx, runner_id: str, count: int) -> list[RunnerAlert]:
    """Return the alerts of a runner that nobody has acknowledged, the latest first."""
    return await ALERTS.all(
        tx,
        f"FROM runner_alerts WHERE runner_id = :id AND {OPEN} ORDER BY last_at DESC, id LIMIT :count",
        id=runner_id,
        moved_since=tx.now - MOVE_SHOWN_SECONDS,
        count=count,
    )


async def acknowledge(tx: Tx, runner_id: str, until: float, who: str) -> list[Row]:
    """Acknowledge the alerts whose last occurrence is not later than this time, and return their kinds and names.

    A time that people were shown has microseconds, and the stored one is more precise.
    """
    return await tx.all(
        """UPDATE runner_alerts SET acknowledged_at = :now, acknowledged_by = :who
        WHERE runner_id = :id AND acknowledged_at IS NULL AND last_at <= :until RETURNING kind, instance""",
        id=runner_id,
        until=until + _PRECISION_SECONDS,
        who=who,
        now=tx.now,
    )


async def counts_by_kind(tx: Tx) -> list[Row]:
    """Count the alerts that are shown, of all runners."""
    return await tx.all(
        f"SELECT kind, count(*) AS alerts FROM runner_alerts WHERE {OPEN} GROUP BY kind",
        moved_since=tx.now - MOVE_SHOWN_SECONDS,
    )


async def urgent_counts(tx: Tx, runner_ids: Sequence[str]) -> dict[str, int]:
    """Count the alerts of these runners that stay until a person acknowledges them."""
    rows = await tx.each_id(
        """SELECT batch.id, count(*) AS alerts FROM batch JOIN runner_alerts ON runner_alerts.runner_id = batch.id
        WHERE runner_alerts.acknowledged_at IS NULL AND runner_alerts.kind <> 'moved' GROUP BY batch.id""",
        runner_ids,
    )
    return {row["id"]: int(row["alerts"]) for row in rows}


async def delete_old(tx: Tx, before: float, count: int) -> int:
    """Delete alerts that were acknowledged, and moves, if they last occurred before this time."""
    condition = "last_at < :before AND (acknowledged_at IS NOT NULL OR kind = 'moved') ORDER BY last_at"
    return await delete_some(tx, "runner_alerts", condition, before, count)
