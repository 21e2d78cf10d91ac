"""Counts what is stored: numbers and bytes by kind, the largest modules, and what retention would remove.

Each query reads a whole table, outside the event loop. The queries run one after the other, so progress can be shown.
"""

from collections.abc import Callable

from terracrew.api.operations import ModuleUsage, OrganizationUsage, Preview, RetentionPolicy, Tally, Usage
from terracrew.server.db.seam import Database, Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.objects import Objects
from terracrew.server.retention import kept_plans, orphans, passes, usage_reads
from terracrew.server.retention.rules import RULES
from terracrew.server.tree.groups import quota_reads

MAX_LARGEST_MODULES = 10


Tell = Callable[[str], None]
"""A function that is called with a description of what is being counted."""


async def usage(db: Database, objects: Objects, policy: RetentionPolicy, late_seconds: float, tell: Tell) -> Usage:
    kinds: dict[str, Tally] = {}
    for kind in usage_reads.KINDS:
        tell(kind)
        kinds[kind] = await db.read_in_background(lambda tx, kind=kind: _total(tx, kind))
    tell("the largest modules")
    modules = await db.read_in_background(lambda tx: usage_reads.largest_modules(tx, MAX_LARGEST_MODULES))
    tell("organizations")
    organizations = await db.read_in_background(quota_reads.by_organization)
    size = await db.read_in_background(lambda tx: usage_reads.database_bytes(tx, db.kind))
    reclaimable = await preview(db, objects, policy, late_seconds, tell)
    last = await db.read(passes.last_runs)
    return Usage(
        size, kinds, rows_to(ModuleUsage, modules), rows_to(OrganizationUsage, organizations), reclaimable, last
    )


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


async def _total(tx: Tx, kind: str) -> Tally:
    row = await usage_reads.total(tx, kind)
    return Tally() if row is None else Tally(row["count"], int(row["bytes"] or 0))
