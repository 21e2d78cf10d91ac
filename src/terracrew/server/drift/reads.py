"""Reads which checks are due, which have ended, how many may run, and the drift of the modules of a list."""

from collections.abc import Sequence
from typing import Any, LiteralString

import msgspec

from terracrew.api.drift import DriftCheck, DriftFilter, DriftMute, ModuleDrift
from terracrew.server.db.seam import Param, Row, Tx
from terracrew.server.db.statements.fragments import ACTIVE_STATUSES, ENDED_STATUSES
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.drift.model import DriftModule
from terracrew.server.drift.store import MODULES, MUTES
from terracrew.server.principals import visibility
from terracrew.server.principals.authorize import Visible

_IS_BUSY: LiteralString = f"""(EXISTS (SELECT 1 FROM jobs WHERE jobs.module_id = drift_modules.module_id
        AND (jobs.status = 'QUEUED' OR jobs.status IN {ACTIVE_STATUSES}))
    OR EXISTS (SELECT 1 FROM jobs AS earlier WHERE earlier.id = drift_modules.after_job_id
        AND earlier.status NOT IN {ENDED_STATUSES}))"""
"""Whether a job of the module is queued or running, or the job has not ended after which the check begins."""
_DUE: LiteralString = """FROM drift_modules
JOIN modules ON modules.id = drift_modules.module_id AND modules.organization_id = drift_modules.organization_id
WHERE drift_modules.due_at IS NOT NULL AND drift_modules.due_at <= :now AND drift_modules.job_id IS NULL"""
"""Checks that are due and have no job. A module that was deleted is in another organization, and is not checked any more."""
_WAITING: LiteralString = """WITH RECURSIVE waiting (organization_id) AS (
    SELECT min(organization_id) FROM drift_modules WHERE due_at IS NOT NULL AND job_id IS NULL
    UNION ALL
    SELECT (SELECT min(later.organization_id) FROM drift_modules AS later
        WHERE later.due_at IS NOT NULL AND later.job_id IS NULL AND later.organization_id > waiting.organization_id)
    FROM waiting WHERE waiting.organization_id IS NOT NULL
)"""
"""The organizations with a check that has no job. It reads one entry of the index for each, however many checks they have."""
_MUTED: LiteralString = """(SELECT count(*) FROM drift_items JOIN drift_mutes ON drift_mutes.module_id = drift_items.module_id
    AND drift_mutes.address = drift_items.address WHERE drift_items.module_id = drift_modules.module_id
        AND drift_mutes.until > :now)"""
_LISTED: LiteralString = f"""{MODULES.columns}, modules.path, modules.engine, {_MUTED} AS muted, drift_results.differences
FROM drift_modules JOIN modules ON modules.id = drift_modules.module_id
LEFT JOIN drift_results ON drift_results.job_id = drift_modules.checked_job_id"""
_FILTERS: dict[DriftFilter, LiteralString] = {
    "drifted": f"drift_modules.drifted > {_MUTED}",
    "failed": "drift_modules.problem <> ''",
    "muted": "EXISTS (SELECT 1 FROM drift_mutes WHERE drift_mutes.module_id = drift_modules.module_id)",
    "all": "true",
}
_SEEN: LiteralString = " AND modules.id IN (SELECT id FROM seen_modules)"
_BELOW: LiteralString = """ AND (CAST(:below AS text) = '' OR modules.path = CAST(:below AS text)
    OR substr(modules.path, 1, length(CAST(:below AS text)) + 1) = CAST(:below AS text) || '/')"""
_differences = msgspec.json.Decoder(list[dict[str, str]])


class RunningCheck(msgspec.Struct, frozen=True):
    """A check whose job has ended, or was deleted (None)."""

    module_id: str
    job_id: str
    status: str | None


class DueCheck(msgspec.Struct, frozen=True):
    module_id: str
    organization_id: str


class WaitingChecks(msgspec.Struct, frozen=True):
    """An organization in which checks are due."""

    organization_id: str
    running: int
    """How many checks of it are queued or running."""


async def ended(tx: Tx, count: int) -> list[RunningCheck]:
    """Return checks that run although their job has ended."""
    rows = await tx.all(
        f"""SELECT drift_modules.module_id, drift_modules.job_id, jobs.status FROM drift_modules
        LEFT JOIN jobs ON jobs.id = drift_modules.job_id
        WHERE drift_modules.job_id IS NOT NULL AND (jobs.id IS NULL OR jobs.status IN {ENDED_STATUSES})
        ORDER BY drift_modules.module_id LIMIT :count""",
        count=count,
    )
    return [RunningCheck(row["module_id"], row["job_id"], row["status"]) for row in rows]


async def stuck(tx: Tx, seconds: float, count: int) -> list[str]:
    """Return the jobs of checks that have been queued for longer than this."""
    rows = await tx.all(
        """SELECT jobs.id FROM drift_modules JOIN jobs ON jobs.id = drift_modules.job_id
        WHERE drift_modules.job_id IS NOT NULL AND jobs.status = 'QUEUED' AND jobs.queued_at < :before
        ORDER BY jobs.id LIMIT :count""",
        before=tx.now - seconds,
        count=count,
    )
    return [row["id"] for row in rows]


async def due_by_organization(tx: Tx) -> list[WaitingChecks]:
    """Return the organizations in which checks are due."""
    rows = await tx.all(
        f"""{_WAITING} SELECT waiting.organization_id, (SELECT count(*) FROM drift_modules AS others
            WHERE others.organization_id = waiting.organization_id AND others.job_id IS NOT NULL) AS running
        FROM waiting WHERE waiting.organization_id IS NOT NULL
            AND EXISTS (SELECT 1 {_DUE} AND drift_modules.organization_id = waiting.organization_id)
        ORDER BY waiting.organization_id""",
        now=tx.now,
    )
    return [WaitingChecks(row["organization_id"], row["running"]) for row in rows]


async def due(tx: Tx, organization_id: str, count: int) -> list[DueCheck]:
    """Return checks of an organization that are due and whose modules could be checked now, the longest due ones first."""
    rows = await tx.all(
        f"""SELECT drift_modules.module_id, drift_modules.organization_id {_DUE}
            AND drift_modules.organization_id = :organization_id AND NOT {_IS_BUSY}
        ORDER BY drift_modules.due_at, drift_modules.module_id LIMIT :count""",
        organization_id=organization_id,
        now=tx.now,
        count=count,
    )
    return [DueCheck(row["module_id"], row["organization_id"]) for row in rows]


async def too_late(tx: Tx, count: int) -> list[DueCheck]:
    """Return checks that are to be given up."""
    rows = await tx.all(
        f"""SELECT drift_modules.module_id, drift_modules.organization_id {_DUE} AND drift_modules.give_up_at <= :now
        ORDER BY drift_modules.give_up_at, drift_modules.module_id LIMIT :count""",
        now=tx.now,
        count=count,
    )
    return [DueCheck(row["module_id"], row["organization_id"]) for row in rows]


async def ended_mutes(tx: Tx, count: int) -> list[DriftMute]:
    """Return mutes whose end has come. Those of deleted modules go with them."""
    return await MUTES.all(
        tx,
        """FROM drift_mutes JOIN modules ON modules.id = drift_mutes.module_id
            AND modules.organization_id = drift_mutes.organization_id
        WHERE drift_mutes.until <= :now ORDER BY drift_mutes.until, drift_mutes.id LIMIT :count""",
        now=tx.now,
        count=count,
    )


async def is_busy(tx: Tx, module_id: str) -> bool:
    """Return whether a module cannot be checked now."""
    row = await tx.one(
        f"SELECT 1 AS found FROM drift_modules WHERE drift_modules.module_id = :id AND {_IS_BUSY}", id=module_id
    )
    return row is not None


async def running(tx: Tx, organization_id: str) -> int:
    """Return how many checks of an organization are queued or running."""
    return await tx.value(
        "SELECT count(*) AS found FROM drift_modules WHERE organization_id = :id AND job_id IS NOT NULL",
        id=organization_id,
    )


async def is_any_running(tx: Tx) -> bool:
    return await tx.one("SELECT 1 AS found FROM drift_modules WHERE job_id IS NOT NULL LIMIT 1") is not None


async def listing(
    tx: Tx, organization_id: str, seen: Visible, wanted: DriftFilter, below: str, after: str, count: int
) -> list[ModuleDrift]:
    """Return the drift of modules that the reader may see, in the order of their paths."""
    if seen.is_nothing:
        return []
    is_filtered = not seen.is_everything(organization_id)
    params: dict[str, Param] = visibility.params(seen) if is_filtered else {}
    sql: LiteralString = (
        (visibility.SEEN_MODULES if is_filtered else "")
        + f" SELECT {_LISTED} WHERE modules.organization_id = :organization_id AND {_FILTERS[wanted]}"
        + _BELOW
        + (_SEEN if is_filtered else "")
        + """ AND modules.path > (CAST(:after AS text)) COLLATE "C" ORDER BY modules.path COLLATE "C" LIMIT :count"""
    )
    rows = await tx.all(
        sql, organization_id=organization_id, below=below, after=after, count=count, now=tx.now, **params
    )
    return [_listed(row) for row in rows]


async def newest_drifted(tx: Tx, organization_id: str, count: int) -> list[Row]:
    """Return the modules that have had drift for the shortest time, with their paths, also if all of it is muted.

    `organization_id || ''` keeps SQLite from reading every module of the organization.
    """
    return await tx.all(
        """SELECT modules.id, modules.path FROM drift_modules JOIN modules ON modules.id = drift_modules.module_id
            AND modules.organization_id || '' = drift_modules.organization_id
        WHERE drift_modules.organization_id = :organization_id AND drift_modules.drifted > 0
        ORDER BY drift_modules.drifted_since DESC, drift_modules.module_id LIMIT :count""",
        organization_id=organization_id,
        count=count,
    )


async def of_module(tx: Tx, module_id: str) -> ModuleDrift | None:
    row = await tx.one(f"SELECT {_LISTED} WHERE drift_modules.module_id = :id", id=module_id, now=tx.now)
    return None if row is None else _listed(row)


def _listed(row: Row) -> ModuleDrift:
    found = row_to(DriftModule, {name: row[name] for name in MODULES.fields})
    differences: Sequence[dict[str, Any]] = _differences.decode(row["differences"]) if row["differences"] else []
    counts = {kind: sum(each["kind"] == kind for each in differences) for kind in ("new", "changed", "gone")}
    check = None
    if found.due_at is not None:
        check = DriftCheck(
            due_at=found.due_at,
            is_refresh_only=found.is_refresh_only,
            asked_by_name=found.asked_by_name,
            schedule_name=found.schedule_name,
            job_id=found.job_id,
        )
    return ModuleDrift(
        module_id=found.module_id,
        path=row["path"],
        engine=row["engine"],
        drifted=max(0, found.drifted - row["muted"]),
        muted=row["muted"],
        drifted_since=found.drifted_since,
        checked_at=found.checked_at,
        checked_job_id=found.checked_job_id,
        problem=found.problem,
        problem_at=found.problem_at,
        check=check,
        **counts,
    )
