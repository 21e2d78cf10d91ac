"""A connected runner: its claims, and what it says of the attempts that it has."""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

import structlog

from terracrew import ids
from terracrew.errors import Invalid, TerracrewError, Unauthenticated
from terracrew.protocol import messages, version
from terracrew.protocol.messages import AttemptRef
from terracrew.server.db.seam import Tx
from terracrew.server.hub import places
from terracrew.server.hub.registry import RunnerSession
from terracrew.server.hub.socket import HubSocket
from terracrew.server.identity.bearer import principal_from_bearer
from terracrew.server.identity.model import Principal
from terracrew.server.jobs import claims, decide
from terracrew.server.jobs import service as jobs

if TYPE_CHECKING:
    from terracrew.server.context import Server

HEARTBEAT_SECONDS = 10.0
MOST_CLAIMS = 256
"""Of one runner at a time; one that claims faster than the database decides is not read meanwhile."""
log = structlog.get_logger("terracrew.hub")


async def serve(server: "Server", socket: HubSocket, principal: Principal) -> None:
    frame = await socket.hello()
    if frame is None:
        return
    hello = _decoded(frame)
    if not isinstance(hello, messages.RunnerHello):
        raise Invalid("a runner's first message is its hello")
    protocol = version.agree(hello.oldest_protocol, hello.newest_protocol, who=f"runner {hello.version}")
    session, current = await _take_place(server, socket, principal, hello)
    try:
        await _welcome(server, session, current, protocol)
        while (frame := await socket.receive()) is not None:
            await _take(server, session, _decoded(frame))
    finally:
        await asyncio.shield(_leave(server, session))


def _decoded(frame: str | bytes) -> messages.FromRunner:
    if isinstance(frame, bytes):
        raise Invalid("a runner speaks in text frames")
    return messages.decode_from_runner(frame)


# ---- coming


async def _take_place(
    server: "Server", socket: HubSocket, principal: Principal, hello: messages.RunnerHello
) -> tuple[RunnerSession, set[AttemptRef]]:
    if not 0 < hello.capacity <= 1_000 or not 0 < len(hello.instance) <= 100:
        raise Invalid(
            "a runner's capacity lies between 1 and 1000, and its instance has a name of up to 100 characters"
        )

    async def work(tx: Tx) -> tuple[places.Record, places.Place]:
        record = await places.record(tx, principal, hello.runner_id)
        return record, await places.take(tx, server.id, record, hello)

    record, place = await server.db.write(work)
    session = RunnerSession(
        socket, principal, runner_id=record.id, instance_id=place.instance_id, name=hello.instance, epoch=place.epoch,
        engines=hello.engines, slots=min(hello.capacity, record.max_jobs), is_draining=hello.is_draining,
        is_drained=record.is_draining,
    )  # fmt: skip
    session.held = {ref.job_id for ref in place.current}
    session.named = set(hello.attempts)
    # Closed until its record was read once more: what changed before it was in the registry was told to nobody.
    session.is_closed = True
    server.registry.add(session)
    log.info("runner connected", runner=record.path, instance=hello.instance, version=hello.version)
    return session, place.current


async def _welcome(server: "Server", session: RunnerSession, current: set[AttemptRef], protocol: int) -> None:
    session.socket.post(
        messages.RunnerWelcome(
            session.instance_id, session.epoch, protocol, HEARTBEAT_SECONDS,
            unknown=sorted(session.named - current), is_draining=session.is_drained,
        )
    )  # fmt: skip
    await _miss(server, current - session.named)
    await places.refresh(server, session=session)


async def _miss(server: "Server", missing: Iterable[AttemptRef]) -> None:
    """It was granted these and does not have them; an executor that is connected keeps its attempt all the same."""
    reason = "its runner came back without it"
    for ref in missing:
        if ref not in server.registry.executors:
            await jobs.settle(server.db, ref, lambda job, attempt, now: decide.missing(job, attempt, reason, now))


async def _leave(server: "Server", session: RunnerSession) -> None:
    if server.registry.remove(session):  # else a newer connection of the same instance has taken its place
        server.scheduler.left(session)
        await places.leave(server, session)
        log.info("runner gone", runner=session.runner_id, instance=session.name)


# ---- talking


async def _take(server: "Server", session: RunnerSession, message: messages.FromRunner) -> None:
    server.registry.hear(session)
    match message:
        case messages.Claim():
            # A task, so that the claims of one runner can share a group; the claim itself is checked by the database.
            session.claiming += 1
            if session.claiming > MOST_CLAIMS:
                await _claim(server, session, message)
            else:
                server.tasks.start(_claim(server, session, message))
        case messages.Heartbeat():
            await _heartbeat(server, session, message)
        case messages.HandBack():
            await _ended(
                server, session, AttemptRef(message.job_id, message.attempt), message.reason, saw_process=False
            )
        case messages.Gone():
            await _ended(
                server, session, AttemptRef(message.job_id, message.attempt), message.reason, message.saw_process
            )
        case messages.Renew():
            await _renew(server, session, message)
        case messages.RunnerHello():
            raise Invalid("one hello a connection")


async def _renew(server: "Server", session: RunnerSession, message: messages.Renew) -> None:
    renewed = await principal_from_bearer(server.identity, message.token)
    if (renewed.kind, renewed.id) != (session.principal.kind, session.principal.id):
        raise Unauthenticated("a connection is renewed by the credential that opened it")
    session.principal = renewed


async def _claim(server: "Server", session: RunnerSession, message: messages.Claim) -> None:
    ref = AttemptRef(message.job_id, message.attempt)
    claimant = claims.Claimant(ref.job_id, ref.attempt, session.runner_id, session.instance_id, session.epoch)
    server.scheduler.claiming(ref.job_id)
    try:
        won = await server.claims(claims.Offered(claimant, claims.make_credentials()))
    except TerracrewError as error:
        # Should it have been committed all the same, nobody hears of the attempt, and so it is requeued.
        log.warning("a claim failed", job=ref.job_id, attempt=ref.attempt, reason=error.message)
        won = None
    finally:
        session.claiming -= 1
    if won is None:
        server.scheduler.missed(ref.job_id, session)
        session.socket.post(messages.Missed(ref.job_id, ref.attempt, "it was taken, or cannot run here now"))
        return
    server.registry.grant(session, ref)
    server.scheduler.claimed(ref.job_id, won.module_id, session)
    granted = await server.archives.complete(won)
    if server.registry.has(session):
        session.socket.post(granted)
        return
    reason = "its runner had gone before the grant was sent"
    await jobs.settle(server.db, ref, lambda job, attempt, now: decide.hand_back(job, attempt, reason, now))


async def _heartbeat(server: "Server", session: RunnerSession, message: messages.Heartbeat) -> None:
    server.registry.name(session, message.attempts)
    server.heartbeats.note(session.instance_id, session.epoch)
    if message.is_draining == session.is_draining:
        return

    async def work(tx: Tx) -> None:
        await tx.run(
            "UPDATE instances SET is_draining = :is_draining WHERE id = :id AND epoch = :epoch",
            is_draining=message.is_draining, id=session.instance_id, epoch=session.epoch,
        )  # fmt: skip
        tx.wake("runners", session.runner_id)

    session.is_draining = message.is_draining
    await server.db.write(work)
    server.scheduler.serve(session)


async def _ended(server: "Server", session: RunnerSession, ref: AttemptRef, reason: str, saw_process: bool) -> None:
    """A runner speaks for its own attempts only."""

    def decision(job: jobs.Job, attempt: jobs.Attempt, now: "decide.datetime") -> "decide.Next | None":
        if attempt.instance_id != session.instance_id:
            return None
        return (decide.gone if saw_process else decide.hand_back)(job, attempt, reason, now)

    await jobs.settle(server.db, AttemptRef(ids.parse("job", ref.job_id), ref.attempt), decision)
    session.named.discard(ref)
    session.granted.discard(ref)
    session.socket.post(messages.Settled(ref.job_id, ref.attempt))
