"""Answers a runner that had nothing to do and asks whether its process may end."""

from terracrew.errors import Unavailable
from terracrew.logging import get_logger
from terracrew.protocol import messages
from terracrew.server.cloud_hosted import leaving
from terracrew.server.connections.registry import RunnerSession
from terracrew.server.hub.runners.context import RunnerContext

log = get_logger("terracrew.hub")


async def answer(hub: RunnerContext, session: RunnerSession, idle_seconds: float) -> None:
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
    hub.scheduler.serve(session)
