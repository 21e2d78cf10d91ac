"""A module with what blocks its jobs (doubts, holds, states in quarantine, locks) and what decides which runners may have them."""

from collections.abc import Sequence

import msgspec

from terracrew.api.job_views import HeldLock, HeldModuleListed, HoldView, ModuleHold, Placement, RunningLimit
from terracrew.api.module_views import ModuleListed, ModuleView, NewestJob, Quarantined
from terracrew.api.modules import Module
from terracrew.protocol.dispatcher_choice import DispatcherChoice
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.mapping import row_to, rows_to
from terracrew.server.history import reads as history_reads
from terracrew.server.history import store as history_store
from terracrew.server.jobs import service as jobs
from terracrew.server.jobs.attempts import reads as attempt_reads
from terracrew.server.principals.model import Principal
from terracrew.server.runs import attempt_report, reads
from terracrew.server.state import locks
from terracrew.server.state import reads as state_reads
from terracrew.server.tree.groups import reads as level_reads
from terracrew.server.tree.groups.inheritance import effective, origins
from terracrew.server.tree.inputs import dependencies
from terracrew.server.tree.modules import policy
from terracrew.server.tree.modules import reads as module_reads

MAX_QUARANTINED = 100
"""How many states in quarantine one view of a module shows."""
MAX_HELD_MODULES = 500
"""How many modules the view of a hold shows, those first that are known to have been changed."""


async def listed(tx: Tx, modules: Sequence[Module]) -> list[ModuleListed]:
    """Return modules with their newest jobs."""
    rows = {row["id"]: row for row in await module_reads.with_newest_job(tx, [each.id for each in modules])}
    return [
        ModuleListed(
            **msgspec.structs.asdict(each),
            newest_job=_newest_job(rows[each.id]),
            is_in_doubt=bool(rows[each.id]["is_in_doubt"]),
        )
        for each in modules
    ]


def _newest_job(row: Row) -> NewestJob | None:
    if row["job_id"] is None:
        return None
    return row_to(NewestJob, {name: row[f"job_{name}"] for name in NewestJob.__struct_fields__})


async def is_in_doubt(tx: Tx, module_id: str) -> bool:
    """Return whether every plan of a module waits for a person, because of an attempt or since the database was set back."""
    found = await holds(tx, module_id)
    return any(each.is_in_doubt for each in found) or bool(await attempt_reads.in_doubt(tx, module_id))


async def view(tx: Tx, module: Module, reader: Principal | None) -> ModuleView:
    rows = await state_reads.quarantined_states(tx, module.id, MAX_QUARANTINED)
    above = [(each.path, each.dispatcher) for each in await level_reads.lineage(tx, module.group_id)]
    choices = [(module.path, module.dispatcher), *above]
    decided = origins(DispatcherChoice, choices)
    return ModuleView(
        **msgspec.structs.asdict(module),
        doubts=await attempt_report.doubts(tx, module.id),
        holds=await holds(tx, module.id),
        quarantined=rows_to(Quarantined, rows),
        lock=await jobs.lock(tx, module.id),
        lock_doubt=await locks.doubt(tx, module.id),
        held_lock=await held_lock(tx, module.id, module.backend),
        applying_dispatcher=effective(DispatcherChoice, [each for _, each in choices]),
        dispatcher_from={field: path for field, path in decided.items() if path != module.path},
        approval_rules=list((await policy.of_module(tx, module.id)).rules),
        placement=await placement(tx, module.id),
        used_by=await dependencies.users(tx, reader, module.id),
    )


async def placement(tx: Tx, module_id: str) -> Placement:
    row = await reads.module_placement(tx, module_id)
    assert row is not None
    return await placement_of(tx, row)


async def placement_of(tx: Tx, row: Row) -> Placement:
    """Return the placement of a module whose columns were read already."""
    groups = await level_reads.lineage(tx, row["group_id"])
    return Placement(
        row["pinned_runner_path"],
        row["runner_instance_name"],
        msgspec.json.decode(row["tags"], type=list[str]),
        [RunningLimit(each.path, each.max_running_jobs) for each in groups if each.max_running_jobs is not None],
    )


async def held_lock(tx: Tx, module_id: str, backend: str) -> HeldLock | None:
    """Return the last attempt that may have left the lock behind; None after a later one has taken the lock and released it."""
    if backend != "own":
        return None
    row = await reads.held_lock(tx, module_id)
    return None if row is None else row_to(HeldLock, row)


async def open_hold(tx: Tx) -> HoldView:
    hold = await history_store.open_hold(tx)
    if hold is None:
        return HoldView(is_held=False)
    counts = await history_reads.held_counts(tx, hold.id)
    rows = await history_reads.held_modules(tx, hold.id, MAX_HELD_MODULES)
    return HoldView(True, hold, counts["held"], counts["changed"], rows_to(HeldModuleListed, rows))


async def holds(tx: Tx, module_id: str) -> list[ModuleHold]:
    """Return the holds because of which a module is held or in doubt."""
    return rows_to(ModuleHold, await history_reads.holds_of_module(tx, module_id))
