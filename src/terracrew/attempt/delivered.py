"""How the delivery of an attempt tells its runner what became of it: by an exit code and by a file in the attempt's directory."""

from pathlib import Path

DELIVERED = 0
UNDELIVERED = 3
"""The server itself, with a code of ours, refused this attempt for good; its directory holds what it would not take."""
INCOMPATIBLE = 4
"""The server does not speak our version of the protocol: what the directory holds is delivered by a runner that was updated."""

DONE = "done"
"""Everything in the directory has been acknowledged. The file holds the number of the outbox's last event."""
REFUSED = "refused"
"""The server refused the rest for good. The file holds the number of the outbox's last event."""


def is_done(directory: Path) -> bool:
    """Whether everything was acknowledged. A file that a power cut left empty does not count: delivering again is safe."""
    try:
        return (directory / DONE).read_text().isdecimal()
    except FileNotFoundError:
        return False


def last_event(directory: Path) -> int | None:
    """The number of the last event in the attempt's outbox, as its delivery left it; None where that cannot be read."""
    name = DONE if is_done(directory) else REFUSED
    try:
        return int((directory / name).read_text())
    except (FileNotFoundError, ValueError):
        return None
