"""States that are too large for a frame. Each is a file beside the outbox, named after the number of its event, and sent by HTTP.

states/
  new       a state that is being written and has no number yet
  12        the state of event 12; `12.plain` where it is not encrypted
  12.event  the record of event 12, which says what the state is. It is on the disk before the state gets its number, so
            that the state can still be delivered if the outbox loses the event in a power cut
"""

import os
from pathlib import Path
from typing import NamedTuple

from terracrew.protocol import events
from terracrew.protocol.events import Kind
from terracrew.system import durable

PLAIN = ".plain"
"""Marks a state that is not encrypted, because it was salvaged after the key was lost."""
EVENT = ".event"
_NEW = "new"


class SpooledState(NamedTuple):
    """The file of a state, and the number of the event that the state belongs to."""

    number: int
    path: Path

    @property
    def is_plain(self) -> bool:
        return self.path.suffix == PLAIN


class UnrecordedState(NamedTuple):
    """A state that is whole on the disk and whose event is not in the outbox. The engine was not told that it is saved."""

    path: Path
    event: bytes


class LargeStates:
    """The state files of one attempt. The shipper uploads each of them before it sends the event of the same number."""

    def __init__(self, directory: Path, last: int) -> None:
        """Read what an executor that died has left. Nothing is deleted: a state is valid even if its event was not written."""
        self._directory = directory
        self._files: dict[int, SpooledState] = {}
        self._shipped: set[int] = set()
        self.unannounced: list[UnrecordedState] = []
        self.unusable: list[Path] = []
        """Files that are incomplete, or that no event describes. They are not removed."""
        self._read_directory(last)

    def _read_directory(self, last: int) -> None:
        names = set(os.listdir(self._directory)) if self._directory.is_dir() else set[str]()
        described: set[str] = set()
        for name in sorted(names):
            number, _, suffix = name.partition(".")
            if not number.isdigit():
                continue
            if int(number) > last:
                content = (
                    number if number in names else _NEW
                )  # the renaming may be lost although the content is on the disk
                if name == number + EVENT and content in names and (event := _event(self._directory / name)):
                    self.unannounced.append(UnrecordedState(self._directory / content, event))
                    described.add(content)
            elif suffix in ("", PLAIN[1:]):
                self._files[int(number)] = SpooledState(int(number), self._directory / name)
        for name in sorted(names - described):
            number, _, suffix = name.partition(".")
            if name == _NEW or (number.isdigit() and int(number) > last and suffix in ("", PLAIN[1:])):
                self.unusable.append(self._directory / name)

    def write(self, content: bytes) -> None:
        """Write a state to the disk. It has no number until `place` is called."""
        durable.make_directory(self._directory)
        durable.overwrite(self._directory / _NEW, content)

    def place(self, number: int, suffix: str = "", event: bytes = b"") -> None:
        """Name the state that was written last after its event. The name is on the disk when this returns."""
        self._place(self._directory / _NEW, number, suffix, event)

    def announce(self, found: UnrecordedState, number: int) -> None:
        """Give a number to a state whose event was lost; the caller records the event again under the same number."""
        self._place(found.path, number, "", found.event)

    def _place(self, source: Path, number: int, suffix: str, event: bytes) -> None:
        path = self._directory / f"{number}{suffix}"
        if event:
            os.replace(durable.write_draft(path, event), self._directory / f"{number}{EVENT}")
        durable.rename(source, path)
        self._files[number] = SpooledState(number, path)

    def first_after(self, number: int) -> SpooledState | None:
        """Return the next state that has to be uploaded before its event is sent."""
        waiting = (state_file for state_file in self._files.values() if state_file.number not in self._shipped)
        return min((state_file for state_file in waiting if state_file.number > number), default=None)

    def shipped(self, number: int) -> None:
        self._shipped.add(number)

    def rewind(self) -> None:
        """Upload everything again: the server may have lost it, and a repeated upload changes nothing."""
        self._shipped.clear()


def _event(path: Path) -> bytes:
    """Read the record in this file; the result is empty if the record is damaged."""
    content = path.read_bytes()
    try:
        records = list(events.unpack(content))
        if len(records) == 1 and records[0].kind == Kind.STATE:
            events.state_of(records[0])
            return content
    except ValueError:
        pass
    return b""
