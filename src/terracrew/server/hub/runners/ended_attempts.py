"""Attempts that have ended according to their runner: it reports them, or it comes back without them."""

import asyncio
import contextlib
from collections.abc import Iterable
from datetime import datetime

from terracrew.logging import get_logger
from terracrew.protocol import messages
from terracrew.protocol.messages import AttemptRef
from terracrew.server.connections import reads as instance_reads
from terracrew.server.connections.registry import RunnerSession
from terracrew.server.db.availability import retry_when_back
from terracrew.server.hub.context import ConnectionContext
from terracrew.server.jobs import decide
from terracrew.server.jobs import service as jobs

LEAVING_SECONDS = 5.0
"""How long a report waits for the attempt's executor to disconnect."""
log = get_logger("terracrew.hub")


async def requeue_missing(hub: ConnectionContext, missing: Iterable[AttemptRef]) -> None:
    """Requeue attempts that the runner was granted but does not report, unless their executor is connected."""
    reason = "its runner came back without it"
    for ref in missing:
        if ref not in hub.registry.executors and not await _is_elsewhere(hub, ref):
            await jobs.settle(hub.db, ref, lambda job, attempt, now: decide.missing(job, attempt, reason, now))


async def _is_elsewhere(hub: ConnectionContext, ref: AttemptRef) -> bool:
    """Return whether another server has the attempt's executor, as far as is known here."""
    return await hub.db.read(lambda tx: instance_reads.is_elsewhere(tx, ref, hub.server_id))


async def _has_left(hub: ConnectionContext, ref: AttemptRef) -> bool:
    """Wait until the attempt's executor has disconnected: the runner's report may arrive before the end of that connection."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LEAVING_SECONDS):
            while executor := hub.registry.executors.get(ref):
                await executor.has_left.wait()
            while await retry_when_back(hub.db, lambda: _is_elsewhere(hub, ref)):  # noqa: ASYNC110 - another process knows
                await asyncio.sleep(0.5)
            return True
    return False


async def gone(hub: ConnectionContext, session: RunnerSession, ref: AttemptRef, message: messages.Gone) -> None:
    """Take the report of an attempt whose processes have exited."""
    try:
        report = decide.Report(message.reason, message.last, message.is_delivered)
        await settle(hub, session, ref, report, message.saw_process)
    finally:
        session.ending.discard(ref)


async def settle(
    hub: ConnectionContext, session: RunnerSession, ref: AttemptRef, report: decide.Report, saw_process: bool
) -> None:
    """Take a report that an attempt has ended. A runner can report only its own attempts, and not while the executor delivers."""
    if not await _has_left(hub, ref):
        log.warning("said to be gone, but connected", job=ref.job_id, attempt=ref.attempt)
        return  # it is not acknowledged, so the runner repeats it

    is_orphaned = await retry_when_back(hub.db, lambda: hub.db.read(lambda tx: instance_reads.has_no_instance(tx, ref)))

    def decision(job: jobs.Job, attempt: jobs.Attempt, now: datetime) -> decide.Decision | None:
        is_own = attempt.instance_id == session.instance_id
        if not is_own and not (is_orphaned and attempt.runner_id == session.runner_id):
            return None
        if saw_process:
            return decide.gone(job, attempt, report, now)
        return decide.hand_back(job, attempt, report.reason, now)

    await retry_when_back(hub.db, lambda: jobs.settle(hub.db, ref, decision))
    session.reported_attempts.discard(ref)
    session.granted.discard(ref)
    session.socket.post(messages.Settled(ref.job_id, ref.attempt))
