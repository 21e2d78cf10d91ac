"""What is known of an attempt, for whoever has to say whether it is gone or whether its module may be changed again."""

from datetime import datetime

import msgspec

from terracrew.errors import NotFound
from terracrew.escapes import ESCAPES
from terracrew.protocol.spec import MUTATING, Step
from terracrew.server.db.mapping import row_to
from terracrew.server.db.seam import Tx
from terracrew.server.jobs import store
from terracrew.server.jobs.model import Outcome, StepRow
from terracrew.server.logs import chunks

LONGEST_LINE = 400


class Known(msgspec.Struct, frozen=True, kw_only=True):
    job_id: str
    number: int
    """Of the job."""
    attempt: int
    runner_path: str | None
    instance_name: str | None
    claimed_at: datetime
    started_at: datetime | None
    begun_at: datetime | None
    heard_at: datetime
    """When anything of it was last heard, to a few seconds."""
    lost_at: datetime | None
    ended_at: datetime | None
    outcome: Outcome | None
    reason: str
    is_gone: bool
    is_in_doubt: bool
    lines: int
    states: int
    """How many it wrote that have arrived."""
    serial: int | None
    """Of the newest of them."""
    state_at: datetime | None
    step: Step | None = None
    """The last one that it was in."""
    last_line: str = ""
    """Of its log, without colours."""
    may_miss_state: bool = False
    """Whether it may have written a state that has not arrived: it was last heard of in the middle of the change."""


async def known(tx: Tx, job_id: str, attempt: int) -> Known:
    row = await tx.one(
        """SELECT attempts.job_id, jobs.number, attempts.number AS attempt, attempts.claimed_at, attempts.begun_at,
            coalesce(attempts.heard_at, attempts.claimed_at) AS heard_at, attempts.started_at, attempts.lost_at,
            attempts.ended_at, attempts.outcome, attempts.reason, attempts.is_gone,
            attempts.is_in_doubt, attempts.lines,
            coalesce((SELECT path FROM runners WHERE runners.id = attempts.runner_id),
                (SELECT name FROM removed WHERE removed.id = attempts.runner_id)) AS runner_path,
            coalesce((SELECT name FROM instances WHERE instances.id = attempts.instance_id),
                (SELECT name FROM removed WHERE removed.id = attempts.instance_id)) AS instance_name,
            (SELECT count(*) FROM states WHERE states.job_id = attempts.job_id AND states.attempt = attempts.number) AS states,
            (SELECT max(serial) FROM states WHERE states.job_id = attempts.job_id AND states.attempt = attempts.number) AS serial,
            (SELECT max(created_at) FROM states
                WHERE states.job_id = attempts.job_id AND states.attempt = attempts.number) AS state_at
        FROM attempts JOIN jobs ON jobs.id = attempts.job_id
        WHERE attempts.job_id = :job_id AND attempts.number = :attempt""",
        job_id=job_id, attempt=attempt,
    )  # fmt: skip
    if row is None:
        raise NotFound(f"{job_id} has no attempt {attempt}")
    found = row_to(Known, row)
    steps = await store.steps(tx, job_id, attempt)
    latest = max(steps, key=lambda step: (step.started_at is not None, step.started_at), default=None)
    return msgspec.structs.replace(
        found,
        heard_at=max(filter(None, (found.heard_at, found.begun_at, found.started_at))),
        step=None if latest is None else latest.name,
        last_line=await _last_line(tx, job_id, attempt),
        may_miss_state=found.begun_at is not None and not found.is_gone and not _is_through(steps),
    )


def _is_through(steps: list[StepRow]) -> bool:
    """Whether it has said how its change ended. What it wrote before that was delivered before that."""
    return any(step.name in MUTATING and step.status in ("SUCCEEDED", "FAILED") for step in steps)


async def _last_line(tx: Tx, job_id: str, attempt: int) -> str:
    row = await tx.one(
        "SELECT data FROM log_chunks WHERE job_id = :job_id AND attempt = :attempt ORDER BY first DESC LIMIT 1",
        job_id=job_id, attempt=attempt,
    )  # fmt: skip
    if row is None:
        return ""
    text = ESCAPES.sub("", chunks.text(bytes(row["data"])).decode(errors="replace"))
    return next((line.strip()[:LONGEST_LINE] for line in reversed(text.splitlines()) if line.strip()), "")
