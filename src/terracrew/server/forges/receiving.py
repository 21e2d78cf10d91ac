"""Takes what forges deliver: checks the signature, stores for what it is a reason to ask, and answers at once.

Nothing is asked of the forge here, because it waits for the answer.
"""

from collections.abc import Mapping

import msgspec

from terracrew import ids
from terracrew.errors import NotFound, RateLimited
from terracrew.forges import values
from terracrew.forges.contract import ForgeRefused
from terracrew.forges.model import CommentWritten, ForgeEvent
from terracrew.server.db.seam import Database, Tx
from terracrew.server.forges import delivery_store, store
from terracrew.server.forges.clients import Forges
from terracrew.server.forges.model import ForgeConnection, ForgeDelivery

MAX_BODY_BYTES = 8 << 20
"""Forges send up to 25 MB. What a larger delivery would have told is found by polling."""
MAX_WAITING = 5_000
"""How many deliveries of a connection may wait. More are not stored: polling finds what they would have told."""
_EVENT_HEADERS = ("x-gitea-event", "x-forgejo-event", "x-github-event", "x-gitlab-event")


async def connection(db: Database, connection_id: str) -> ForgeConnection:
    """Return a connection by the id in the address of its hooks. Nobody has to be logged in to deliver."""
    found = await db.read(lambda tx: store.find(tx, connection_id)) if ids.is_id("fcn", connection_id) else None
    if found is None:
        raise NotFound("there is no such hook")
    return found


def read(forges: Forges, found: ForgeConnection, headers: Mapping[str, str], body: bytes) -> ForgeDelivery | None:
    """Return a delivery that was signed with the secret of the hooks; None if nothing here listens to such events.

    Raises WrongSignature, or ForgeRefused if it is not what this forge sends.
    """
    now = forges.now()
    forge = forges.of(found)
    events = forge.events(headers, body, forges.credential(found).hook_secret, now)
    event = values.line(next((headers[name] for name in _EVENT_HEADERS if name in headers), ""), 100)
    known_by = forge.delivery_id(headers, body)
    if not known_by:
        raise ForgeRefused("the delivery has no id, by which it would be known if it came again")
    if not events:
        return None
    return ForgeDelivery(
        id=ids.new("fdl"),
        connection_id=found.id,
        delivery_id=known_by,
        event=event,
        events=[_without_text(each) for each in events],
        received_at=now,
        try_at=now,
    )


async def receive(db: Database, found: ForgeConnection, delivery: ForgeDelivery | None) -> bool:
    """Store a delivery, and wake those who handle it. Returns False if nothing was stored: it came before, or is about nothing."""

    async def work(tx: Tx) -> bool:
        await store.note_delivery(tx, found.id, is_good=True)
        if delivery is None:
            return False
        if await delivery_store.count_waiting(tx, found.id, MAX_WAITING) >= MAX_WAITING:
            raise RateLimited("too many deliveries of this connection wait: polling finds what this one is about")
        if not await delivery_store.insert(tx, delivery):
            return False
        tx.wake("forge_deliveries", found.id)
        return True

    return await db.write(work)


async def note_wrong(db: Database, found: ForgeConnection) -> None:
    """Write that somebody delivered something without the right signature, for people to see."""
    await db.write(lambda tx: store.note_delivery(tx, found.id, is_good=False))


def _without_text(event: ForgeEvent) -> ForgeEvent:
    """Return an event without what nobody reads of it: the text of a comment is asked for."""
    if isinstance(event, CommentWritten):
        return msgspec.structs.replace(event, comment=msgspec.structs.replace(event.comment, body=""))
    return event
