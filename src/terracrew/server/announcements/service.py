"""Announces what has happened: in the transaction of a change, the outbox gets a row for each channel that tells of it."""

from collections.abc import Sequence

from terracrew import ids
from terracrew.api.notifications import NotificationContent
from terracrew.server.announcements import delivery_store
from terracrew.server.announcements.model import Announcement
from terracrew.server.db.seam import Tx
from terracrew.wording import escapes

MAX_TITLE_CHARACTERS = 200
MAX_TEXT_CHARACTERS = 2_000
MAX_FACTS = 12
MAX_FACT_CHARACTERS = 300


async def announce(tx: Tx, *announcements: Announcement) -> None:
    """Let the channels of these places tell of what this transaction changes.

    Without channels, this is one statement that reads an index. Texts may come from anywhere: they are cut and made plain here, and
    the senders escape them for their receivers.
    """
    rows = [(ids.new("ntf"), each, _bounded(each.content)) for each in announcements]
    for channel_id in await delivery_store.insert_for_channels(tx, rows):
        tx.wake("notifications", channel_id)


def _bounded(content: NotificationContent) -> NotificationContent:
    return NotificationContent(
        title=_line(content.title, MAX_TITLE_CHARACTERS),
        text=_plain(content.text, MAX_TEXT_CHARACTERS),
        link=content.link,
        facts={
            _line(name, MAX_FACT_CHARACTERS): _line(value, MAX_FACT_CHARACTERS)
            for name, value in _first(list(content.facts.items()))
            if value
        },
    )


def _first(facts: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    return facts[:MAX_FACTS]


def _line(text: str, most: int) -> str:
    """Return a text without line breaks: it may become the subject of an e-mail."""
    return _plain(" ".join(text.split()), most)


def _plain(text: str, most: int) -> str:
    plain = escapes.plain(text[: most * 2].replace("\0", "\ufffd"))
    return plain if len(plain) <= most else plain[: most - 1] + "…"
