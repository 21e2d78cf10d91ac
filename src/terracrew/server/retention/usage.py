"""What is stored: counts and bytes by kind, the largest modules, and what retention would remove.

Each question reads a whole table, beside the event loop. They are asked one after the other, so progress can be shown.
"""

from collections.abc import Callable
from typing import LiteralString

import msgspec

from terracrew.server.db.seam import Database, Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.objects import Objects
from terracrew.server.retention import kept_plans, orphans, passes
from terracrew.server.retention.passes import LastRun
from terracrew.server.retention.policy import RetentionPolicy, Tally
from terracrew.server.retention.rules import RULES

MAX_LARGEST_MODULES = 10
_TOTALS: dict[str, LiteralString] = {
    "logs in rows": "SELECT count(*) AS count, sum(length(data)) AS bytes FROM log_chunks",
    "logs in objects": "SELECT count(*) AS count, sum(stored_bytes) AS bytes FROM log_objects",
    "states": "SELECT count(*) AS count, sum(size) AS bytes FROM states",
    "plans": "SELECT count(*) AS count, sum(size) AS bytes FROM plans WHERE is_kept",
    "archives": "SELECT count(*) AS count, sum(size) AS bytes FROM archives",
    "outputs": "SELECT count(*) AS count, sum(length(content)) AS bytes FROM outputs",
    "audit": "SELECT count(*) AS count, sum(length(details) + length(action) + length(target_id)) AS bytes FROM audit",
    "objects to be deleted": "SELECT count(*) AS count, 0 AS bytes FROM object_deletions",
}
_MODULES: LiteralString = """
SELECT modules.path, CAST(sum(found.bytes) AS bigint) AS bytes FROM (
    SELECT jobs.module_id, log_objects.stored_bytes AS bytes FROM log_objects JOIN jobs ON jobs.id = log_objects.job_id
    UNION ALL SELECT jobs.module_id, length(log_chunks.data) FROM log_chunks JOIN jobs ON jobs.id = log_chunks.job_id
    UNION ALL SELECT module_id, size FROM states
) AS found JOIN modules ON modules.id = found.module_id
GROUP BY modules.id, modules.path ORDER BY sum(found.bytes) DESC LIMIT :count"""
_SIZE: dict[str, LiteralString] = {
    "sqlite": "SELECT page_count * page_size AS bytes FROM pragma_page_count(), pragma_page_size()",
    "postgres": "SELECT pg_database_size(current_database()) AS bytes",
}


class ModuleUsage(msgspec.Struct, frozen=True):
    path: str
    bytes: int
    """The bytes of its logs and states."""


class Preview(msgspec.Struct, frozen=True):
    """What the next pass of retention would remove, and the orphans that the next sweep would."""

    policy: RetentionPolicy
    retention: dict[str, Tally]
    orphans: dict[str, Tally]


class Usage(msgspec.Struct, frozen=True):
    database_bytes: int
    kinds: dict[str, Tally]
    largest_modules: list[ModuleUsage]
    reclaimable: Preview
    last_runs: dict[str, LastRun] = {}
    """When retention (`pass`) and the sweep of orphans (`sweep`) last ran, and what they removed."""


Tell = Callable[[str], None]
"""Called with what is being counted."""


async def usage(db: Database, objects: Objects, policy: RetentionPolicy, late_seconds: float, tell: Tell) -> Usage:
    kinds: dict[str, Tally] = {}
    for kind, sql in _TOTALS.items():
        tell(kind)
        kinds[kind] = await db.read_in_background(lambda tx, sql=sql: _total(tx, sql))
    tell("the largest modules")
    modules = await db.read_in_background(lambda tx: tx.all(_MODULES, count=MAX_LARGEST_MODULES))
    size = await db.read_in_background(lambda tx: tx.one(_SIZE[db.kind]))
    reclaimable = await preview(db, objects, policy, late_seconds, tell)
    last = await db.read(passes.last_runs)
    return Usage(size["bytes"] if size else 0, kinds, rows_to(ModuleUsage, modules), reclaimable, last)


async def preview(db: Database, objects: Objects, policy: RetentionPolicy, late_seconds: float, tell: Tell) -> Preview:
    """Return what would be removed; nothing is removed."""
    found: dict[str, Tally] = {}
    for rule in RULES:
        tell(f"{rule.kind} that retention would remove")
        found[rule.kind] = await passes.preview(db, policy, rule)
    found["plans"] = Tally(*await db.read_in_background(lambda tx: kept_plans.unused(tx, policy.plans_days)))
    tell("orphans in the object store")
    lost = await orphans.sweep(db, objects, late_seconds, is_dry=True)
    return Preview(policy, found, {kind: lost.get(kind, Tally()) for kind in orphans.KINDS})


async def _total(tx: Tx, sql: LiteralString) -> Tally:
    row = await tx.one(sql)
    return Tally() if row is None else Tally(row["count"], int(row["bytes"] or 0))
