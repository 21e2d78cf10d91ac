"""A connected runner: its claims, and what it says of the attempts that it has."""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterable
from typing import Any

import msgspec

from terracrew import ids
from terracrew.errors import Conflict, Invalid, TerracrewError, Unauthenticated, Unavailable, Undecryptable
from terracrew.logging import get_logger
from terracrew.protocol import messages, version
from terracrew.protocol.messages import AttemptRef
from terracrew.server.audit import service as audit
from terracrew.server.connections import reads as instance_reads
from terracrew.server.connections import store as instance_store
from terracrew.server.connections.reads import ServedRunner
from terracrew.server.connections.registry import RunnerSession
from terracrew.server.connections.socket import HubSocket
from terracrew.server.db.availability import retry_when_back
from terracrew.server.db.seam import Tx
from terracrew.server.hub.context import HubContext
from terracrew.server.hub.runners import instances, takeover, takeover_audit
from terracrew.server.identity.bearer import principal_from_bearer
from terracrew.server.jobs import decide
from terracrew.server.jobs import service as jobs
from terracrew.server.jobs.attempts import claims
from terracrew.server.principals.model import Principal
from terracrew.server.runners.model import SILENCE_SECONDS

MAX_TASKS = 256
"""The most claims and reports of one runner that are processed at once; beyond that, its frames are not read."""
MAX_ENGINES, MAX_NAME_CHARACTERS = 20, 100
LEAVING_SECONDS = 5.0
log = get_logger("terracrew.hub")


async def serve(hub: HubContext, socket: HubSocket, principal: Principal) -> None:
    frame = await socket.hello()
    if frame is None:
        return
    protocol = version.greeted(frame, kind="runner")
    hello = _decoded(frame)
    assert isinstance(hello, messages.RunnerHello)
    session, place = await _take_place(hub, socket, principal, hello)
    try:
        await _welcome(hub, session, place, protocol)
        while (frame := await socket.receive()) is not None:
            await _take(hub, session, _decoded(frame))
    finally:
        await asyncio.shield(_disconnect(hub, session))


def _decoded(frame: str | bytes) -> messages.FromRunner:
    if isinstance(frame, bytes):
        raise Invalid("a runner speaks in text frames")
    return messages.decode_from_runner(frame)


# ---- coming


async def _take_place(
    hub: HubContext, socket: HubSocket, principal: Principal, hello: messages.RunnerHello
) -> tuple[RunnerSession, instances.InstanceRow]:
    if not 0 < hello.capacity <= 1_000 or not hello.instance or not _is_short(hello.instance):
        raise Invalid(
            "a runner's capacity must be between 1 and 1000, and its instance needs a name of up to 100 printable characters"
        )
    about = [hello.version, hello.isolation, *hello.engines, *hello.engines.values()]
    if len(hello.engines) > MAX_ENGINES or not all(_is_short(each) for each in about):
        raise Invalid(f"a runner has up to {MAX_ENGINES} engines; their names and versions are short and printable")
    record, place = await _place(hub, principal, hello)
    session = RunnerSession(
        socket,
        principal,
        runner_id=record.id,
        instance_id=place.instance_id,
        name=hello.instance,
        epoch=place.epoch,
        engines=hello.engines,
        slots=min(hello.capacity, record.max_jobs),
        is_draining=hello.is_draining,
        drain_sent=record.is_draining,
        configuration=record.configuration,
    )
    session.active_jobs = {ref.job_id for ref in place.current}
    session.reported_attempts = set(hello.attempts)
    session.is_disk_full = hello.is_disk_full
    # Closed until its record was read once more: what changed before it was in the registry was told to nobody.
    session.is_closed = True
    hub.registry.add(session)
    log.info("runner connected", runner=record.path, instance=hello.instance, version=hello.version)
    return session, place


def _is_short(text: str) -> bool:
    return len(text) <= MAX_NAME_CHARACTERS and text.isprintable()


async def _place(
    hub: HubContext, principal: Principal, hello: messages.RunnerHello
) -> tuple[ServedRunner, instances.InstanceRow]:
    asked: list[takeover.Question] | None = None

    async def work(tx: Tx) -> tuple[ServedRunner, instances.InstanceRow | list[takeover.Question]]:
        record = await instances.runner_row(tx, principal, hello.runner_id)
        gap_ended_at = tx.now - hub.registry.watched_for if hub.registry.watched_for < SILENCE_SECONDS else 0.0
        seats = await takeover_audit.former_instances(tx, record, hello)
        place = await instances.take(tx, hub.id, record, hello, asked, gap_ended_at)
        if isinstance(place, instances.InstanceRow):
            await takeover_audit.record(tx, principal, record, hello, seats, place)
        return record, place

    while True:
        try:
            record, place = await hub.db.write(work)
        except (Conflict, Unavailable) as refusal:
            if asked:
                await _note_refused_takeover(hub, principal, hello, refusal)
            raise
        if isinstance(place, instances.InstanceRow):
            return record, place
        asked = place
        await takeover.wait(hub.db, asked)


async def _note_refused_takeover(
    hub: HubContext, principal: Principal, hello: messages.RunnerHello, refusal: TerracrewError
) -> None:
    """Audit a refused takeover: either an operator's mistake or a stolen token."""
    log.warning("takeover refused", runner=hello.runner_id, instance=hello.instance, reason=refusal.message)
    details = {"instance": hello.instance, "reason": refusal.message}
    await hub.db.write(
        lambda tx: audit.record(tx, principal, "runner.takeover_refused", "runner", hello.runner_id, details)
    )


async def _welcome(hub: HubContext, session: RunnerSession, place: instances.InstanceRow, protocol: int) -> None:
    session.socket.post(
        messages.RunnerWelcome(
            session.instance_id,
            session.epoch,
            protocol,
            session.configuration.heartbeat,
            unknown=sorted(session.reported_attempts - place.current),
            is_draining=session.drain_sent,
            log_level=session.configuration.levels,
            resume=place.resume,
        )
    )
    await _miss(hub, place.current - session.reported_attempts)
    await instances.refresh(hub, [session])
    if not await hub.identity.tokens.is_live(session.principal):  # it was revoked while this connection was made
        raise Unauthenticated("the credential of this connection was revoked")


async def _miss(hub: HubContext, missing: Iterable[AttemptRef]) -> None:
    """Requeue attempts that the runner was granted and does not have, unless their executor is connected."""
    reason = "its runner came back without it"
    for ref in missing:
        if ref not in hub.registry.executors and not await _is_elsewhere(hub, ref):
            await jobs.settle(hub.db, ref, lambda job, attempt, now: decide.missing(job, attempt, reason, now))


async def _is_elsewhere(hub: HubContext, ref: AttemptRef) -> bool:
    """Return whether another server has the attempt's executor, as far as is known here."""
    return await hub.db.read(lambda tx: instance_reads.is_elsewhere(tx, ref, hub.id))


async def _disconnect(hub: HubContext, session: RunnerSession) -> None:
    if hub.registry.remove(session):  # else a newer connection of the same instance has taken its place
        hub.scheduler.left(session)
        if _let_go(hub, session.socket):
            await retry_when_back(hub.db, lambda: instances.disconnect(hub, session))
        log.info("runner gone", runner=session.runner_id, instance=session.name)


def _let_go(hub: HubContext, socket: HubSocket) -> bool:
    """Return whether its process disconnected by itself, and not because this server stops or the process was silent."""
    return not (socket.is_silent or socket.is_left_by_us or (hub.closing.is_set() and socket.is_open))


# ---- talking


async def _take(hub: HubContext, session: RunnerSession, message: messages.FromRunner) -> None:
    hub.registry.hear(session)
    if session.is_asked:
        session.is_asked = False
        hub.tasks.start(takeover.answer(hub.db, session))
    match message:
        case messages.Claim():
            # A task, so that the claims of one runner can share a group; the claim itself is checked by the database.
            session.claiming += 1
            await _in_task(hub, _claim(hub, session, message), session.claiming)
        case messages.Heartbeat():
            await _heartbeat(hub, session, message)
        case messages.HandBack():
            ref = AttemptRef(ids.parse("job", message.job_id), message.attempt)
            await _ended(hub, session, ref, decide.Report(message.reason), saw_process=False)
        case messages.Gone():
            ref = AttemptRef(ids.parse("job", message.job_id), message.attempt)
            if ref in session.ending:
                return  # said again while the database is slow or away: the first report is answered when it is settled
            session.ending.add(ref)
            await _in_task(hub, _gone(hub, session, ref, message), len(session.ending))
        case messages.Renew():
            await _renew(hub, session, message)
        case messages.RunnerHello():
            raise Invalid("a connection may send only one hello")


async def _in_task(hub: HubContext, work: Coroutine[Any, Any, None], running: int) -> None:
    """Run the work in a task, unless there are too many: then nothing more is read before it is done."""
    if running > MAX_TASKS:
        await work
    else:
        hub.tasks.start(work)


async def _renew(hub: HubContext, session: RunnerSession, message: messages.Renew) -> None:
    renewed = await principal_from_bearer(hub.identity, message.token)
    if (renewed.kind, renewed.id) != (session.principal.kind, session.principal.id):
        raise Unauthenticated("a connection is renewed by the credential that opened it")
    session.principal = msgspec.structs.replace(renewed, address=session.principal.address)


async def _claim(hub: HubContext, session: RunnerSession, message: messages.Claim) -> None:
    ref = AttemptRef(message.job_id, message.attempt)
    claimant = claims.Claimant(ref.job_id, ref.attempt, session.runner_id, session.instance_id, session.epoch)
    request = claims.ClaimRequest(claimant, claims.make_credentials())
    won: claims.ClaimWon | None = None
    hub.scheduler.claiming(ref.job_id)
    try:
        won = await hub.claim(request)
    except Exception as error:  # whatever it is, the runner and the scheduler wait for the end of this claim
        reason, surprise = (error.message, None) if isinstance(error, TerracrewError) else (repr(error), error)
        log.warning("a claim failed", job=ref.job_id, attempt=ref.attempt, reason=reason, exc_info=surprise)
        if isinstance(error, Undecryptable):
            hub.registry.withheld.add(ref.job_id, error.message)  # else it would be offered and claimed forever
        else:
            hub.tasks.start(retry_when_back(hub.db, lambda: claims.take_back(hub.db, request)))
    finally:
        session.claiming -= 1
        if won is None:
            hub.scheduler.missed(ref.job_id, session)
    if won is None:
        session.socket.post(messages.Missed(ref.job_id, ref.attempt, "it was taken, or cannot run here now"))
        return
    hub.registry.grant(session, ref)
    hub.scheduler.claimed(ref.job_id, won.module_id, session)
    granted = await hub.archives.complete(won)
    if hub.registry.has(session):
        session.socket.post(granted)
        return
    reason = "its runner had gone before the grant was sent"
    await jobs.settle(hub.db, ref, lambda job, attempt, now: decide.hand_back(job, attempt, reason, now))


async def _heartbeat(hub: HubContext, session: RunnerSession, message: messages.Heartbeat) -> None:
    hub.registry.name(session, message.attempts)
    hub.heartbeats.note(session.instance_id, session.epoch)
    if (message.is_draining, message.is_disk_full) == (session.is_draining, session.is_disk_full):
        return

    async def work(tx: Tx) -> None:
        await instance_store.set_load(
            tx,
            session.runner_id,
            session.instance_id,
            session.epoch,
            is_draining=message.is_draining,
            is_disk_full=message.is_disk_full,
        )

    session.is_draining, session.is_disk_full = message.is_draining, message.is_disk_full
    await hub.db.write(work)
    hub.scheduler.serve(session)


async def _has_left(hub: HubContext, ref: AttemptRef) -> bool:
    """Wait until the attempt's executor has disconnected: the runner's report may arrive before the end of that connection."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LEAVING_SECONDS):
            while executor := hub.registry.executors.get(ref):
                await executor.has_left.wait()
            while await retry_when_back(hub.db, lambda: _is_elsewhere(hub, ref)):  # noqa: ASYNC110 - another process knows
                await asyncio.sleep(0.5)
            return True
    return False


async def _gone(hub: HubContext, session: RunnerSession, ref: AttemptRef, message: messages.Gone) -> None:
    try:
        report = decide.Report(message.reason, message.last, message.is_delivered)
        await _ended(hub, session, ref, report, message.saw_process)
    finally:
        session.ending.discard(ref)


async def _ended(
    hub: HubContext, session: RunnerSession, ref: AttemptRef, report: decide.Report, saw_process: bool
) -> None:
    """Take a report that an attempt has ended. A runner can report only its own attempts, and not while the executor delivers."""
    if not await _has_left(hub, ref):
        log.warning("said to be gone, but connected", job=ref.job_id, attempt=ref.attempt)
        return  # not acknowledged, so it is said again

    def decision(job: jobs.Job, attempt: jobs.Attempt, now: "decide.datetime") -> "decide.Decision | None":
        if attempt.instance_id != session.instance_id:
            return None
        if saw_process:
            return decide.gone(job, attempt, report, now)
        return decide.hand_back(job, attempt, report.reason, now)

    await retry_when_back(hub.db, lambda: jobs.settle(hub.db, ref, decision))
    session.reported_attempts.discard(ref)
    session.granted.discard(ref)
    session.socket.post(messages.Settled(ref.job_id, ref.attempt))
