"""What the page of a module says besides its jobs: its turn after a changed output, and what was changed outside of its engine."""

from datetime import UTC, datetime

import msgspec

from terracrew.api.jobs import Job, JobStatus
from terracrew.api.modules import Module
from terracrew.errors import TerracrewError
from terracrew.plan_diff.document import DiffQuery
from terracrew.server.dashboard.context import DashboardContext
from terracrew.server.db.seam import Row, Tx
from terracrew.server.jobs import reads
from terracrew.server.jobs.plans import diff_store
from terracrew.server.jobs.plans.diff_store import StoredDiff
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb, Visible
from terracrew.server.principals.model import Principal
from terracrew.server.runs import plan_diff
from terracrew.server.tree.inputs import reads as trigger_reads

MAX_HOLDING = 5
"""How many of the modules that a module waits for are named."""
MAX_DRIFTED = 5
"""How many of the resources that were changed outside are named."""


class HoldingModule(msgspec.Struct, frozen=True):
    """A module that another one waits for before it is applied by itself."""

    text: str
    """What it waits for: `output vpc_id of module network, which is being changed`."""
    module_id: str = ""
    """Empty if the reader may not see it, or if it is the module itself."""


class BlockedTrigger(msgspec.Struct, frozen=True):
    """Why a module that has to be applied because of a changed output has not been queued."""

    since: datetime | None = None
    """Since when it waits for its turn; None if it does not."""
    holding: list[HoldingModule] = []
    problem: str = ""
    """Why the job could not be queued."""
    problem_at: datetime | None = None
    cause_job_id: str = ""


class Drift(msgspec.Struct, frozen=True):
    """What the last plan of a module has found to be changed outside of its engine."""

    job: Job
    count: int
    addresses: list[str]


async def read_turn(tx: Tx, who: Principal, module: Module) -> BlockedTrigger:
    since, problem = await trigger_reads.changed_at(tx, module.id), await trigger_reads.problem(tx, module.id)
    holding: list[HoldingModule] = []
    if since is not None:
        seen = await authorize.visible(tx, who, Verb.TREE_READ)
        holding = [_holding(row, seen) for row in await trigger_reads.holding(tx, module.id, MAX_HOLDING)]
    return BlockedTrigger(
        None if since is None else datetime.fromtimestamp(since, UTC),
        holding,
        problem["message"] if problem else "",
        datetime.fromtimestamp(problem["created_at"], UTC) if problem else None,
        problem["cause_job_id"] if problem else "",
    )


def _holding(row: Row, seen: Visible) -> HoldingModule:
    if row["is_itself"]:
        return HoldingModule("a run of its group" if row["is_in_run"] else "another change of this module")
    is_seen = seen.covers(authorize.module(row["organization_id"], row["path"]))
    name = f"module {row['path']}" if is_seen else "a module that you may not see"
    what = f"output {row['output']} of {name}" if row["output"] else name
    if row["has_open_change"]:
        why = "which is being changed"
    elif row["is_in_run"]:
        why = "which has its turn in the run of a group"
    else:
        why = "which waits for its own turn" if row["is_triggered"] else "whose last change did not succeed"
    return HoldingModule(f"{what}, {why}", row["id"] if is_seen else "")


async def find_drift(tx: Tx, module_id: str) -> tuple[Job, StoredDiff] | None:
    """Return the newest plan of a module, unless it was applied: that has undone or taken over what was changed outside."""
    job = await reads.newest_planned(tx, module_id)
    if job is None or (job.type != "PLAN" and job.status is JobStatus.SUCCEEDED):
        return None
    stored = await diff_store.get(tx, job.id)
    return None if stored is None else (job, stored)


async def read_drift(context: DashboardContext, who: Principal, found: tuple[Job, StoredDiff] | None) -> Drift | None:
    """Read what a plan has found to be changed outside; None if that is nothing, or cannot be read."""
    if found is None:
        return None
    job, stored = found
    try:
        query = DiffQuery("drift", count=MAX_DRIFTED)
        page = await plan_diff.page(context.objects, context.keys, context.diffs, who, stored, query)
    except TerracrewError:  # the page of the job says why; this page can be shown without it
        return None
    if not page.head.drift:
        return None
    return Drift(job, page.head.drift, [each.address for each in page.resources])
