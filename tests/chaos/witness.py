"""Reads what engines really did, as they recorded it outside the system."""

import os
from pathlib import Path

import msgspec


class Record(msgspec.Struct, frozen=True):
    what: str
    at: float
    job: str
    attempt: int
    module: str
    pid: int
    serial: int = 0
    sha256: str = ""
    base: int = 0
    lineage: str = ""
    printed: int = 0
    """How many numbered lines had been printed by then."""
    is_relayed: bool = False
    """Whether they were printed to the real engine, which loses those that it has not read yet if it is killed."""
    code: int = 0
    plan: str = ""
    """Which saved plan is applied."""
    resource: str = ""
    """The thing that was made or destroyed."""
    id: str = ""
    """Of that one thing: what replaces it has another."""
    known_serial: int = 0
    """The serial of the last state that the engine had saved or read by then."""

    @property
    def owner(self) -> str:
        return f"{self.job}.{self.attempt}"


def read(folder: Path) -> list[Record]:
    """Return all records of all modules; the last line of a killed engine may be incomplete."""
    found: list[Record] = []
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            try:
                found.append(msgspec.json.decode(line, type=Record))
            except msgspec.DecodeError:
                continue
    return found


def is_locked(folder: Path, module: str) -> bool:
    """Whether some process is inside the module's mutating section now, by the kernel's own list of locks."""
    try:
        inode = os.stat(folder / f"{module}.jsonl").st_ino
    except FileNotFoundError:
        return False
    locks = Path("/proc/locks").read_text().splitlines()
    return any("FLOCK" in line and f":{inode} " in line for line in locks)


def writers(folder: Path) -> set[int]:
    """The processes that are inside a mutating section now."""
    inodes = {os.stat(path).st_ino for path in folder.glob("*.jsonl")}
    found: set[int] = set()
    for line in Path("/proc/locks").read_text().splitlines():
        parts = line.split()
        if parts[1] == "FLOCK" and int(parts[5].rpartition(":")[2]) in inodes:
            found.add(int(parts[4]))
    return found
