"""Servers on one PostgreSQL wake each other by LISTEN and NOTIFY, on one connection that reconnects by itself."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress

import msgspec

from terracrew import ids
from terracrew.backoff import Backoff
from terracrew.errors import Unavailable
from terracrew.logging import get_logger
from terracrew.server.db.availability import Availability
from terracrew.server.db.postgres.transaction import Connection, is_away, translated
from terracrew.server.db.wakeups import Wake, WakeupBus

CHANNEL = "terracrew"
MAX_PAYLOAD_BYTES = 7_900  # PostgreSQL accepts less than 8,000 bytes
MAX_KEY_CHARACTERS = 256
MAX_PENDING_WAKEUPS = 10_000  # unsent ones; beyond this number only their topics are remembered
PING_INTERVAL_SECONDS = 5.0  # a dead connection is noticed within this time
STATEMENT_TIMEOUT_SECONDS = 5.0
FIRST_RECONNECT_PAUSE_SECONDS = 0.05  # doubles with each failed attempt
MAX_RECONNECT_PAUSE_SECONDS = 0.5  # short, because each server makes only one such connection
log = get_logger("terracrew.db")


class Notification(msgspec.Struct, frozen=True, array_like=True):
    sender: str
    wakes: list[Wake]


class Notifier:
    """Tell other servers what was committed here, and wake this one for what was committed there.

    NOTIFY is sent after the commit: inside a transaction it would make PostgreSQL serialize all commits. A wake-up that a
    crash loses in between costs latency only. The notifier's connection also decides whether the database is available.
    """

    def __init__(
        self, connect: Callable[[], Awaitable[Connection]], bus: WakeupBus, availability: Availability
    ) -> None:
        self._connect = connect
        self._bus = bus
        self._availability = availability
        self._me = ids.new("srv")
        self._pending: dict[Wake, None] = {}
        self._something = asyncio.Event()
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    async def start(self) -> None:
        """Listen before returning, so that nothing committed from now on is missed."""
        self._connection = await self._listen()
        self._task = asyncio.create_task(self._run(), name="notifier")

    async def stop(self) -> None:
        """Send the remaining wake-ups within two seconds, then close the connection."""
        self._stopping = True
        self._something.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=2)
            self._task.cancel()
            await asyncio.wait([self._task])
        self._drop()

    def doubt(self) -> None:
        """Check the connection now, because another one has failed."""
        self._something.set()

    def send(self, wakes: Iterable[Wake]) -> None:
        self._pending.update(dict.fromkeys(wakes))
        if len(self._pending) > MAX_PENDING_WAKEUPS:
            self._pending = {(topic, ""): None for topic, _ in self._pending}
        self._something.set()

    async def _run(self) -> None:
        delays = Backoff(FIRST_RECONNECT_PAUSE_SECONDS, MAX_RECONNECT_PAUSE_SECONDS)
        while not self._stopping:
            try:
                if self._connection is None:
                    self._connection = await self._listen()
                    self._availability.found()
                    self._bus.wake_all()
                    delays.reset()
                await self._serve(self._connection)
            except (
                Exception
            ) as error:  # the loop continues after any error, to receive messages of the other servers again
                self._failed(error)
                await asyncio.sleep(delays.next())

    def _failed(self, error: Exception) -> None:
        """Report the outage, if it is one. No error ends the loop, which alone can notice that the database is back."""
        try:
            if self._connection is not None:
                log.warning("wake-ups from other servers are interrupted", reason=str(error))
            # One lost connection proves nothing. A failed attempt to connect or a timeout means that the database is away.
            if is_away(error) and (self._connection is None or isinstance(error.__cause__, TimeoutError)):
                self._availability.lost(str(error))
            self._drop()
        except Exception as unexpected:
            log.error("a lost connection to PostgreSQL could not be given up", reason=str(unexpected))

    async def _serve(self, connection: Connection) -> None:
        """Send all pending wake-ups in one statement; with nothing to send, the statement checks the connection."""
        while self._pending or not self._stopping:
            with suppress(TimeoutError):
                async with asyncio.timeout(PING_INTERVAL_SECONDS):
                    await self._something.wait()
            self._something.clear()
            sent, self._pending = self._pending, {}
            try:
                with translated():
                    async with asyncio.timeout(STATEMENT_TIMEOUT_SECONDS):
                        await connection.fetch(
                            "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload",
                            CHANNEL,
                            list(payloads(self._me, sent)),
                        )
            except Unavailable:
                self.send(sent)
                raise

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def _listen(self) -> Connection:
        with translated():
            async with asyncio.timeout(STATEMENT_TIMEOUT_SECONDS):
                connection = await self._connect()
                await connection.add_listener(CHANNEL, self._on_notification)
                connection.add_termination_listener(self._lost)
                return connection

    def _lost(self, _connection: object) -> None:
        self._something.set()

    def _on_notification(self, _connection: object, _pid: int, _channel: str, payload: str) -> None:
        try:
            note = msgspec.json.decode(payload, type=Notification)
        except msgspec.DecodeError:  # sent by another version: something has changed, but not known what
            self._bus.wake_all()
            return
        if note.sender != self._me:
            self._bus.publish(note.wakes)


def payloads(sender: str, wakes: Iterable[Wake]) -> Iterator[str]:
    """Pack wake-ups into as few payloads as the limit allows."""
    room = MAX_PAYLOAD_BYTES - len(msgspec.json.encode(Notification(sender, [])))
    packed: list[Wake] = []
    used = 0
    for topic, key in wakes:
        if len(key) > MAX_KEY_CHARACTERS:  # this is not one of our ids: listeners read the whole topic
            key = ""
        size = len(msgspec.json.encode((topic, key))) + 1
        if used + size > room:
            yield msgspec.json.encode(Notification(sender, packed)).decode()
            packed, used = [], 0
        packed.append((topic, key))
        used += size
    if packed:
        yield msgspec.json.encode(Notification(sender, packed)).decode()
