"""Serves a connected executor, which delivers its attempt's events and asks for permission to apply."""

import asyncio
import contextlib
from collections import deque
from itertools import islice
from typing import TypeAlias

import msgspec

from terracrew.errors import Forbidden, Invalid, Superseded, TerracrewError, Unavailable
from terracrew.logging import get_logger
from terracrew.protocol import frames, messages, version
from terracrew.protocol.events import (
    MAX_BATCH_BYTES,
    MAX_BATCH_RECORDS,
    Kind,
    OutputsRead,
    Record,
    Result,
    fact_of,
    state_of,
    unpack,
)
from terracrew.protocol.messages import AttemptRef, LogSettings
from terracrew.server.connections import heartbeats, reads
from terracrew.server.connections import store as instance_store
from terracrew.server.connections.configuration import UNCONFIGURED, Configuration
from terracrew.server.connections.registry import ExecutorSession
from terracrew.server.connections.socket import HubSocket
from terracrew.server.db.availability import retry_when_back
from terracrew.server.db.seam import Tx
from terracrew.server.hub.context import HubContext
from terracrew.server.hub.executors import event_contents
from terracrew.server.hub.executors.module_secrets import ModuleSecrets
from terracrew.server.jobs import decide
from terracrew.server.jobs import metrics as counts
from terracrew.server.jobs import service as jobs
from terracrew.server.jobs.attempts import begin, claims
from terracrew.server.jobs.attempts.ingest import Delivery
from terracrew.server.jobs.plans import store as plan_store
from terracrew.server.logs import chunks
from terracrew.server.modules import contents
from terracrew.server.modules.contents import Content
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.state.model import LargeOutputs, Received

MAX_WAITING_BYTES = 16 * MAX_BATCH_BYTES
"""Bytes that may wait while others are being stored: a full window of an executor. Beyond it, nothing more is read."""
THREAD_ABOVE_BYTES = 64 << 10
"""Compressing more than this is not done on the event loop."""
Batch: TypeAlias = tuple[frames.BatchHeader, bytes]
log = get_logger("terracrew.hub")


async def serve(hub: HubContext, socket: HubSocket, principal: Principal) -> None:
    frame = await socket.hello()
    if frame is None:
        return
    protocol = version.greeted(frame, kind="executor")
    hello = messages.decode_from_executor(frame)
    assert isinstance(hello, messages.ExecutorHello)
    session = ExecutorSession(socket, await _admitted(hub, principal, hello))
    session.address = principal.address
    connection: _Connection | None = None
    # Before anything is read of it: what is decided from now on is told to it.
    hub.registry.add_executor(session)
    try:
        await socket.keep_alive()
        connection = await _welcome(hub, session, protocol)
        while (frame := await socket.receive()) is not None:
            if isinstance(frame, bytes):
                await connection.deliver(frame)
            else:
                await connection.take(messages.decode_from_executor(frame))
    finally:
        hub.registry.remove_executor(session)
        if connection is not None:
            await connection.stop()
        if session.is_far_from_runner and not hub.closing.is_set():
            ref = session.ref
            hub.tasks.start(hub.db.write(lambda tx: instance_store.disconnect_executor(tx, ref, hub.id)))


async def _admitted(hub: HubContext, principal: Principal, hello: messages.ExecutorHello) -> AttemptRef:
    own = principal.attempt
    assert own is not None
    place = authorize.module(own.organization_id, own.module_path, hello.job_id, hello.attempt)
    await authorize.require(hub.db, principal, Verb.ATTEMPT_REPORT, place)
    return AttemptRef(hello.job_id, hello.attempt)


async def _welcome(hub: HubContext, session: ExecutorSession, protocol: int) -> "_Connection":
    ref, socket = session.ref, session.socket

    async def read(tx: Tx) -> tuple[jobs.Owned, Configuration, Content]:
        found = await jobs.owned(tx, ref)
        session.runner_id = found.attempt.runner_id  # before its configuration is read: what changes later is told
        configured = (await reads.configurations(tx, [session.runner_id])).get(session.runner_id, UNCONFIGURED)
        return found, configured, await contents.load(tx, hub.keys, found.job.module_id)

    owned, configured, content = await hub.db.read(read)
    module_secrets = await asyncio.to_thread(ModuleSecrets, content) if content != Content() else ModuleSecrets(content)
    session.log_settings = LogSettings(False, configured.batch_size_limit, configured.period_seconds)
    job, attempt = owned.job, owned.attempt
    state_key = hub.keys.decrypt(owned.sealed_key, claims.state_key_context(ref.job_id, ref.attempt))
    is_current = decide.is_current(job, attempt)
    session.is_far_from_runner = attempt.instance_id not in hub.registry.runners
    if is_current and (attempt.started_at is not None or session.is_far_from_runner):
        # It was away, or its runner is. Another server, which saw it go, or tells the runner what it cannot tell the executor,
        # must not wait for the next round of heartbeats to learn of this.
        await hub.db.write(lambda tx: heartbeats.executor_came(tx, ref, hub.id))
    session.log_settings = msgspec.structs.replace(session.log_settings, is_watched=hub.watchers.is_watched(job.id))
    socket.post(
        messages.ExecutorWelcome(
            attempt.mark,
            protocol,
            is_superseded=not is_current,
            has_result=attempt.has_result,
            log_settings=session.log_settings,
        )
    )
    if is_current and job.cancel_mode is not None:
        session.cancel(job.cancel_mode)
    return _Connection(hub, session, job.module_id, state_key, module_secrets)


class _Connection:
    """Frames are taken in as they come; while one group is being stored, the next gathers, and all of it is one delivery."""

    def __init__(
        self,
        hub: HubContext,
        session: ExecutorSession,
        module_id: str,
        state_key: bytes,
        module_secrets: ModuleSecrets,
    ) -> None:
        self._hub = hub
        self.session = session
        self._module_id = module_id
        self._state_key = state_key
        self._module_secrets = module_secrets
        self._frames: deque[bytes] = deque()
        self._size = 0
        self._has_room = asyncio.Event()
        self._storing: asyncio.Task[None] | None = None

    async def deliver(self, frame: bytes) -> None:
        """Take a frame in; waits only for a sender that is faster than the database."""
        self._frames.append(frame)
        self._size += len(frame)
        if self._storing is None:
            self._storing = asyncio.create_task(self._store_all())
        while self._size > MAX_WAITING_BYTES:
            self._has_room.clear()
            await self._has_room.wait()

    async def take(self, message: messages.FromExecutor) -> None:
        if not isinstance(message, messages.Begin):
            raise Invalid("a connection may send only one hello")
        await self.stop()  # what came before it is stored before it is answered
        db, registry, ref = self._hub.db, self._hub.registry, self.session.ref
        self.session.socket.post(await retry_when_back(db, lambda: begin.permit(db, registry, ref, message)))

    async def stop(self) -> None:
        """What has arrived is stored, even if its sender is gone."""
        if self._storing is not None:
            await asyncio.wait([self._storing])

    async def _store_all(self) -> None:
        try:
            while self._frames:
                taken = self._taken()
                # Storing it twice changes nothing, so an outage of the database costs neither the connection nor a repetition.
                mark = await retry_when_back(self._hub.db, lambda taken=taken: self._store(taken))
                self.session.socket.post(messages.Ack(mark))
                if mark < _last_of(taken):
                    # A state's object is missing, or the result has arrived: only a new connection sends the rest again.
                    raise Unavailable(f"only the events up to {mark} were stored")
        except Exception as error:
            counts.delivery_refused(error)
            # Whatever it was: the sender comes again from the mark, and nothing of what follows may be taken before.
            if not isinstance(error, TerracrewError | ValueError):
                log.exception("a delivery failed", job=self.session.ref.job_id, attempt=self.session.ref.attempt)
            refusal = error if isinstance(error, Forbidden) else None  # after its result, nothing is accepted any more
            self.session.socket.drop(refusal or Unavailable(f"what was delivered is not stored: {str(error)[:500]}"))
            self._frames.clear()
            self._make_room(self._size)
        finally:
            self._storing = None

    def _taken(self) -> list[Batch]:
        """Return what waits, as far as it is no more events than one batch may have: others must have their turn."""
        taken: list[Batch] = []
        count = 0
        while self._frames:
            batch = frames.unpack(self._frames[0])
            count += batch[0].count
            if taken and count > MAX_BATCH_RECORDS:
                break
            taken.append(batch)
            self._make_room(len(self._frames.popleft()))
        return taken

    def _make_room(self, size: int) -> None:
        self._size -= size
        self._has_room.set()

    async def _store(self, taken: list[Batch]) -> int:
        first, records = _joined(taken)
        size = sum(len(body) for _, body in taken)
        if self._module_secrets:
            mask = self._module_secrets.mask
            records = mask(records) if size < THREAD_ABOVE_BYTES else await asyncio.to_thread(mask, records)
        received: dict[int, Received] = {}
        outputs: dict[int, LargeOutputs] = {}
        for number, record in enumerate(records, first):
            if record.kind == Kind.STATE:
                found = await self._state(number, record)
                if found is not None:
                    received[number] = found
            elif record.kind == Kind.FACT:
                fact = None
                with contextlib.suppress(ValueError):  # what cannot be read is passed over
                    fact = fact_of(record)
                if isinstance(fact, Result):
                    await self._check_kept(fact)
                elif isinstance(fact, OutputsRead) and not fact.is_inline:
                    outputs[number] = await event_contents.large_outputs(
                        self._hub, self.session.ref, self._module_id, number, fact
                    )
        numbered = list(enumerate(records, first))
        chunk = chunks.pack(numbered) if size < THREAD_ABOVE_BYTES else await asyncio.to_thread(chunks.pack, numbered)
        ref, address = self.session.ref, self.session.address
        delivery = Delivery(ref.job_id, ref.attempt, first, records, received, chunk, outputs, address)
        for _ in range(5):
            try:
                return await self._hub.ingest(delivery)
            except Superseded:
                continue  # the job moved while this was being written: look at it again
        return await self._hub.ingest(delivery)

    async def _state(self, number: int, record: Record) -> Received | None:
        hub, ref = self._hub, self.session.ref
        try:
            fact, ciphertext = state_of(record)
        except ValueError as error:
            return await event_contents.prepare_unreadable(
                hub, ref, self._module_id, number, record.payload, str(error)
            )
        return await event_contents.prepare(hub, ref, self._module_id, self._state_key, number, fact, ciphertext)

    async def _check_kept(self, result: Result) -> None:
        """A job waits only with a plan that is stored."""
        if result.kept is not None:
            ref = self.session.ref
            if not await self._hub.objects.exists(plan_store.object_of(ref.job_id, ref.attempt, result.kept.sha256)):
                raise ValueError("the plan that it waits with is not stored")


def _last_of(taken: list[Batch]) -> int:
    header, _ = taken[-1]
    return header.first + header.count - 1


def _joined(taken: list[Batch]) -> tuple[int, list[Record]]:
    """Return the records of consecutive frames as one run; a frame that repeats what the run has is cut."""
    records: list[Record] = []
    first = None
    for header, body in taken:
        found = list(islice(unpack(body), MAX_BATCH_RECORDS + 1))
        if len(found) != header.count or header.first < 1 or len(found) > MAX_BATCH_RECORDS:
            raise ValueError("a batch's header and its records disagree")
        if first is None:
            first = header.first
        overlap = first + len(records) - header.first
        if overlap < 0:
            raise ValueError(f"event {first + len(records)} is missing between two batches")
        records += found[overlap:]
    assert first is not None
    return first, records
