"""A module with what blocks its jobs: doubts, states in quarantine, and the job that holds its lock."""

from collections.abc import Sequence

import msgspec

from terracrew.api.module_views import ModuleListed, ModuleView, NewestJob, Quarantined
from terracrew.api.modules import Module
from terracrew.protocol.dispatcher_choice import DispatcherChoice
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.mapping import row_to, rows_to
from terracrew.server.jobs import service as jobs
from terracrew.server.jobs.attempts import reads as attempt_reads
from terracrew.server.principals.model import Principal
from terracrew.server.runs import attempt_report, held_lock, holds, placement, reads
from terracrew.server.tree.groups import reads as level_reads
from terracrew.server.tree.groups.inheritance import effective, origins
from terracrew.server.tree.inputs import dependencies
from terracrew.server.tree.modules import policy
from terracrew.server.tree.modules import reads as module_reads

MAX_QUARANTINED = 100
"""How many states in quarantine one view of a module shows."""


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
    found = await holds.of_module(tx, module_id)
    return any(each.is_in_doubt for each in found) or bool(await attempt_reads.in_doubt(tx, module_id))


async def view(tx: Tx, module: Module, reader: Principal | None) -> ModuleView:
    rows = await reads.quarantined_states(tx, module.id, MAX_QUARANTINED)
    above = [(each.path, each.dispatcher) for each in await level_reads.lineage(tx, module.group_id)]
    choices = [(module.path, module.dispatcher), *above]
    decided = origins(DispatcherChoice, choices)
    return ModuleView(
        **msgspec.structs.asdict(module),
        doubts=await attempt_report.doubts(tx, module.id),
        holds=await holds.of_module(tx, module.id),
        quarantined=rows_to(Quarantined, rows),
        lock=await jobs.lock(tx, module.id),
        held_lock=await held_lock.of_module(tx, module.id, module.backend),
        applying_dispatcher=effective(DispatcherChoice, [each for _, each in choices]),
        dispatcher_from={field: path for field, path in decided.items() if path != module.path},
        approval_rules=list((await policy.of_module(tx, module.id)).rules),
        placement=await placement.of_module(tx, module.id),
        used_by=await dependencies.users(tx, reader, module.id),
    )
