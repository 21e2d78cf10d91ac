"""Rows of drift: modules with their checks, the addresses that differ, results, and mutes."""

from collections.abc import Mapping, Sequence
from typing import LiteralString

from terracrew.api.drift import DriftItem, DriftMute, DriftResult
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import to_params
from terracrew.server.db.statements.table import Table, assignments, excluded_assignments, values
from terracrew.server.drift.model import DriftModule

MODULES = Table("drift_modules", DriftModule)
ITEMS = Table("drift_items", DriftItem)
RESULTS = Table("drift_results", DriftResult)
MUTES = Table("drift_mutes", DriftMute)
_ASKED: tuple[LiteralString, ...] = (
    "due_at",
    "give_up_at",
    "asked_by",
    "asked_by_name",
    "schedule_id",
    "schedule_name",
    "is_refresh_only",
    "after_job_id",
)
_CHANGED: tuple[LiteralString, ...] = (
    *_ASKED,
    "job_id",
    "checked_at",
    "checked_job_id",
    "drifted",
    "drifted_since",
    "problem",
    "problem_at",
)


async def ask(tx: Tx, wanted: Sequence[DriftModule]) -> None:
    """Have modules checked. A check that is due already is replaced; one that runs goes on, and no other follows it."""
    await tx.each(
        MODULES.insert_batch("module_id", "organization_id", *_ASKED)
        + f""" ON CONFLICT (module_id) DO UPDATE SET {excluded_assignments(*_ASKED)}
            WHERE drift_modules.job_id IS NULL""",
        MODULES.types_of("module_id", "organization_id", *_ASKED),
        [
            values(each, "module_id", "organization_id", *_ASKED)
            for each in sorted(wanted, key=lambda each: each.module_id)
        ],
    )


async def hold(tx: Tx, module_id: str) -> DriftModule | None:
    """Read the drift of a module, and lock its row until the transaction ends."""
    return await MODULES.hold(tx, module_id=module_id)


async def get(tx: Tx, module_id: str) -> DriftModule | None:
    return await MODULES.find(tx, module_id=module_id)


async def save(tx: Tx, after: DriftModule) -> None:
    """Write the row of a module that the transaction holds."""
    await tx.run(
        f"UPDATE drift_modules SET {assignments(*_CHANGED)} WHERE module_id = :module_id",
        **to_params(after, "module_id", *_CHANGED),
    )


async def items(tx: Tx, module_id: str) -> dict[str, DriftItem]:
    """Return the addresses of a module that differ."""
    found = await ITEMS.all(tx, "FROM drift_items WHERE module_id = :id ORDER BY address", id=module_id)
    return {each.address: each for each in found}


async def replace_items(tx: Tx, module_id: str, before: Mapping[str, DriftItem], after: Sequence[DriftItem]) -> None:
    """Write which addresses of a module differ now, of which the transaction holds the row."""
    kept = {each.address for each in after}
    gone = sorted(address for address in before if address not in kept)
    await tx.each(
        "DELETE FROM drift_items WHERE (module_id, address) IN (SELECT module_id, address FROM batch)",
        {"module_id": "text", "address": "text"},
        [(module_id, address) for address in gone],
    )
    changed = [each for each in after if before.get(each.address) != each]
    update = excluded_assignments("action", "digest", "changed_at")
    await tx.each(
        ITEMS.insert_batch(*ITEMS.fields) + f" ON CONFLICT (module_id, address) DO UPDATE SET {update}",
        ITEMS.types,
        [values(each) for each in changed],
    )


async def insert_result(tx: Tx, result: DriftResult, kept: int) -> None:
    """Keep the result of a check, and the newest ones of its module."""
    await tx.run(
        RESULTS.insert() + " ON CONFLICT (job_id) DO NOTHING",
        **to_params(result, *RESULTS.fields),
    )
    await tx.run(
        """DELETE FROM drift_results WHERE module_id = :module_id AND job_id IN (
            SELECT job_id FROM drift_results WHERE module_id = :module_id
            ORDER BY checked_at DESC, job_id DESC LIMIT 1000 OFFSET :kept)""",
        module_id=result.module_id,
        kept=kept,
    )


async def results(tx: Tx, module_id: str, count: int) -> list[DriftResult]:
    """Return the newest results of a module."""
    return await RESULTS.all(
        tx,
        "FROM drift_results WHERE module_id = :id ORDER BY checked_at DESC, job_id DESC LIMIT :count",
        id=module_id,
        count=count,
    )


async def mute(tx: Tx, made: DriftMute) -> None:
    """Insert a mute, or replace the one of the same address."""
    update = excluded_assignments("id", "reason", "until", "created_by", "created_by_name", "created_at")
    await tx.run(
        MUTES.insert() + f" ON CONFLICT (module_id, address) DO UPDATE SET {update}",
        **to_params(made, *MUTES.fields),
    )


async def get_mute(tx: Tx, mute_id: str) -> DriftMute | None:
    return await MUTES.find(tx, id=mute_id)


async def delete_mute(tx: Tx, mute_id: str) -> bool:
    return await tx.run("DELETE FROM drift_mutes WHERE id = :id", id=mute_id) == 1


async def mutes(tx: Tx, module_id: str) -> list[DriftMute]:
    return await MUTES.all(tx, "FROM drift_mutes WHERE module_id = :id ORDER BY address", id=module_id)


async def count_mutes(tx: Tx, module_id: str) -> int:
    return await tx.value("SELECT count(*) AS found FROM drift_mutes WHERE module_id = :id", id=module_id)
