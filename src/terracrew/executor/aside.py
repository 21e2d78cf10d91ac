"""States too large for a frame: a file each beside the outbox, named by the number of its event, shipped by HTTP."""

import os
from pathlib import Path
from typing import NamedTuple

PLAIN = ".plain"
"""Marks what is not encrypted: a state that was salvaged when nobody had the key any more."""


class Parcel(NamedTuple):
    number: int
    path: Path

    @property
    def is_plain(self) -> bool:
        return self.path.suffix == PLAIN


class Aside:
    def __init__(self, directory: Path, last: int) -> None:
        """Take up what a dead executor left; a file whose event was never written does not count."""
        self._directory = directory
        self._parcels: dict[int, Parcel] = {}
        self._shipped: set[int] = set()
        for path in directory.iterdir() if directory.is_dir() else ():
            if path.stem.isdigit() and int(path.stem) <= last:
                self._parcels[int(path.stem)] = Parcel(int(path.stem), path)
            else:
                path.unlink()

    def write(self, content: bytes) -> None:
        """Put it on the disk; it has no number yet."""
        self._directory.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(self._directory / "new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)

    def place(self, number: int, suffix: str = "") -> None:
        """Give what was written last its number; the name is on the disk, too, when this returns."""
        path = self._directory / f"{number}{suffix}"
        os.replace(self._directory / "new", path)
        descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
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
