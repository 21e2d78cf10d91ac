"""Sends the outbox to the server, a window of batches at a time, and resumes after the last event that the server has."""

import asyncio
import contextlib
import time
from collections import deque

import msgspec
from websockets.asyncio.client import ClientConnection

from terracrew.attempt.remembered_points import RememberedPoints
from terracrew.backoff import Backoff
from terracrew.client import hub
from terracrew.errors import (
    Forbidden,
    ForeignAnswer,
    Incompatible,
    TerracrewError,
    Unauthenticated,
    Unavailable,
    Unreachable,
)
from terracrew.executor.control import Control
from terracrew.executor.delivery.begin import ApplyPermit
from terracrew.executor.delivery.exchange import ConnectionLog
from terracrew.executor.delivery.large_states import LargeStates
from terracrew.executor.delivery.outbox import Outbox
from terracrew.executor.delivery.transfer import Transfer
from terracrew.protocol import frames, messages, version
from terracrew.protocol.events import MAX_BATCH_BYTES
from terracrew.protocol.messages import ExecutorHello
from terracrew.protocol.start import LogStreamSettings

WINDOW_BATCHES = 16
"""The most batches that are sent before an acknowledgement, so that the throughput does not depend on the network's latency."""
MUTATING_PERIOD_SECONDS = 0.2
"""The longest that an event of a mutating step waits for its batch. If the machine is lost with its disk, nobody can find out what the
engine made in this time."""
_STABLE_SECONDS = 10.0
_LAST_WORDS_SECONDS = 1.0
"""How long to read the server's last messages after the connection was closed."""
_CONNECTING = "the connection to the runner hub"


class Shipper:
    def __init__(
        self,
        server_url: str,
        credential: str,
        hello: ExecutorHello,
        *,
        outbox: Outbox,
        large_states: LargeStates,
        transfer: Transfer,
        control: Control,
        connection_log: ConnectionLog,
        permit: ApplyPermit,
        history: RememberedPoints,
        receipt: str = "",
        settings: LogStreamSettings,
        is_salvage: bool = False,
    ) -> None:
        self._server_url, self._credential, self._hello = server_url, credential, hello
        self._outbox, self._large_states, self._transfer = outbox, large_states, transfer
        self._control, self._connection_log, self._permit = control, connection_log, permit
        self._history, self._receipt, self._shows_receipt = history, receipt, False
        self._settings, self._log_settings = settings, messages.LogSettings()
        self._is_salvage = is_salvage
        self._is_resuming = is_salvage  # a fresh attempt's mark is 0, so its events need not wait for the welcome
        self._connection: ClientConnection | None = None
        self._window: deque[int] = deque()
        self._sent = 0
        self._flush_to = 0
        self._batch_began_at: float | None = None
        """When the first event of the current batch left; None if the next event is the first of a batch."""
        self._oldest: float | None = None
        self._put_off: Unavailable | None = None
        self._changed = asyncio.Event()
        self._arrived = asyncio.Event()
        self.welcomed = asyncio.Event()
        self.is_complete = False
        """Whether the server has the attempt's result, so that nothing may be added to the outbox any more."""
        outbox.on_append = self._appended
        permit.on_change = self._changed.set
        permit.on_silence = self._drop

    async def run(self) -> None:
        """Keep a connection until this task is cancelled, or until the server refuses this attempt permanently."""
        backoff = Backoff()
        while self._control.refused is None:
            try:
                receipt = self._receipt if self._shows_receipt else ""
                self._connection = await hub.connect(self._server_url, self._credential, receipt=receipt)
            except Unreachable as error:
                if isinstance(error, ForeignAnswer):
                    self._connection_log.report(_CONNECTING, error)
                await asyncio.sleep(backoff.next())
                continue
            except (Unauthenticated, Forbidden, Incompatible) as error:
                self._refuse(error.message, is_for_now=isinstance(error, Incompatible))
                return
            self._connection_log.over(_CONNECTING)
            self.welcomed.clear()
            mark, since, self._put_off = self._outbox.acknowledged, time.monotonic(), None
            try:
                await self._converse(self._connection)
            except (hub.ConnectionClosed, OSError, ValueError):
                pass  # a ValueError means that another program answered, which may be repaired
            finally:
                self._is_resuming = True
                self._permit.disconnected()
                await _close(self._connection)
                self._connection = None
            # A welcome alone is not progress, because what follows may fail each time.
            if self._outbox.acknowledged > mark or time.monotonic() - since > _STABLE_SECONDS:
                backoff.reset()
            await asyncio.sleep(backoff.next(self._put_off))

    async def deliver(self, up_to: int | None = None) -> bool:
        """Wait until the server has everything, or the events up to this number. Returns False if the server refuses the rest."""
        while self._control.refused is None:
            wanted = self._outbox.last if up_to is None else up_to
            if self._outbox.acknowledged >= wanted:
                break
            self._flush_to = max(self._flush_to, wanted)
            self._changed.set()
            self._arrived.clear()
            await self._arrived.wait()
        return self._control.refused is None

    # ---- one connection

    async def _converse(self, connection: ClientConnection) -> None:
        self._window.clear()
        with contextlib.suppress(
            hub.ConnectionClosed
        ):  # the server may already have sent a refusal, which is read below
            await connection.send(messages.encode(self._current_hello()), text=True)
        receiving = asyncio.create_task(self._receive(connection))
        sending = asyncio.create_task(self._send(connection))
        try:
            await asyncio.wait({receiving, sending}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({receiving}, timeout=_LAST_WORDS_SECONDS)
        finally:
            for task in (receiving, sending):
                task.cancel()
            results = await asyncio.gather(receiving, sending, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    def _is_receipt_due(self, code: str) -> bool:
        """Return whether the server does not know this attempt and has not seen its receipt, which the next connection shows."""
        is_due = code == Unauthenticated.code and bool(self._receipt) and not self._shows_receipt
        self._shows_receipt |= is_due
        return is_due

    def _current_hello(self) -> ExecutorHello:
        """Return the hello with what this attempt was told: a server whose database was set back has forgotten it."""
        remembered = self._history.points
        return msgspec.structs.replace(self._hello, has_begun=bool(remembered), history=remembered)

    async def _send(self, connection: ClientConnection) -> None:
        if self._is_resuming:
            await self.welcomed.wait()
        while True:
            self._changed.clear()
            if len(self._window) < WINDOW_BATCHES and self._is_due():
                await self._ship(connection)
            elif self._permit.is_due and self._sent == self._outbox.last:
                await connection.send(messages.encode(self._permit.question()), text=True)
            else:
                await self._wait()

    def _is_due(self) -> bool:
        waiting = self._outbox.last - self._sent
        if waiting <= 0:
            return False
        if (
            self._log_settings.is_watched
            or self._permit.is_wanted
            or max(self._outbox.urgent, self._flush_to) > self._sent
        ):
            return True
        if self._settings.eagerly_emit_first_event and not self._is_batch_open():
            return True
        return self._is_batch_full()

    def _is_batch_full(self) -> bool:
        """Return whether what waits is as much as a batch may have, or has waited for as long as it may."""
        return (
            self._outbox.last - self._sent >= self._batch_size
            or self._outbox.size_after(self._sent) >= MAX_BATCH_BYTES
            or self._remaining() <= 0
        )

    def _is_batch_open(self) -> bool:
        """Return whether the first event of a batch has left, and its other events may still wait for each other."""
        return self._batch_began_at is not None and time.monotonic() - self._batch_began_at < self._period

    async def _ship(self, connection: ClientConnection) -> None:
        up_to = self._outbox.last
        if state_file := self._large_states.first_after(self._sent):
            if state_file.number == self._sent + 1:
                headers = {"X-Plain": "1"} if state_file.is_plain else {}
                try:
                    await self._transfer.put(f"states/{state_file.number}", state_file.path, headers)
                except TerracrewError as error:  # an error of our server; everything else is retried forever
                    if not self._is_receipt_due(error.code):
                        self._refuse(error.message)
                    raise OSError(error.message) from error
                self._large_states.shipped(state_file.number)
                return
            up_to = state_file.number - 1
        count = 1 << 30 if self._log_settings.is_watched else self._batch_size
        batch = self._outbox.batch(self._sent, up_to=up_to, count=count)
        # What leaves early counts as the first event of a batch. What has waited ends its batch, so that the next event leaves at once.
        is_rest = self._is_batch_open() and self._is_batch_full()
        self._batch_began_at = None if is_rest else time.monotonic()
        self._sent = batch.last
        self._window.append(batch.last)
        self._oldest = time.monotonic() if self._sent < self._outbox.last else None
        await connection.send(frames.pack(*batch))

    async def _wait(self) -> None:
        has_deadline = self._sent < self._outbox.last and len(self._window) < WINDOW_BATCHES
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._remaining() if has_deadline else None):
                await self._changed.wait()

    async def _receive(self, connection: ClientConnection) -> None:
        while True:
            message = messages.decode_to_executor(await connection.recv(decode=False))
            if message is not None:
                self._handle(message)
            self._changed.set()

    def _handle(self, message: messages.FromServerToExecutor) -> None:
        match message:
            case messages.Ack(mark, point):
                self._history.add([point])
                self._outbox.acknowledge(min(mark, self._sent))
                while self._window and self._window[0] <= mark:
                    self._window.popleft()
                self._arrived.set()
            case messages.ExecutorWelcome():
                self._welcome(message)
            case messages.ConfigureExecutor(log_settings):
                self._log_settings = log_settings
            case messages.Begun() | messages.BeginRefused():
                if isinstance(message, messages.Begun):
                    self._history.add([message.history])  # before anything is changed
                self._permit.answered(message)
            case messages.CancelAttempt():
                self._control.request_cancel(message.mode)
            case messages.SupersededNotice(reason):
                self._control.supersede(reason)
            case messages.Refused():
                if message.is_final and not self._is_receipt_due(message.code):
                    self._refuse(message.message, is_for_now=message.code == Incompatible.code)
                self._put_off = Unavailable(message.message)

    def _welcome(self, message: messages.ExecutorWelcome) -> None:
        try:
            version.accept(message.protocol, who="executor")
        except Incompatible as error:
            return self._refuse(error.message, is_for_now=True)
        if message.mark > self._outbox.last:
            if not self._is_salvage:
                return self._refuse("the server has events of this attempt that this executor did not send")
            self._outbox.pad(message.mark)  # the machine crashed before everything that was sent had reached the disk
        self.is_complete = message.has_result
        if message.is_superseded:
            self._control.supersede("another attempt of this job is the current one")
        self._log_settings = message.log_settings
        if self._is_resuming:
            self._outbox.rewind(message.mark)
            self._large_states.rewind()
            self._sent = message.mark
            self._flush_to = self._outbox.last
        self._arrived.set()
        return self.welcomed.set()

    # ----

    @property
    def _batch_size(self) -> int:
        return self._log_settings.batch_size_limit or self._settings.batch_size_limit

    @property
    def _period(self) -> float:
        given = self._log_settings.period_seconds
        period = self._settings.period_seconds if given is None else given
        return min(period, MUTATING_PERIOD_SECONDS) if self._outbox.mutating > self._sent else period

    def _remaining(self) -> float:
        """Return how long the oldest waiting event may still wait for its batch to fill."""
        return self._period - (time.monotonic() - (self._oldest or 0.0))

    def _appended(self) -> None:
        if self._oldest is None:
            self._oldest = time.monotonic()
        self._changed.set()

    def _refuse(self, reason: str, *, is_for_now: bool = False) -> None:
        self._control.refuse(reason, is_for_now=is_for_now)
        self._arrived.set()
        self._drop()

    def _drop(self) -> None:
        if self._connection:
            self._connection.transport.abort()


async def _close(connection: ClientConnection) -> None:
    """Close the connection without waiting for an answer: everything is acknowledged, and the slot should be freed."""
    closing = asyncio.create_task(connection.close())
    await asyncio.sleep(0)
    connection.transport.close()
    await asyncio.wait({closing}, timeout=1)
