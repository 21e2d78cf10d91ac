"""A connected executor: it delivers its attempt's events and asks for leave to mutate."""

import asyncio
from typing import TYPE_CHECKING

import structlog

from terracrew.errors import Invalid, Superseded, TerracrewError, Unavailable
from terracrew.protocol import frames, messages, version
from terracrew.protocol.events import MAX_BATCH_BYTES, Kind, Record, state_of, unpack
from terracrew.protocol.messages import AttemptRef, LogCadence
from terracrew.server.db.seam import Tx
from terracrew.server.hub import transfer
from terracrew.server.hub.heartbeats import HEARD, HEARD_COLUMNS
from terracrew.server.hub.registry import ExecutorSession
from terracrew.server.hub.socket import HubSocket
from terracrew.server.identity import authorize
from terracrew.server.identity.authorize import Verb
from terracrew.server.identity.model import Principal
from terracrew.server.jobs import claims, decide
from terracrew.server.jobs import service as jobs
from terracrew.server.jobs.ingest import Delivery
from terracrew.server.logs import chunks
from terracrew.server.state.model import Received

if TYPE_CHECKING:
    from terracrew.server.context import Server

ROOM = 16 * MAX_BATCH_BYTES
"""Bytes that may wait while others are being stored: a full window of an executor. Beyond it, nothing more is read."""
THREAD_ABOVE = 64 << 10
"""Compressing more than this is not done on the event loop."""
log = structlog.get_logger("terracrew.hub")


async def serve(server: "Server", socket: HubSocket, principal: Principal) -> None:
    frame = await socket.hello()
    if frame is None:
        return
    hello = messages.decode_from_executor(frame)
    if not isinstance(hello, messages.ExecutorHello):
        raise Invalid("an executor's first message is its hello")
    protocol = version.agree(hello.oldest_protocol, hello.newest_protocol, who=f"executor {hello.version}")
    session = ExecutorSession(socket, await _admitted(server, principal, hello))
    connection: _Connection | None = None
    # Before anything is read of it: what is decided from now on is told to it.
    server.registry.add_executor(session)
    try:
        connection = await _welcome(server, session, protocol)
        while (frame := await socket.receive()) is not None:
            if isinstance(frame, bytes):
                await connection.deliver(frame)
            else:
                await connection.take(messages.decode_from_executor(frame))
    finally:
        server.registry.remove_executor(session)
        if connection is not None:
            await connection.stop()


async def _admitted(server: "Server", principal: Principal, hello: messages.ExecutorHello) -> AttemptRef:
    own = principal.attempt
    assert own is not None
    place = authorize.module(own.organization_id, own.module_path, hello.job_id, hello.attempt)
    await authorize.require(server.db, principal, Verb.ATTEMPT_REPORT, place)
    return AttemptRef(hello.job_id, hello.attempt)


async def _welcome(server: "Server", session: ExecutorSession, protocol: int) -> "_Connection":
    ref, socket = session.ref, session.socket
    owned = await server.db.read(lambda tx: jobs.owned(tx, ref))
    job, attempt = owned.job, owned.attempt
    state_key = server.keys.decrypt(owned.sealed_key, claims.state_key_context(ref.job_id, ref.attempt))
    is_current = decide.is_current(job, attempt)
    if is_current and attempt.started_at is not None:
        # It was away. Another server, which saw it go, must not wait for the next round of heartbeats to learn of this.
        await server.db.write(lambda tx: _heard(tx, ref))
    cadence = LogCadence(is_watched=server.watchers.is_watched(job.id))
    socket.post(messages.ExecutorWelcome(attempt.mark, protocol, is_superseded=not is_current, cadence=cadence))
    if is_current and job.cancel_mode is not None:
        session.cancel(job.cancel_mode)
    return _Connection(server, session, job.module_id, state_key)


async def _heard(tx: Tx, ref: AttemptRef) -> None:
    await tx.each(HEARD, HEARD_COLUMNS, [(ref.job_id, ref.attempt, None, tx.now)])


class _Connection:
    """Frames are taken in as they come; while one group is being stored, the next gathers, and all of it is one delivery."""

    def __init__(self, server: "Server", session: ExecutorSession, module_id: str, state_key: bytes) -> None:
        self._server = server
        self.session = session
        self._module_id = module_id
        self._state_key = state_key
        self._frames: list[bytes] = []
        self._size = 0
        self._has_room = asyncio.Event()
        self._storing: asyncio.Task[None] | None = None

    async def deliver(self, frame: bytes) -> None:
        """Take a frame in; waits only for a sender that is faster than the database."""
        self._frames.append(frame)
        self._size += len(frame)
        if self._storing is None:
            self._storing = asyncio.create_task(self._store_all())
        while self._size > ROOM:
            self._has_room.clear()
            await self._has_room.wait()

    async def take(self, message: messages.FromExecutor) -> None:
        if not isinstance(message, messages.Begin):
            raise Invalid("one hello a connection")
        await self.stop()  # what came before it is stored before it is answered
        self.session.socket.post(await jobs.begin(self._server.db, self.session.ref, message.state_version))

    async def stop(self) -> None:
        """What has arrived is stored, even if its sender is gone."""
        if self._storing is not None:
            await asyncio.wait([self._storing])

    async def _store_all(self) -> None:
        try:
            while self._frames:
                taken = self._taken()
                mark = await self._store(taken)
                self.session.socket.post(messages.Ack(mark))
        except Exception as error:
            # Whatever it was: the sender comes again from the mark, and nothing of what follows may be taken before.
            if not isinstance(error, TerracrewError | ValueError):
                log.exception("a delivery failed", job=self.session.ref.job_id, attempt=self.session.ref.attempt)
            self.session.socket.drop(Unavailable(f"what was delivered is not stored: {error}"))
            self._taken()
        finally:
            self._storing = None

    def _taken(self) -> list[bytes]:
        taken, self._frames, self._size = self._frames, [], 0
        self._has_room.set()
        return taken

    async def _store(self, taken: list[bytes]) -> int:
        first, records = _joined(taken)
        received: dict[int, Received] = {}
        for number, record in enumerate(records, first):
            if record.kind == Kind.STATE:
                fact, ciphertext = state_of(record)
                found = await transfer.prepare(
                    self._server, self.session.ref, self._module_id, self._state_key, number, fact, ciphertext
                )
                if found is not None:
                    received[number] = found
        numbered = list(enumerate(records, first))
        size = sum(len(frame) for frame in taken)
        chunk = chunks.pack(numbered) if size < THREAD_ABOVE else await asyncio.to_thread(chunks.pack, numbered)
        delivery = Delivery(self.session.ref.job_id, self.session.ref.attempt, first, records, received, chunk)
        for _ in range(5):
            try:
                return await self._server.ingest(delivery)
            except Superseded:
                continue  # the job moved while this was being written: look at it again
        return await self._server.ingest(delivery)


def _joined(taken: list[bytes]) -> tuple[int, list[Record]]:
    """The records of consecutive frames as one run; a frame that repeats what the run has is cut."""
    records: list[Record] = []
    first = None
    for frame in taken:
        header, body = frames.unpack(frame)
        found = list(unpack(body))
        if len(found) != header.count or header.first < 1:
            raise ValueError("a batch's header and its records disagree")
        if first is None:
            first = header.first
        overlap = first + len(records) - header.first
        if overlap < 0:
            raise ValueError(f"event {first + len(records)} is missing between two batches")
        records += found[overlap:]
    assert first is not None
    return first, records
