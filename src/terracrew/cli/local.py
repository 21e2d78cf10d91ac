"""Servers of this machine and this user, so that their owner's command line works without any setup.

A server that was started here leaves a note of its process, address and data directory. The token in that directory is
used only while that very process lives: a stranger who listens on the same port later gets nothing.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from terracrew.client.address import is_loopback

TOKEN_FILE = "admin.token"  # noqa: S105  (the name of the file that holds it)


class LocalServer(msgspec.Struct, frozen=True):
    pid: int
    started: str
    url: str
    data_directory: str


@contextmanager
def announced(url: str, data_directory: Path) -> Generator[None]:
    """Leave the note for as long as this process serves."""
    note = _notes() / f"{os.getpid()}.json"
    server = LocalServer(os.getpid(), _started(os.getpid()), url, str(data_directory))
    try:
        note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        note.write_bytes(msgspec.json.encode(server))
    except OSError:
        pass  # a home that cannot be written costs the convenience, not the server
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def newest() -> LocalServer | None:
    """The server that was started last, of those that live."""
    return next(iter(_living()), None)


def of_directory(data_directory: Path) -> LocalServer | None:
    """The server that lives on that data."""
    return next((server for server in _living() if server.data_directory == str(data_directory)), None)


def token(url: str) -> str:
    """The administrator's token of the server that listens at a loopback address, or nothing."""
    if not is_loopback(url):
        return ""
    for server in _living():
        if urlsplit(server.url).port == urlsplit(url).port:
            try:
                return (Path(server.data_directory) / TOKEN_FILE).read_text().strip()
            except OSError:
                return ""
    return ""


def _living() -> list[LocalServer]:
    found: list[tuple[float, LocalServer]] = []
    for note in _notes().glob("*.json"):
        try:
            server = msgspec.json.decode(note.read_bytes(), type=LocalServer)
            if _started(server.pid) == server.started:
                found.append((note.stat().st_mtime, server))
            else:
                note.unlink(missing_ok=True)
        except (OSError, msgspec.MsgspecError):
            continue
    return [server for _, server in sorted(found, key=lambda one: one[0], reverse=True)]


def _notes() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "terracrew" / "servers"


def _started(pid: int) -> str:
    """When a process was started, since ids are reused; nothing where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        pass
    try:
        os.kill(pid, 0)
    except OSError:
        return ""
    return "unknown"  # no /proc on this system: living is all we can tell
