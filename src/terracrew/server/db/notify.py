"""How servers on one PostgreSQL wake each other: LISTEN and NOTIFY, on one connection that mends itself."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress

import msgspec
import structlog

from terracrew import ids
from terracrew.backoff import Backoff
from terracrew.errors import Unavailable
from terracrew.server.db.postgres_tx import Connection, is_away, translated
from terracrew.server.db.presence import Presence
from terracrew.server.db.wakeups import Hub, Wake

CHANNEL = "terracrew"
PAYLOAD = 7_900  # PostgreSQL takes less than 8,000 bytes
LONGEST_KEY = 256
PENDING = 10_000  # while the connection is away; beyond it, only the topics are remembered
PULSE = 5.0  # seconds; a connection that died without a word is found out by then
PATIENCE = 5.0
PAUSE = 0.05  # before the first attempt to come back; it doubles with each that fails
LONGEST_PAUSE = 0.5  # one connection of each server: what matters is that its return is noticed
log = structlog.get_logger()


class Note(msgspec.Struct, frozen=True, array_like=True):
    sender: str
    wakes: list[Wake]


class Notifier:
    """Tells other servers what was committed here, and this one what was committed there.

    NOTIFY is sent after the commit and not in it, where PostgreSQL would let commits pass one at a time. What a crash
    loses in between costs latency only. Its connection is also the one by which the database's presence is known.
    """

    def __init__(self, connect: Callable[[], Awaitable[Connection]], hub: Hub, presence: Presence) -> None:
        self._connect = connect
        self._hub = hub
        self._presence = presence
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
        """Send what is left, if that goes quickly."""
        self._stopping = True
        self._something.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=2)
            self._task.cancel()
            await asyncio.wait([self._task])
        self._drop()

    def doubt(self) -> None:
        """Somebody's connection has failed: feel the pulse now."""
        self._something.set()

    def send(self, wakes: Iterable[Wake]) -> None:
        self._pending.update(dict.fromkeys(wakes))
        if len(self._pending) > PENDING:
            self._pending = {(topic, ""): None for topic, _ in self._pending}
        self._something.set()

    async def _run(self) -> None:
        delays = Backoff(PAUSE, LONGEST_PAUSE)
        while not self._stopping:
            try:
                if self._connection is None:
                    self._connection = await self._listen()
                    self._presence.found()
                    self._hub.wake_all()
                    delays.reset()
                await self._serve(self._connection)
            except Exception as error:  # whatever it is, the other servers must be heard again
                if self._connection is not None:
                    log.warning("wake-ups from other servers are interrupted", reason=str(error))
                # A connection may be lost alone. One that cannot be made, or on which nobody answers, says more.
                if is_away(error) and (self._connection is None or isinstance(error.__cause__, TimeoutError)):
                    self._presence.lost(str(error))
                self._drop()
                await asyncio.sleep(delays.next())

    async def _serve(self, connection: Connection) -> None:
        """Send what there is, all of it in one statement; with nothing to send, feel the connection's pulse."""
        while self._pending or not self._stopping:
            with suppress(TimeoutError):
                async with asyncio.timeout(PULSE):
                    await self._something.wait()
            self._something.clear()
            sent, self._pending = self._pending, {}
            try:
                with translated():
                    async with asyncio.timeout(PATIENCE):
                        await connection.fetch(
                            "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload",
                            CHANNEL,
                            list(payloads(self._me, sent)),
                        )
            except Unavailable:
                self.send(sent)
                raise

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def _listen(self) -> Connection:
        with translated():
            async with asyncio.timeout(PATIENCE):
                connection = await self._connect()
                await connection.add_listener(CHANNEL, self._heard)
                connection.add_termination_listener(self._lost)
                return connection

    def _lost(self, _connection: object) -> None:
        self._something.set()

    def _heard(self, _connection: object, _pid: int, _channel: str, payload: str) -> None:
        try:
            note = msgspec.json.decode(payload, type=Note)
        except msgspec.DecodeError:  # of a version that speaks differently: something has changed, that much is known
            self._hub.wake_all()
            return
        if note.sender != self._me:
            self._hub.publish(note.wakes)


def payloads(sender: str, wakes: Iterable[Wake]) -> Iterator[str]:
    """Pack wake-ups into as few payloads as the limit allows."""
    room = PAYLOAD - len(msgspec.json.encode(Note(sender, [])))
    packed: list[Wake] = []
    used = 0
    for topic, key in wakes:
        if len(key) > LONGEST_KEY:  # no id of ours: let them look at the whole topic
            key = ""
        size = len(msgspec.json.encode((topic, key))) + 1
        if used + size > room:
            yield msgspec.json.encode(Note(sender, packed)).decode()
            packed, used = [], 0
        packed.append((topic, key))
        used += size
    if packed:
        yield msgspec.json.encode(Note(sender, packed)).decode()
