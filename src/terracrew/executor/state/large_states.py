"""States too large for a frame: a file each beside the outbox, named by the number of its event, shipped by HTTP.

states/
  new       a state that is being written and has no number yet
  12        the state of event 12; `12.plain` where it is not encrypted
  12.event  the record of event 12, which says what the state is. It is on the disk before the state gets its number, so
            that a state whose event a power cut took from the outbox can still be delivered
"""

import os
from pathlib import Path
from typing import NamedTuple

from terracrew import durable
from terracrew.protocol import events
from terracrew.protocol.events import Kind

PLAIN = ".plain"
"""Marks what is not encrypted: a state that was salvaged when nobody had the key any more."""
EVENT = ".event"
_NEW = "new"


class Parcel(NamedTuple):
    number: int
    path: Path

    @property
    def is_plain(self) -> bool:
        return self.path.suffix == PLAIN


class Unannounced(NamedTuple):
    """A state that is whole on the disk and whose event is not in the outbox. The engine was not told that it is saved."""

    path: Path
    event: bytes


class Aside:
    def __init__(self, directory: Path, last: int) -> None:
        """Take up what a dead executor left. Nothing is deleted: a state whose event was not written is as real."""
        self._directory = directory
        self._parcels: dict[int, Parcel] = {}
        self._shipped: set[int] = set()
        self.unannounced: list[Unannounced] = []
        self.unusable: list[Path] = []
        """Files that were cut off while they were written, or that nothing describes. They stay where they are."""
        self._take_up(last)

    def _take_up(self, last: int) -> None:
        names = set(os.listdir(self._directory)) if self._directory.is_dir() else set[str]()
        described: set[str] = set()
        for name in sorted(names):
            number, _, suffix = name.partition(".")
            if not number.isdigit():
                continue
            if int(number) > last:
                content = number if number in names else _NEW  # the name may be lost and the content be there
                if name == number + EVENT and content in names and (event := _event(self._directory / name)):
                    self.unannounced.append(Unannounced(self._directory / content, event))
                    described.add(content)
            elif suffix in ("", PLAIN[1:]):
                self._parcels[int(number)] = Parcel(int(number), self._directory / name)
        for name in sorted(names - described):
            number, _, suffix = name.partition(".")
            if name == _NEW or (number.isdigit() and int(number) > last and suffix in ("", PLAIN[1:])):
                self.unusable.append(self._directory / name)

    def write(self, content: bytes) -> None:
        """Put it on the disk; it has no number yet."""
        durable.make_directory(self._directory)
        descriptor = os.open(self._directory / _NEW, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)

    def place(self, number: int, suffix: str = "", event: bytes = b"") -> None:
        """Give what was written last its number; the name is on the disk, too, when this returns."""
        self._place(self._directory / _NEW, number, suffix, event)

    def announce(self, found: Unannounced, number: int) -> None:
        """Give a state its number whose event was lost; the event is to be recorded again."""
        self._place(found.path, number, "", found.event)

    def _place(self, source: Path, number: int, suffix: str, event: bytes) -> None:
        path = self._directory / f"{number}{suffix}"
        if event:
            os.replace(durable.write_draft(path, event), self._directory / f"{number}{EVENT}")
        durable.rename(source, path)
        self._parcels[number] = Parcel(number, path)

    def first_after(self, number: int) -> Parcel | None:
        """The next one that must be shipped before its event is."""
        waiting = (parcel for parcel in self._parcels.values() if parcel.number not in self._shipped)
        return min((parcel for parcel in waiting if parcel.number > number), default=None)

    def shipped(self, number: int) -> None:
        self._shipped.add(number)

    def rewind(self) -> None:
        """What the server had before it may have lost; sending it again changes nothing."""
        self._shipped.clear()


def _event(path: Path) -> bytes:
    """The record in this file; empty where it is damaged."""
    content = path.read_bytes()
    try:
        records = list(events.unpack(content))
        if len(records) == 1 and records[0].kind == Kind.STATE:
            events.state_of(records[0])
            return content
    except ValueError:
        pass
    return b""
