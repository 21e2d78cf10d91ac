"""What is announced, and the rows of channels and deliveries."""

import msgspec

from terracrew.api.notifications import Channel, NotificationContent, NotificationDelivery, NotificationEvent


class Announcement(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened at a place, of which its channels and those of the groups above tell."""

    event: NotificationEvent
    organization_id: str | None
    """None if it is about the whole server: every channel that tells of such events does."""
    module_id: str = ""
    """The module that it is about; empty if it is about a group, whose path is then in `path`."""
    path: str = ""
    subject_id: str
    """The id of what it is about, such as a job. Messages about one subject are one thread."""
    content: NotificationContent


class SealedChannel(Channel, frozen=True, kw_only=True):
    """A channel with its secrets as they are stored."""

    sealed: bytes | None

    def __repr__(self) -> str:
        return f"SealedChannel({self.id!r})"


class StoredDelivery(NotificationDelivery, frozen=True, kw_only=True):
    """A delivery with what the receiver calls the thread that it began."""

    thread: str
