"""Takes what a runner says besides the ends of its attempts: what their starts wait for, that it may leave, and how updates went."""

import contextlib
from collections.abc import Sequence
from datetime import datetime

from terracrew import ids
from terracrew.errors import Unavailable
from terracrew.logging import get_logger
from terracrew.protocol import limits, messages
from terracrew.protocol.messages import AttemptRef, WaitingStart
from terracrew.server.cloud_hosted import leaving
from terracrew.server.connections import store as instance_store
from terracrew.server.connections.registry import RunnerSession
from terracrew.server.db.seam import Tx
from terracrew.server.hub.runners.context import RunnerContext
from terracrew.server.jobs import decide
from terracrew.server.jobs import service as jobs
from terracrew.server.runner_updates import service
from terracrew.server.runner_updates.model import MAX_WORDS_CHARACTERS, plain_line
from terracrew.wording.escapes import plain

MAX_REASON_CHARACTERS = 500
log = get_logger("terracrew.hub")


async def note_starts(hub: RunnerContext, session: RunnerSession, starting: Sequence[WaitingStart]) -> None:
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


async def answer_leave(hub: RunnerContext, session: RunnerSession, idle_seconds: float) -> None:
    """Decide whether the process may end. While that is decided, and afterwards if it may, no job is claimed for it."""
    if session.is_leaving:
        return
    if session.reserved or session.active_jobs:
        session.socket.post(messages.LeaveAnswer(False, "a job is on its way to it"))
        return
    session.is_leaving = True
    idle = leaving.Idle(session.runner_id, session.instance_id, session.name, session.epoch, idle_seconds)
    try:
        reason = await hub.db.write(lambda tx: leaving.leave(tx, idle))
    except BaseException:
        # Whether it was let go is not known. A new connection takes jobs again, whatever was decided about this one.
        session.socket.give_up(Unavailable("the server could not decide whether this runner may leave; connect again"))
        raise
    if reason:
        session.is_leaving = False
    else:
        log.info("runner leaves", runner=session.runner_id, instance=session.name)
    session.socket.post(messages.LeaveAnswer(not reason, reason))
    hub.scheduler.serve_soon(session)


async def send_update(hub: RunnerContext, session: RunnerSession, update_id: str | None) -> None:
    """Ask for an open update, once on each connection."""
    if not update_id or not session.is_self_updating or session.sent_update == update_id:
        return
    message = await hub.db.read(lambda tx: service.update_message(tx, update_id))
    if message is not None and session.sent_update != update_id:
        session.sent_update = update_id
        session.socket.post(message)


async def take_update_report(hub: RunnerContext, session: RunnerSession, report: messages.UpdateReport) -> None:
    await hub.db.write(lambda tx: service.store_report(tx, session.instance_id, report))


async def take_trial(hub: RunnerContext, session: RunnerSession, report: messages.TrialReport) -> None:
    words = plain_line(report.words, MAX_WORDS_CHARACTERS)

    async def work(tx: Tx) -> None:
        await instance_store.set_trial(
            tx, session.runner_id, session.instance_id, session.epoch, is_passed=report.is_passed, words=words
        )

    await hub.db.write(work)
    if report.is_passed:  # the heartbeat that follows says that it takes jobs
        session.is_on_trial = False
