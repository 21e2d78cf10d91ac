"""Sends what is in the outbox: at least once, again after a growing delay, and never by two servers at the same time.

A server holds a row while it sends it, and a channel sends one message at a time, so that its messages keep their order. The row of a
server that was killed becomes free when its hold ends. A receiver that hangs occupies one of the server's places, and no other channel
waits for it.
"""

from functools import partial

from msgspec.structs import replace

from terracrew.errors import Undecryptable
from terracrew.logging import get_logger
from terracrew.server.announcements import channel_store, delivery_store
from terracrew.server.announcements.model import SealedChannel, StoredDelivery
from terracrew.server.db.seam import Database, Tx
from terracrew.server.notifications import decide, sealing
from terracrew.server.notifications.model import Message, Outbound, SendResult, failed
from terracrew.server.notifications.senders import Senders
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.supervise import FailedRows, Tasks

MAX_SENDING = 20
"""How many messages a server sends at the same time."""
HOLD_SECONDS = 60.0
"""Longer than any try may take."""
SWEEP_SECONDS = 30.0
"""While nothing is due, the loop waits for a wake-up, or for this long."""
BUSY_SECONDS = 2.0
"""How long the loop waits if what is due is being sent, maybe by a server that was killed."""
MIN_WAIT_SECONDS = 0.05
MAX_KEPT_DELIVERIES = 200
"""How many ended deliveries of a channel are kept."""
MAX_WAITING_DELIVERIES = 500
"""How many messages of a channel wait for a receiver that is away. Older ones are given up, and a person can send them again."""
log = get_logger("terracrew.notifications")


class Sending:
    def __init__(self, db: Database, keys: Keyring, senders: Senders, url: str) -> None:
        """`url` is the address of this server, at which people find the pages that messages link to."""
        self._db, self._keys, self._senders, self._url = db, keys, senders, url.rstrip("/")
        self._tasks, self._sending = Tasks(), 0

    async def run(self) -> None:
        try:
            with self._db.listen("notifications") as wakeups:
                while True:
                    await wakeups.get(timeout=await self._start())
        finally:
            await self._tasks.stop()

    async def step(self) -> float:
        """Send what is due, wait until it is sent, and return how long nothing else is due."""
        await self._start()
        await self._tasks.join()
        return await self._db.read(_wait)

    async def _start(self) -> float:
        """Begin to send what is due, as far as there is room, and return how long to wait."""
        room = MAX_SENDING - self._sending
        held = await self._db.write(partial(_hold, room=room)) if await self._has_due(room) else []
        for channel, delivery in held:
            self._sending += 1
            self._tasks.start(self._send(channel, delivery))
        return await self._db.read(_wait)

    async def _has_due(self, room: int) -> bool:
        """Look without the lock of a writer: most of the time nothing is due."""
        return room > 0 and bool(await self._db.read(lambda tx: delivery_store.due(tx, 1)))

    async def _send(self, channel: SealedChannel, delivery: StoredDelivery) -> None:
        result = failed("this server could not send it: its log says why")
        try:
            with FailedRows("notifications").handling(delivery.notification_id):
                result = await self._try(channel, delivery)
        finally:
            self._sending -= 1
        await self._db.write(lambda tx: _mark(tx, delivery, decide.after_try(delivery, result, tx.moment)))
        if not result.is_delivered:
            log.warning(
                "a notification was not delivered", channel=channel.id, tries=delivery.tries, reason=result.error
            )

    async def _try(self, channel: SealedChannel, delivery: StoredDelivery) -> SendResult:
        try:
            return await self._senders.send(self._outbound(channel, delivery))
        except Undecryptable as error:
            return failed(error.message)

    def _outbound(self, channel: SealedChannel, delivery: StoredDelivery) -> Outbound:
        message = Message(
            id=delivery.notification_id,
            event=delivery.event,
            path=delivery.path,
            subject_id=delivery.subject_id,
            content=delivery.content,
            at=delivery.created_at,
            url=self._url + delivery.content.link if delivery.content.link else "",
            thread=delivery.thread,
        )
        return Outbound(channel, sealing.unseal(self._keys, channel), message)


async def _hold(tx: Tx, room: int) -> list[tuple[SealedChannel, StoredDelivery]]:
    found: list[tuple[SealedChannel, StoredDelivery]] = []
    for delivery in await delivery_store.hold(tx, await delivery_store.due(tx, room), HOLD_SECONDS):
        thread = await delivery_store.thread(tx, delivery.channel_id, delivery.subject_id)
        found.append((await channel_store.get(tx, delivery.channel_id), replace(delivery, thread=thread)))
    return found


async def _mark(tx: Tx, held: StoredDelivery, after: StoredDelivery) -> None:
    """Write what became of a try, unless the hold ended before and another server has the row."""
    if await delivery_store.save(tx, held, after):
        await delivery_store.give_up_oldest(tx, after.channel_id, MAX_WAITING_DELIVERIES)
        await delivery_store.prune(tx, after.channel_id, MAX_KEPT_DELIVERIES)
        tx.wake("notifications", after.channel_id)


async def _wait(tx: Tx) -> float:
    at = await delivery_store.next_due(tx)
    if at is None:
        return SWEEP_SECONDS
    return BUSY_SECONDS if at <= tx.now else min(SWEEP_SECONDS, max(MIN_WAIT_SECONDS, at - tx.now))
