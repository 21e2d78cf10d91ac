"""The files by which a delivery tells the runner how it ended. Each holds the number of the outbox's last event."""

from pathlib import Path

from terracrew.attempt import files

_TAIL_BYTES = 4096


def mark_done(directory: Path, last_event: int) -> None:
    """Record that the server has acknowledged everything in the directory."""
    _write(directory, files.DONE, last_event)


def mark_refused(directory: Path, last_event: int) -> None:
    """Record that the server refuses everything else from this attempt."""
    _write(directory, files.REFUSED, last_event)


def is_done(directory: Path) -> bool:
    """Return whether everything was acknowledged. A file that a power cut left empty does not count: delivering again is safe."""
    try:
        return (directory / files.DONE).read_text().isdecimal()
    except FileNotFoundError:
        return False


def last_event(directory: Path) -> int | None:
    """Return the number of the last event in the attempt's outbox, or None if no delivery recorded it."""
    name = files.DONE if is_done(directory) else files.REFUSED
    try:
        return int((directory / name).read_text())
    except (FileNotFoundError, ValueError):
        return None


def last_log_line(directory: Path) -> str:
    """Return the last line of the executor's own log that is not empty."""
    try:
        lines = (directory / files.LOG).read_bytes()[-_TAIL_BYTES:].decode(errors="replace").split("\n")
    except FileNotFoundError:
        return ""
    return next((line for line in reversed(lines) if line.strip()), "")


def _write(directory: Path, name: str, last_event: int) -> None:
    """Write the file so that it appears with its content: the runner never reads one that is half written."""
    draft = directory / f"{name}.new"
    draft.write_text(str(last_event))
    draft.chmod(0o600)
    draft.replace(directory / name)
