"""The events that a connected executor delivers: joined, checked, stored in one transaction, and acknowledged."""

import asyncio
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import TypeAlias

from terracrew.errors import Forbidden, Superseded, TerracrewError, Unavailable
from terracrew.logging import get_logger
from terracrew.masking import facts as masked_facts
from terracrew.masking.redactor import Redactor
from terracrew.protocol import frames, messages
from terracrew.protocol.events import (
    HEADER,
    MAX_BATCH_BYTES,
    MAX_BATCH_RECORDS,
    Fact,
    Kind,
    OutputsRead,
    PlanDescribed,
    PlanShown,
    Record,
    Result,
    fact_of,
    pack_fact,
    state_of,
    unpack,
)
from terracrew.server.connections.registry import ExecutorSession
from terracrew.server.db.availability import retry_when_back
from terracrew.server.hub.executors import event_contents
from terracrew.server.hub.executors.context import ExecutorContext
from terracrew.server.jobs import metrics as counts
from terracrew.server.jobs.attempts.ingest import Delivery
from terracrew.server.jobs.plans import store as plan_store
from terracrew.server.logs import chunks
from terracrew.server.state.model import LargeOutputs, Received

MAX_WAITING_BYTES = 16 * MAX_BATCH_BYTES
"""Bytes that may wait while others are being stored: a full window of an executor. Beyond it, nothing more is read."""
THREAD_ABOVE_BYTES = 64 << 10
"""Compressing more than this is not done on the event loop."""
Batch: TypeAlias = tuple[frames.BatchHeader, bytes]
log = get_logger("terracrew.hub")


class ModuleSecrets:
    """Masks the secrets of a job in what its executor delivers: salvaged output may not have been masked on its runner."""

    def __init__(self, values: Sequence[str]) -> None:
        self._redactor = Redactor(values)

    def __bool__(self) -> bool:
        return bool(self._redactor)

    def mask(self, records: Sequence[Record]) -> list[Record]:
        return [self._masked(record) for record in records]

    def _masked(self, record: Record) -> Record:
        if record.kind == Kind.LOG:
            return record._replace(payload=self._redactor.mask(record.payload))
        if record.kind != Kind.FACT or self._redactor.mask(record.payload) is record.payload:
            return record
        try:
            fact = fact_of(record)
        except ValueError:
            return record  # it is passed over, and shown to nobody
        is_outputs = isinstance(fact, OutputsRead)
        masked = (
            masked_facts.hide_outputs(fact, self._redactor) if is_outputs else masked_facts.masked(fact, self._redactor)
        )
        return record._replace(payload=pack_fact(masked, record.step_name, record.time)[HEADER.size :])


NO_SECRETS = ModuleSecrets([])
"""Shared by all jobs without secrets."""


class Deliveries:
    """Collects the frames of an executor: those that arrive while others are being stored become the next delivery."""

    def __init__(
        self,
        hub: ExecutorContext,
        session: ExecutorSession,
        module_id: str,
        state_key: bytes,
        module_secrets: ModuleSecrets,
    ) -> None:
        self._hub = hub
        self._session = session
        self._module_id = module_id
        self._state_key = state_key
        self._module_secrets = module_secrets
        self._frames: deque[bytes] = deque()
        self._size = 0
        self._has_room = asyncio.Event()
        self._storing: asyncio.Task[None] | None = None
        self._point = ""
        """The point of the history that the executor is told with its result."""

    async def take(self, frame: bytes) -> None:
        """Accept a frame. This waits only if the sender is faster than the database."""
        self._frames.append(frame)
        self._size += len(frame)
        if self._storing is None:
            self._storing = asyncio.create_task(self._store_all())
        while self._size > MAX_WAITING_BYTES:
            self._has_room.clear()
            await self._has_room.wait()

    async def stop(self) -> None:
        """Store everything that has arrived, even if its sender has disconnected."""
        if self._storing is not None:
            await asyncio.wait([self._storing])

    async def _store_all(self) -> None:
        try:
            while self._frames:
                self._hub.disk.require()
                taken = self._taken()
                # Storing a frame twice changes nothing, so the work is simply repeated after an outage of the database.
                mark = await retry_when_back(self._hub.db, lambda taken=taken: self._store(taken))
                self._session.socket.post(messages.Ack(mark, self._point))
                if mark < _last_of(taken):
                    # A state's object is missing, or the result has arrived: only a new connection sends the rest again.
                    raise Unavailable(f"only the events up to {mark} were stored")
        except Exception as error:
            counts.delivery_refused(error)
            # After any other error, the sender reconnects and repeats everything after the mark. Nothing later may be accepted before that.
            if not isinstance(error, TerracrewError | ValueError):
                log.exception("a delivery failed", job=self._session.ref.job_id, attempt=self._session.ref.attempt)
            refusal = error if isinstance(error, Forbidden) else None  # after its result, nothing is accepted any more
            self._session.socket.drop(refusal or Unavailable(f"what was delivered is not stored: {str(error)[:500]}"))
            self._frames.clear()
            self._make_room(self._size)
        finally:
            self._storing = None

    def _taken(self) -> list[Batch]:
        """Return the frames that wait, up to the number of events of one batch, so that other connections are served in between."""
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
        diffs: dict[int, LargeOutputs] = {}
        facts: dict[int, Fact] = {}
        has_result = False
        for number, record in enumerate(records, first):
            if record.kind == Kind.STATE:
                found = await self._state(number, record)
                if found is not None:
                    received[number] = found
            elif record.kind == Kind.FACT:
                try:
                    fact = facts[number] = fact_of(record)
                except ValueError:  # the ingest notes that it cannot be read
                    continue
                if isinstance(fact, Result):
                    await self._check_kept(fact)
                    has_result = True
                elif isinstance(fact, OutputsRead) and not fact.is_inline:
                    outputs[number] = await event_contents.large_outputs(
                        self._hub, self._session.ref, self._module_id, number, fact
                    )
                elif isinstance(fact, PlanDescribed | PlanShown) and not fact.content:
                    diffs[number] = await event_contents.large_diff(self._hub, self._session.ref, number, fact)
        numbered = list(enumerate(records, first))
        chunk = chunks.pack(numbered) if size < THREAD_ABOVE_BYTES else await asyncio.to_thread(chunks.pack, numbered)
        ref, address = self._session.ref, self._session.address
        delivery = Delivery(ref.job_id, ref.attempt, first, records, received, chunk, outputs, address, diffs, facts)
        mark = await self._ingested(delivery)
        self._point = self._hub.history.latest if has_result and self._session.has_begun else ""
        return mark

    async def _ingested(self, delivery: Delivery) -> int:
        for _ in range(5):
            try:
                return await self._hub.ingest(delivery)
            except Superseded:
                continue  # the job has changed in the meantime: read it again
        return await self._hub.ingest(delivery)

    async def _state(self, number: int, record: Record) -> Received | None:
        hub, ref = self._hub, self._session.ref
        try:
            fact, ciphertext = state_of(record)
        except ValueError as error:
            return await event_contents.prepare_unreadable(
                hub, ref, self._module_id, number, record.payload, str(error)
            )
        return await event_contents.prepare(hub, ref, self._module_id, self._state_key, number, fact, ciphertext)

    async def _check_kept(self, result: Result) -> None:
        """Refuse a job that would wait with a plan that is not stored."""
        if result.kept is not None:
            ref = self._session.ref
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
