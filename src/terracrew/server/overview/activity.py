"""What has happened last: jobs that ended, and changes that people and the server made, as far as a reader may see both."""

from collections.abc import Sequence

import msgspec

from terracrew.api.audit import Entry
from terracrew.api.job_views import JobListed
from terracrew.api.overview import ActivityEntry
from terracrew.server.audit import reads as audit_reads
from terracrew.server.audit.reads import EntryFilter
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.jobs import reads as job_reads
from terracrew.server.overview import figures, reads
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb, Visible
from terracrew.server.principals.model import Principal
from terracrew.server.runs import attention
from terracrew.server.tree.groups import tree_path as paths
from terracrew.wording import audit_words, overview_words

MAX_ACTIVITIES = 10
MAX_JOBS_READ = 50
"""How many of the newest jobs that ended are looked at: a job that was created early may have ended late."""
MAX_ENTRIES_READ = 100
"""How many of the newest entries of the audit log are looked at, in each of the groups whose log the reader may see."""
MAX_ENTRIES_SCANNED = 500
"""How many entries of the topmost group of a path are looked at to find those: no index has the paths below a path."""
MAX_AUDITED_GROUPS = 5
_QUIET_FAMILIES = frozenset(
    {"archive", "attempt", "audit", "link", "login", "outputs", "password", "retention", "session", "single_sign_on"}
    | {"token", "token_exchange"}
)
"""Kinds of actions that the audit log has and nobody looks for here: reading, logging in, and what programs do for themselves."""
_QUIET_ACTIONS = frozenset(
    {"job.run", "runner.once_token_use", "runner.token_rotate", "state.read", "user.link", "user.password"}
)
"""A job that was queued shows itself."""


async def read(tx: Tx, who: Principal, places: Sequence[str]) -> list[ActivityEntry]:
    """Return what has happened last in these groups and below them, the newest first."""
    organization_id = who.organization_id or ""
    seen = await authorize.visible_by_verb(tx, who, Verb.JOB_READ, Verb.AUDIT_READ)
    found = [
        *await _jobs(tx, organization_id, seen[Verb.JOB_READ], places),
        *await _changes(tx, organization_id, seen[Verb.AUDIT_READ], places),
    ]
    return sorted(found, key=lambda each: each.at, reverse=True)[:MAX_ACTIVITIES]


async def _jobs(tx: Tx, organization_id: str, seen: Visible, places: Sequence[str]) -> list[ActivityEntry]:
    count = MAX_JOBS_READ if "" in places else attention.MAX_FAILED_READ_OF_PLACES
    newest = await job_reads.ids(tx, organization_id, seen, job_reads.JobFilter(is_ended=True), count)
    ended = [row for row in await reads.ends_of_jobs(tx, newest) if paths.is_within_any(row["path"], places)]
    last = sorted(ended, key=lambda row: row["finished_at"], reverse=True)[:MAX_ACTIVITIES]
    rows = await job_reads.rows(tx, job_reads.COLUMNS_OF_A_ROW, sorted(row["id"] for row in last))
    return [_of_job(row) for row in rows]


def _of_job(row: Row) -> ActivityEntry:
    job = row_to(JobListed, {**row, "plan": job_reads.plan_counts(row)})
    return ActivityEntry(
        at=job.finished_at or job.created_at,
        who=row["started_by"],
        text=overview_words.ended_job(job.type.value, job.number, job.status.value, job.plan),
        path=job.module_path,
        status=job.status,
        target_kind="job",
        target_id=job.id,
    )


async def _changes(tx: Tx, organization_id: str, seen: Visible, places: Sequence[str]) -> list[ActivityEntry]:
    """Return changes from the audit log of the topmost groups whose log the reader may see."""
    found: dict[str, Entry] = {}
    for path in figures.visible_paths(seen, organization_id, places)[:MAX_AUDITED_GROUPS]:
        wanted = EntryFilter(organization_id, path=path or None)
        page = await audit_reads.page(tx, wanted, "", MAX_ENTRIES_READ, scanned=MAX_ENTRIES_SCANNED)
        found |= {each.id: each for each in page.entries if _is_listed(each)}
    newest = sorted(found.values(), key=lambda each: each.id, reverse=True)[:MAX_ACTIVITIES]
    return [_of_change(each) for each in newest]


def _is_listed(entry: Entry) -> bool:
    return entry.action.partition(".")[0] not in _QUIET_FAMILIES and entry.action not in _QUIET_ACTIONS


def _of_change(entry: Entry) -> ActivityEntry:
    is_attempt = entry.target_kind == "attempt"
    return ActivityEntry(
        at=entry.created_at,
        who=entry.actor_name,
        text=audit_words.sentence(msgspec.to_builtins(entry)),
        path=entry.path,
        action=entry.action,
        target_kind="job" if is_attempt else entry.target_kind,
        target_id=entry.target_id.partition(".")[0] if is_attempt else entry.target_id,
    )
