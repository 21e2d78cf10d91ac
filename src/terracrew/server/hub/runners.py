"""A connected runner: its place, its claims, and what it says of the attempts that it has."""

import asyncio
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec
import structlog

from terracrew import ids
from terracrew.errors import Conflict, Invalid, NotFound, Unauthenticated
from terracrew.protocol import messages, version
from terracrew.protocol.messages import AttemptRef
from terracrew.server.db.mapping import row_to
from terracrew.server.db.seam import Row, Tx
from terracrew.server.hub.registry import RunnerSession
from terracrew.server.hub.socket import HubSocket
from terracrew.server.identity import authorize, credentials
from terracrew.server.identity.bearer import principal_from_bearer
from terracrew.server.identity.model import Principal
from terracrew.server.jobs import claims, decide
from terracrew.server.jobs import service as jobs

if TYPE_CHECKING:
    from terracrew.server.context import Server

HEARTBEAT_SECONDS = 10.0
log = structlog.get_logger("terracrew.hub")


async def serve(server: "Server", socket: HubSocket, principal: Principal) -> None:
    frame = await socket.receive()
    if frame is None:
        return
    hello = messages.decode_from_runner(frame)
    if not isinstance(hello, messages.RunnerHello):
        raise Invalid("a runner's first message is its hello")
    session = await _welcome(server, socket, principal, hello)
    try:
        while (frame := await socket.receive()) is not None:
            await _take(server, session, principal, messages.decode_from_runner(frame))
    finally:
        await asyncio.shield(_leave(server, session))


# ---- coming


async def _welcome(
    server: "Server", socket: HubSocket, principal: Principal, hello: messages.RunnerHello
) -> RunnerSession:
    protocol = version.agree(hello.oldest_protocol, hello.newest_protocol, who=f"runner {hello.version}")
    if not 0 < hello.capacity <= 1_000 or not 0 < len(hello.instance) <= 100:
        raise Invalid(
            "a runner's capacity lies between 1 and 1000, and its instance has a name of up to 100 characters"
        )

    async def work(tx: Tx) -> tuple[Record, Row, list[Row]]:
        record = await _record(tx, principal, hello.runner_id)
        place = await _take_place(tx, server.id, record, hello)
        held = await tx.all(
            """SELECT jobs.id, jobs.attempt FROM jobs
            WHERE jobs.instance_id = :id AND jobs.status IN ('CLAIMED', 'PROCESSING')""",
            id=place["id"],
        )
        tx.wake("runners", record.id)
        return record, place, held

    record, place, held = await server.db.write(work)
    session = RunnerSession(
        socket, principal_id=principal.id, runner_id=record.id, instance_id=place["id"], name=hello.instance, epoch=place["epoch"],
        engines=hello.engines, slots=min(hello.capacity, record.max_jobs),
    )  # fmt: skip
    session.held = {row["id"] for row in held}
    session.named = set(hello.attempts)
    session.takes_jobs = not (hello.is_draining or record.is_draining or record.is_disabled)
    server.registry.add(session)
    current = {AttemptRef(row["id"], row["attempt"]) for row in held}
    socket.post(
        messages.RunnerWelcome(
            session.instance_id, session.epoch, protocol, HEARTBEAT_SECONDS,
            unknown=sorted(session.named - current), is_draining=record.is_draining,
        )
    )  # fmt: skip
    await _miss(server, current - session.named)
    log.info("runner connected", runner=record.path, instance=hello.instance, version=hello.version)
    server.scheduler.serve(session)
    return session


class Record(msgspec.Struct, frozen=True):
    """What the hub needs to know of a runner's record."""

    id: str
    organization_id: str | None
    service_account_id: str | None
    path: str
    is_disabled: bool
    is_draining: bool
    allow_multiple_instances: bool
    max_jobs: int


async def _record(tx: Tx, principal: Principal, runner_id: str) -> Record:
    row = await tx.one(
        """SELECT id, organization_id, service_account_id, path, is_disabled, is_draining, allow_multiple_instances,
            max_jobs FROM runners WHERE id = :id""",
        id=ids.parse("rnr", runner_id),
    )
    if row is None:
        raise NotFound("there is no such runner for this credential")
    record = row_to(Record, row)
    authorize.require_runner(principal, record)
    return record


async def _take_place(tx: Tx, server_id: str, record: Record, hello: messages.RunnerHello) -> Row:
    """The instance's row, with a new epoch. Its key gives it its old place at once; a stranger must find the place free."""
    key = credentials.digest(hello.instance_key)
    rows = await tx.all("SELECT id, name, key_sha256, is_connected FROM instances WHERE runner_id = :id", id=record.id)
    for row in rows:
        if row["name"] == hello.instance:
            if row["is_connected"] and row["key_sha256"] != key:
                raise Conflict(
                    f"an instance named {hello.instance} of {record.path} is connected already; name this one otherwise"
                )
        elif row["is_connected"] and not record.allow_multiple_instances:
            raise Conflict(
                f"{record.path} takes one process, and {row['name']} is connected; allow several instances, or stop that one"
            )
    place = await tx.one(
        """INSERT INTO instances (id, runner_id, name, key_sha256, epoch, server_id, version, capacity, engines, is_connected,
            is_draining, connected_at, heard_at)
        VALUES (:id, :runner_id, :name, :key, 1, :server_id, :version, :capacity, :engines, true, :is_draining, :now, :now)
        ON CONFLICT (runner_id, name) DO UPDATE SET key_sha256 = excluded.key_sha256, epoch = instances.epoch + 1,
            server_id = excluded.server_id, version = excluded.version, capacity = excluded.capacity,
            engines = excluded.engines, is_connected = true, is_draining = excluded.is_draining,
            connected_at = excluded.connected_at, heard_at = excluded.heard_at, disconnected_at = NULL
        RETURNING id, epoch""",
        id=ids.new("ins"), runner_id=record.id, name=hello.instance, key=key, server_id=server_id, version=hello.version,
        capacity=hello.capacity, engines=messages.encode(hello.engines).decode(), is_draining=hello.is_draining, now=tx.now,
    )  # fmt: skip
    assert place is not None
    return place


async def _miss(server: "Server", missing: Iterable[AttemptRef]) -> None:
    """It was granted these and does not have them; an executor that is connected keeps its attempt all the same."""
    reason = "its runner came back without it"
    for ref in missing:
        if ref not in server.registry.executors:
            await jobs.settle(server.db, ref, lambda job, attempt, now: decide.missing(job, attempt, reason, now))


# ---- going


async def _leave(server: "Server", session: RunnerSession) -> None:
    if not server.registry.remove(session):
        return  # a newer connection of the same instance has taken its place
    server.scheduler.left(session)

    async def work(tx: Tx) -> None:
        await tx.run(
            """UPDATE instances SET is_connected = false, disconnected_at = :now
            WHERE id = :id AND epoch = :epoch AND is_connected""",
            id=session.instance_id, epoch=session.epoch, now=tx.now,
        )  # fmt: skip
        tx.wake("runners", session.runner_id)

    await server.db.write(work)
    log.info("runner gone", runner=session.runner_id, instance=session.name)


# ---- talking


async def _take(server: "Server", session: RunnerSession, principal: Principal, message: messages.FromRunner) -> None:
    session.heard_at = time.monotonic()
    match message:
        case messages.Claim():
            # A task, so that the claims of one runner can share a group; the claim itself is checked by the database.
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
            renewed = await principal_from_bearer(server.identity, message.token)
            if (renewed.kind, renewed.id) != (principal.kind, principal.id):
                raise Unauthenticated("a connection is renewed by the credential that opened it")
        case messages.RunnerHello():
            raise Invalid("one hello a connection")


async def _claim(server: "Server", session: RunnerSession, message: messages.Claim) -> None:
    claimant = claims.Claimant(message.job_id, message.attempt, session.runner_id, session.instance_id, session.epoch)
    won = await server.claims(claims.Offered(claimant, claims.make_credentials()))
    if won is None:
        server.scheduler.missed(message.job_id, session)
        session.socket.post(messages.Missed(message.job_id, message.attempt, "it was taken, or cannot run here now"))
        return
    ref = AttemptRef(message.job_id, message.attempt)
    session.named.add(ref)
    server.scheduler.claimed(message.job_id, won.module_id, session)
    session.socket.post(await server.archives.complete(won))


async def _heartbeat(server: "Server", session: RunnerSession, message: messages.Heartbeat) -> None:
    session.named = set(message.attempts) | {ref for ref in session.named if ref.job_id in session.held}
    server.heartbeats.note(session.instance_id, session.epoch)
    takes_jobs = not message.is_draining
    if takes_jobs != session.takes_jobs:

        async def work(tx: Tx) -> None:
            await tx.run(
                "UPDATE instances SET is_draining = :is_draining WHERE id = :id AND epoch = :epoch",
                is_draining=message.is_draining, id=session.instance_id, epoch=session.epoch,
            )  # fmt: skip
            tx.wake("runners", session.runner_id)

        session.takes_jobs = takes_jobs
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
    server.registry.forget(ref)
    session.socket.post(messages.Settled(ref.job_id, ref.attempt))
