"""Asks a connected runner for the update that its row wants, and stores what it reports about updates and trials."""

from terracrew.protocol import messages
from terracrew.server.connections import store as instance_store
from terracrew.server.connections.registry import RunnerSession
from terracrew.server.db.seam import Tx
from terracrew.server.hub.runners.context import RunnerContext
from terracrew.server.runner_updates import service
from terracrew.server.runner_updates.model import MAX_WORDS_CHARACTERS, plain_line


async def send(hub: RunnerContext, session: RunnerSession, update_id: str | None) -> None:
    """Ask for an open update, once on each connection."""
    if not update_id or not session.is_self_updating or session.sent_update == update_id:
        return
    message = await hub.db.read(lambda tx: service.update_message(tx, update_id))
    if message is not None and session.sent_update != update_id:
        session.sent_update = update_id
        session.socket.post(message)


async def take_report(hub: RunnerContext, session: RunnerSession, report: messages.UpdateReport) -> None:
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
