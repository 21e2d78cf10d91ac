"""What needs a person, as far as a reader may see it: plans to approve, failures, lost changes, and jobs that wait.

Each list is short, and only a bounded number of jobs is looked at, so that the first page after a login costs the same in an
organization with ten thousand jobs.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from terracrew.api.jobs import JobStatus
from terracrew.protocol.events import PlanSummary
from terracrew.server.db.seam import Row, Tx
from terracrew.server.jobs import reads as job_reads
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb, Visible
from terracrew.server.principals.model import Principal
from terracrew.server.runs import reads as run_reads
from terracrew.server.runs import to_approve
from terracrew.server.runs.reasons import SILENT_AFTER_SECONDS
from terracrew.server.tree.groups import tree_path

MAX_LISTED = 10
"""How many things of each kind are listed; one more is read, to know whether there are more."""
MAX_APPROVALS_READ = 100
"""How many plans are read to find those that the reader may approve."""
MAX_FAILED_READ = 50
"""How many of the newest failed jobs are looked at. Those of modules that have had a later job need nobody."""
MAX_FAILED_READ_OF_PLACES = 500
"""How many of them are looked at for some places only, because those of other places are left out afterwards."""
MAX_QUEUED_READ = 100
"""How many of the jobs that wait longest are looked at, to find those that wait for a person."""
MAX_UNFILTERED_READ = 1_000
"""How many rows of a kind that is rare are read before those are left out that the reader may not see."""
_plan = msgspec.json.Decoder(PlanSummary)


class TroubledModule(msgspec.Struct, frozen=True):
    """A module that is in doubt or has a state in quarantine."""

    id: str
    path: str
    since: datetime
    count: int
    """The number of the job that was cut short, or how many states are in quarantine."""


class Attention(msgspec.Struct, frozen=True):
    """The ids of jobs, and modules, that need a person; up to one more than MAX_LISTED of each."""

    to_approve: list[str]
    """Jobs whose plan the reader may approve now, the oldest first."""
    stale: list[str]
    """Jobs whose plan nobody can approve, because the state has changed: the reader may let them plan again."""
    failed: list[str]
    """Failed jobs whose module has had no job since, the newest first."""
    out_of_contact: list[str]
    """Active jobs that may be lost: their reason says whether they are."""
    in_doubt: list[TroubledModule]
    quarantined: list[TroubledModule]
    queued: list[str]
    """The jobs that wait longest: their reason says whether it is for a person. Up to MAX_QUEUED_READ."""


async def read(tx: Tx, who: Principal, places: Sequence[str] = ("",)) -> Attention:
    """Return what needs a person in these groups and below them; the empty path is the whole organization."""
    organization_id, most = who.organization_id or "", MAX_LISTED + 1
    is_everywhere = "" in places
    seen = await authorize.visible_by_verb(tx, who, Verb.JOB_READ, Verb.JOB_RUN)
    readable = seen[Verb.JOB_READ]
    failed = await job_reads.ids(
        tx,
        organization_id,
        readable,
        job_reads.JobFilter(status=JobStatus.FAILED),
        MAX_FAILED_READ if is_everywhere else MAX_FAILED_READ_OF_PLACES,
    )
    newest = await job_reads.newest_of_modules(tx, failed)
    silent = await run_reads.out_of_contact(tx, organization_id, tx.now - SILENT_AFTER_SECONDS, MAX_UNFILTERED_READ)
    in_doubt = await run_reads.modules_in_doubt(tx, organization_id, MAX_UNFILTERED_READ)
    quarantined = await run_reads.modules_with_quarantine(tx, organization_id, MAX_UNFILTERED_READ)
    to_see = await to_approve.job_ids(tx, who, MAX_APPROVALS_READ)
    stale = await _stale(tx, organization_id, seen[Verb.JOB_RUN], most if is_everywhere else MAX_APPROVALS_READ)
    left = [each for each in failed if each in newest]
    queued = await run_reads.oldest_queued(tx, organization_id, readable, MAX_QUEUED_READ)
    if not is_everywhere:
        paths = await run_reads.module_paths(tx, {*to_see, *stale, *left, *queued})
        to_see, stale, left, queued = (
            [each for each in ids if tree_path.is_within_any(paths.get(each, ""), places)]
            for ids in (to_see, stale, left, queued)
        )

    def visible(rows: list[Row]) -> list[Row]:
        return [
            row for row in _visible(rows, readable, organization_id) if tree_path.is_within_any(row["path"], places)
        ][:most]

    return Attention(
        to_approve=to_see[:most],
        stale=stale[:most],
        failed=left[:most],
        out_of_contact=[row["id"] for row in visible(silent)],
        in_doubt=[_troubled(row, row["number"]) for row in visible(in_doubt)],
        quarantined=[_troubled(row, row["states"]) for row in visible(quarantined)],
        queued=queued,
    )


async def plans(tx: Tx, job_ids: list[str]) -> dict[str, PlanSummary]:
    """Return the summaries of the plans of these jobs, by job."""
    rows = await run_reads.plan_summaries(tx, job_ids)
    return {row["id"]: _plan.decode(row["plan"]) for row in rows if row["plan"]}


async def _stale(tx: Tx, organization_id: str, seen: Visible, most: int) -> list[str]:
    if seen.is_nothing:
        return []
    return [row["id"] for row in await run_reads.awaiting_approval(tx, organization_id, seen, most, is_stale=True)]


def _visible(rows: list[Row], seen: Visible, organization_id: str) -> list[Row]:
    return [row for row in rows if seen.covers(authorize.module(organization_id, row["path"]))]


def _troubled(row: Row, count: int) -> TroubledModule:
    return TroubledModule(row["id"], row["path"], datetime.fromtimestamp(row["since"], UTC), count)
