"""A module with what blocks its jobs: doubts, states in quarantine, and the job that holds its lock."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from terracrew.api.groups import ApprovalRule
from terracrew.api.modules import Module
from terracrew.protocol.dispatcher_choice import DispatcherChoice
from terracrew.protocol.spec import JobType
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.mapping import row_to, rows_to
from terracrew.server.jobs import service as jobs
from terracrew.server.jobs.attempts import reads as attempt_reads
from terracrew.server.jobs.model import JobStatus, Lock
from terracrew.server.principals.model import Principal
from terracrew.server.runs import attempt_report, held_lock, holds, placement, reads
from terracrew.server.runs.held_lock import HeldLock
from terracrew.server.runs.holds import ModuleHold
from terracrew.server.runs.model import AttemptReport
from terracrew.server.runs.placement import Placement
from terracrew.server.tree.groups import dispatchers, level_reads
from terracrew.server.tree.inputs import dependencies
from terracrew.server.tree.modules import policy
from terracrew.server.tree.modules import reads as module_reads

MAX_QUARANTINED = 100
"""How many states in quarantine one view of a module shows."""


class Quarantined(msgspec.Struct, frozen=True):
    """A state that a person must adopt or discard before the module plans again."""

    id: str
    job_id: str
    number: int
    """The number of the job."""
    attempt: int
    serial: int
    created_at: datetime
    problem: str = ""
    """Why it cannot be adopted: it cannot be read, or the module's own backend did not accept it."""


class ModuleView(Module, frozen=True, kw_only=True):
    doubts: list[AttemptReport]
    """Attempts after which a change may be unaccounted for: every plan waits for a person."""
    holds: list[ModuleHold]
    """Why the module is held or in doubt since the server's database was set back."""
    quarantined: list[Quarantined]
    """The oldest 100 at most; the list of the module's states has all of them."""
    lock: Lock | None
    held_lock: HeldLock | None
    """The attempt that may have left the lock of the module's own backend behind."""
    applying_dispatcher: DispatcherChoice
    """What its next job asks of the dispatcher of its runner: what the module says itself, and what the groups above it say."""
    dispatcher_from: dict[str, str]
    """Which group decides about a field of `applying_dispatcher` that the module does not have itself: its path, which is empty
    for the organization."""
    approval_rules: list[ApprovalRule]
    """The approval rules that apply to it, each with the place that it comes from: of all places from the organization down to the
    module, the strictest."""
    placement: Placement
    """Which runners may have its jobs, and the limits of its groups."""
    used_by: list[str]
    """The paths of the modules that use its outputs, 100 at most. Those that you may not see are counted, but not named."""


class NewestJob(msgspec.Struct, frozen=True):
    """The job of a module that was created last."""

    id: str
    number: int
    type: JobType
    status: JobStatus
    at: datetime
    """When it ended, else when it started, else when it was created."""


class ModuleListed(Module, frozen=True, kw_only=True):
    """A module in a list."""

    newest_job: NewestJob | None = None
    is_in_doubt: bool = False
    """Whether every plan of it waits for a person."""


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
    return ModuleView(
        **msgspec.structs.asdict(module),
        doubts=await attempt_report.doubts(tx, module.id),
        holds=await holds.of_module(tx, module.id),
        quarantined=rows_to(Quarantined, rows),
        lock=await jobs.lock(tx, module.id),
        held_lock=await held_lock.of_module(tx, module.id, module.backend),
        applying_dispatcher=dispatchers.applying([*(each for _, each in reversed(above)), module.dispatcher]),
        dispatcher_from=dispatchers.inherited(module.dispatcher, above),
        approval_rules=list((await policy.of_module(tx, module.id)).rules),
        placement=await placement.of_module(tx, module.id),
        used_by=await dependencies.users(tx, reader, module.id),
    )
