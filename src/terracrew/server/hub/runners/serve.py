"""Serves a connected runner: its credits, its heartbeats, and what it reports of its attempts."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import msgspec

from terracrew import ids
from terracrew.errors import Invalid, Unauthenticated
from terracrew.logging import get_logger
from terracrew.protocol import limits, messages, version
from terracrew.protocol.messages import AttemptRef
from terracrew.server.connections import store as instance_store
from terracrew.server.connections.registry import RunnerSession
from terracrew.server.connections.socket import HubSocket
from terracrew.server.db.availability import retry_when_back
from terracrew.server.db.seam import Tx
from terracrew.server.hub.runners import (
    arrival,
    ended_attempts,
    instances,
    reports,
    takeover,
)
from terracrew.server.hub.runners.context import RunnerContext
from terracrew.server.identity.bearer import principal_from_bearer
from terracrew.server.jobs import decide
from terracrew.server.principals.model import Principal

MAX_TASKS = 256
"""The most reports of one runner that are processed at once; beyond that, its frames are not read."""
log = get_logger("terracrew.hub")


async def serve(hub: RunnerContext, socket: HubSocket, principal: Principal) -> None:
    frame = await socket.hello()
    if frame is None:
        return
    protocol = version.greeted(frame, kind="runner")
    hello = _decoded(frame)
    assert isinstance(hello, messages.RunnerHello)
    session, place = await arrival.take_place(hub, socket, principal, hello)
    try:
        await arrival.welcome(hub, session, place, protocol)
        while (frame := await socket.receive()) is not None:
            await _take(hub, session, _decoded(frame))
    finally:
        await asyncio.shield(_disconnect(hub, session))


def _decoded(frame: str | bytes) -> messages.FromRunner:
    if isinstance(frame, bytes):
        raise Invalid("a runner must send text frames")
    return messages.decode_from_runner(frame)


async def _disconnect(hub: RunnerContext, session: RunnerSession) -> None:
    if hub.registry.remove(session):  # else a newer connection of the same instance has taken its place
        hub.scheduler.left(session)
        if _let_go(hub, session.socket):
            await retry_when_back(hub.db, lambda: instances.disconnect(hub.db, session))
        log.info("runner gone", runner=session.runner_id, instance=session.name)


def _let_go(hub: RunnerContext, socket: HubSocket) -> bool:
    """Return whether its process disconnected by itself, and not because this server stops or the process was silent."""
    return not (socket.is_silent or socket.is_left_by_us or (hub.closing.is_set() and socket.is_open))


async def _take(hub: RunnerContext, session: RunnerSession, message: messages.FromRunner) -> None:
    if hub.registry.may_hang(session):  # nothing was claimed for it since then, and jobs may wait for it
        hub.scheduler.serve_soon(session)
    hub.registry.note_contact(session)
    if session.is_asked:
        session.is_asked = False
        hub.tasks.start(takeover.answer(hub.db, session))
    match message:
        case messages.Heartbeat():
            await _heartbeat(hub, session, message)
        case messages.HandBack():
            ref, now = AttemptRef(ids.parse("job", message.job_id), message.attempt), time.monotonic()
            session.pauses.add(ref.job_id, message.pause_seconds, now)
            session.pauses.add(message.choice, message.choice_pause_seconds, now)
            await ended_attempts.settle(hub, session, ref, decide.Report(message.reason), saw_process=False)
        case messages.Gone():
            ref = AttemptRef(ids.parse("job", message.job_id), message.attempt)
            if ref in session.ending:
                return  # the runner repeats its report while the database is slow or away; the first one is answered when it is stored
            session.ending.add(ref)
            await _in_task(hub, ended_attempts.gone(hub, session, ref, message), len(session.ending))
        case messages.Credits():
            was_free = session.free > 0
            hub.registry.set_credits(session, message)
            if session.free > 0 and not was_free:  # else it is served already
                hub.scheduler.serve_soon(session)
        case messages.Leave():
            if not session.may_leave:
                raise Invalid("a runner that asks to leave must say so in its hello")
            hub.tasks.start(reports.answer_leave(hub, session, message.idle_seconds))
        case messages.UpdateReport():
            await reports.take_update_report(hub, session, message)
        case messages.TrialReport():
            await reports.take_trial(hub, session, message)
        case messages.Renew():
            await _renew(hub, session, message)
        case messages.RunnerHello():
            raise Invalid("a connection may send only one hello")


async def _in_task(hub: RunnerContext, work: Coroutine[Any, Any, None], running: int) -> None:
    """Run the work in a task. If there are too many tasks, run it here instead, so that nothing more is read before it is done."""
    if running > MAX_TASKS:
        await work
    else:
        hub.tasks.start(work)


async def _renew(hub: RunnerContext, session: RunnerSession, message: messages.Renew) -> None:
    renewed = await principal_from_bearer(hub.identity, message.token)
    before = session.principal
    if (renewed.kind, renewed.id, renewed.once_token_id) != (before.kind, before.id, before.once_token_id):
        raise Unauthenticated("a connection can be renewed only with the credential that opened it")
    session.principal = msgspec.structs.replace(renewed, address=session.principal.address)


async def _heartbeat(hub: RunnerContext, session: RunnerSession, message: messages.Heartbeat) -> None:
    hub.registry.set_reported_attempts(session, message.attempts)
    hub.heartbeats.note(session.instance_id, session.epoch)
    await reports.note_starts(hub, session, message.starting)
    if point := session.next_point(hub.history.latest):
        session.socket.post(messages.HistoryPoint(point))
    drain = message.is_draining, message.is_disk_full, message.drain_reason, message.ends_at
    known = session.is_draining, session.is_disk_full, session.drain_reason, session.ends_at
    if (message.version, drain) == (session.version, known):
        return
    if not (limits.is_label(message.version) and limits.is_label(message.drain_reason)):
        raise Invalid("the version of a runner and why it drains must be short and printable")
    if not limits.is_time(message.ends_at):
        raise Invalid("the end of a runner must be a time")

    async def work(tx: Tx) -> None:
        await instance_store.set_reported(tx, session.runner_id, session.instance_id, session.epoch, message)

    # While the row may still say that it drains, or may say so already, a claim for it would be refused.
    session.is_draining = session.is_draining or message.is_draining
    await hub.db.write(work)
    session.version = message.version
    session.is_draining, session.is_disk_full, session.drain_reason, session.ends_at = drain
    hub.scheduler.serve_soon(session)
