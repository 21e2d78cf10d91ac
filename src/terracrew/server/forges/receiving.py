"""Takes what forges deliver: checks the signature, stores for what it is a reason to ask, and answers at once.

Nothing is asked of the forge here, because it waits for the answer. Nobody has to be logged in to deliver. A delivery that came before is
known by its id and changes nothing; one that somebody repeats under another id is one more reason to ask, and its content is no fact.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta

import msgspec

from terracrew import ids
from terracrew.errors import RateLimited, Unavailable
from terracrew.forges import values
from terracrew.forges.contract import ForgeRefused, WrongSignature
from terracrew.forges.model import CommentWritten, ForgeEvent
from terracrew.server.db.seam import Database, Tx
from terracrew.server.forges import delivery_store, store
from terracrew.server.forges.clients import Forges
from terracrew.server.forges.model import ForgeConnection, ForgeDelivery

MAX_BODY_BYTES = 8 << 20
"""Forges send up to 25 MB. What a larger delivery would have told is found by polling."""
MAX_READING_BYTES = 64 << 20
"""How large the bodies may be together that a server reads at the same time: their senders are not known yet."""
MAX_READING_OF_ONE_BYTES = 16 << 20
"""The same for the connections of one organization, so that the others are heard when somebody delivers slowly to one of them."""
READING_SECONDS = 10.0
"""How long a delivery may take to arrive. Forges give up after 10 seconds, too."""
MAX_WAITING = 5_000
"""How many deliveries of a connection may wait. More are not stored: polling finds what they would have told."""
_EVENT_HEADERS = ("x-gitea-event", "x-forgejo-event", "x-github-event", "x-gitlab-event")


class ForgeReceiver:
    """What answers for the addresses of hooks."""

    def __init__(self, db: Database, forges: Forges) -> None:
        self._db, self._forges = db, forges
        self._reading_bytes: Counter[str] = Counter()
        """By organization."""

    async def receive(
        self, connection_id: str, headers: Mapping[str, str], size: int | None, body: Callable[[], Awaitable[bytes]]
    ) -> bool:
        """Store a delivery. Returns False if nothing was stored: it came before, or nothing here listens to such events.

        Names of headers are in lower case. `size` is the declared size of the body, which is read only if there is such a connection.
        Raises WrongSignature in the same words if there is none.
        """
        is_id = ids.is_id("fcn", connection_id)
        found, asked_at = await self._db.read(lambda tx: _found(tx, connection_id)) if is_id else (None, None)
        if found is None or asked_at is None:
            raise _wrong()
        delivery = self._delivery(found, headers, await self._read(found, size, body))
        if delivery is None:
            if _is_to_be_noted(found.wrong_delivery_at, asked_at):
                await self._db.write(lambda tx: store.note_delivery(tx, found.id, is_good=False))
            raise _wrong()
        is_noted = not _is_to_be_noted(found.delivered_at, asked_at)
        if not delivery.events and not delivery.problem:
            if not is_noted:
                await self._db.write(lambda tx: store.note_delivery(tx, found.id, is_good=True))
            return False
        return await self._db.write(lambda tx: _save(tx, delivery, is_noted=is_noted))

    async def _read(self, connection: ForgeConnection, size: int | None, body: Callable[[], Awaitable[bytes]]) -> bytes:
        organization_id, size = connection.organization_id, MAX_BODY_BYTES if size is None else size
        is_full = self._reading_bytes.total() + size > MAX_READING_BYTES
        if is_full or self._reading_bytes[organization_id] + size > MAX_READING_OF_ONE_BYTES:
            raise Unavailable("too many deliveries arrive at the same time: try again in a moment")
        self._reading_bytes[organization_id] += size
        try:
            async with asyncio.timeout(READING_SECONDS):
                return await body()
        except TimeoutError:
            raise Unavailable(f"the delivery did not arrive within {READING_SECONDS:g} seconds") from None
        finally:
            self._reading_bytes[organization_id] -= size
            if not self._reading_bytes[organization_id]:
                del self._reading_bytes[organization_id]

    def _delivery(self, found: ForgeConnection, headers: Mapping[str, str], body: bytes) -> ForgeDelivery | None:
        """Return a delivery of this connection; None if it was not signed with the secret of its hooks.

        One that was signed and cannot be read is told to people and not to the forge, which would disable the hook after some refusals.
        """
        forge = self._forges.of(found)
        problem = ""
        events: list[ForgeEvent] = []
        try:
            secret = self._forges.credential(found).hook_secret
            events = [_without_text(each) for each in forge.events(headers, body, secret, self._forges.now())]
        except WrongSignature:
            return None
        except ForgeRefused as error:
            problem = error.message
        return ForgeDelivery(
            id=ids.new("fdl"),
            connection_id=found.id,
            delivery_id=forge.delivery_id(headers, body) or hashlib.sha256(body).hexdigest(),
            event=values.line(next((headers[name] for name in _EVENT_HEADERS if name in headers), ""), 100),
            events=events,
            received_at=self._forges.now(),
            problem=problem,
        )


async def _found(tx: Tx, connection_id: str) -> tuple[ForgeConnection | None, datetime]:
    return await store.find(tx, connection_id), tx.moment


def _is_to_be_noted(last: datetime | None, now: datetime) -> bool:
    """Return whether the time of a delivery is written: a forge that delivers much would have it written each time."""
    return last is None or now - last > timedelta(seconds=store.NOTED_SECONDS)


async def _save(tx: Tx, delivery: ForgeDelivery, *, is_noted: bool) -> bool:
    waiting = await delivery_store.count_waiting(tx, delivery.connection_id, MAX_WAITING)
    if waiting is None:
        raise _wrong()  # it was deleted meanwhile
    if not is_noted:
        await store.note_delivery(tx, delivery.connection_id, is_good=True)
    if waiting >= MAX_WAITING:
        raise RateLimited("too many deliveries of this connection wait: polling finds what this one is about")
    is_done = not delivery.events
    handled_at, try_at = (tx.moment, None) if is_done else (None, tx.moment)
    timed = msgspec.structs.replace(delivery, received_at=tx.moment, handled_at=handled_at, try_at=try_at)
    if not await delivery_store.insert(tx, timed):
        return False
    tx.wake("forge_deliveries", delivery.connection_id)
    return True


def _wrong() -> WrongSignature:
    return WrongSignature(
        "the delivery was not signed with the secret of this hook, or there is no such hook: let the connection repair it"
    )


def _without_text(event: ForgeEvent) -> ForgeEvent:
    """Return an event without what nobody reads of it: the text of a comment is asked for."""
    if isinstance(event, CommentWritten):
        return msgspec.structs.replace(event, comment=msgspec.structs.replace(event.comment, body=""))
    return event
