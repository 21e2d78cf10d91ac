"""Finds servers that this user runs on this machine, so that the command line works without any setup.

A server that was started here leaves a note with its process id, address and data directory. The token in that
directory is used only while that process lives, so that another user who later listens on the same port gets nothing.
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
    """Keep the note in place while this process serves."""
    note = _notes() / f"{os.getpid()}.json"
    server = LocalServer(os.getpid(), _started(os.getpid()), url, str(data_directory))
    try:
        note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        note.write_bytes(msgspec.json.encode(server))
    except OSError:
        pass  # if the home directory cannot be written, the server still starts
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def newest() -> LocalServer | None:
    """Return the running server that was started last."""
    return next(iter(_running()), None)


def of_directory(data_directory: Path) -> LocalServer | None:
    """Return the running server that uses this data directory."""
    return next((server for server in _running() if server.data_directory == str(data_directory)), None)


def token(url: str) -> str:
    """Return the administrator's token of the server that listens at a loopback address, or an empty string."""
    if not is_loopback(url):
        return ""
    for server in _running():
        if urlsplit(server.url).port == urlsplit(url).port:
            try:
                return (Path(server.data_directory) / TOKEN_FILE).read_text().strip()
            except OSError:
                return ""
    return ""


def _running() -> list[LocalServer]:
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
    """Return when a process was started, because ids are reused; an empty string if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        pass
    try:
        os.kill(pid, 0)
    except OSError:
        return ""
    return "unknown"  # without /proc, only whether the process exists is known
