"""Takes what a runner says of the starts of its attempts: what they wait for, and which executors run and have not connected."""

import contextlib
from collections.abc import Sequence
from datetime import datetime

from terracrew import ids
from terracrew.errors import Unavailable
from terracrew.logging import get_logger
from terracrew.protocol import limits
from terracrew.protocol.messages import AttemptRef, WaitingStart
from terracrew.server.connections.registry import RunnerSession
from terracrew.server.hub.runners.context import RunnerContext
from terracrew.server.jobs import decide
from terracrew.server.jobs import service as jobs
from terracrew.wording.escapes import plain

MAX_REASON_CHARACTERS = 500
log = get_logger("terracrew.hub")


async def note(hub: RunnerContext, session: RunnerSession, starting: Sequence[WaitingStart]) -> None:
    """Record what the starts of attempts wait for, where that has changed, and give up those whose executor does not connect."""
    waiting = {
        AttemptRef(ids.parse("job", each.job_id), each.attempt): each for each in starting[: limits.MAX_CAPACITY]
    }
    waiting = {ref: each for ref, each in waiting.items() if ref not in hub.registry.executors}
    said = {ref: plain(each.reason)[:MAX_REASON_CHARACTERS] for ref, each in waiting.items()}
    changed = {ref: said.get(ref, "") for ref, _ in said.items() ^ session.starting.items()}
    with contextlib.suppress(Unavailable):  # the next heartbeat says it again
        if changed:
            await jobs.note_starts(hub.db, session.instance_id, changed)
            session.starting = said
        for ref, each in waiting.items():
            # After a restart of the server, executors have the whole time again.
            seconds = min(each.running_seconds, hub.registry.watched_for)
            if seconds >= decide.CONNECT_WITHIN.total_seconds() and ref not in session.judged_starts:
                await _give_up(hub, session, ref, said[ref])
    session.judged_starts &= waiting.keys()


async def _give_up(hub: RunnerContext, session: RunnerSession, ref: AttemptRef, said: str) -> None:
    """Queue a job again whose executor has never connected, and let the runner end the executor. Others connected to another server."""
    words = f"its executor did not connect within {decide.CONNECT_WITHIN.total_seconds() / 60:.0f} minutes"

    def decision(job: jobs.Job, attempt: jobs.Attempt, now: datetime) -> decide.Decision | None:
        is_own = attempt.instance_id == session.instance_id
        return decide.unconnected(job, attempt, f"{words}: {said}", now) if is_own else None

    if await jobs.settle(hub.db, ref, decision):
        log.warning("its executor does not connect", job=ref.job_id, attempt=ref.attempt)
        session.cancel(ref, "kill")
    session.judged_starts.add(ref)
