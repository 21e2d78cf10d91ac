"""Which of many PLAN jobs have a plan that another job can apply, and why the others have not."""

from collections.abc import Iterable

import msgspec

from terracrew.api.jobs import Job, JobStatus, Plan
from terracrew.protocol.spec import JobType, Source
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.jobs.plans import decide_plan
from terracrew.server.runs import reads
from terracrew.wording import plan_words

_source = msgspec.json.Decoder(Source)


async def problems(tx: Tx, jobs: Iterable[Job]) -> dict[str, str]:
    """Return why the plan of each PLAN job that would change something cannot be applied, by the id of the job; '' if it can be."""
    planned = [job for job in jobs if _is_planned(job)]
    if not planned:
        return {}
    rows = {row["asked_id"]: row for row in await reads.plans_of_jobs(tx, [job.id for job in planned])}
    now = tx.moment
    found: dict[str, str] = {}
    for job in planned:
        row = rows[job.id]
        plan = None if row["job_id"] is None else row_to(Plan, row)
        source, version = _source.decode(row["module_source"]), row["module_state_version"]
        found[job.id] = decide_plan.refusal_to_apply(job, plan, state_version=version, source=source, now=now) or ""
    return found


def _is_planned(job: Job) -> bool:
    return job.type is JobType.PLAN and job.status is JobStatus.SUCCEEDED and plan_words.has_changes(job.plan)
