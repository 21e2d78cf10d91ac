"""The versions that a runner has installed for itself in its working directory, and which of them is to be started.

    versions/current.json        the last update, and how far it is
    versions/VERSION/site        the packages of this version
    versions/VERSION/installed.json

The launcher imports this file, so it needs only the standard library. The rule that everything else follows from: at every moment, the
file says either a version that has proved itself, or one that was never started. `begin` writes that a version is on trial before it is
started, so whatever ends the trial, the next start is one of the version before.
"""

import contextlib
import fcntl
import json
import os
import sys
import sysconfig
from collections.abc import Generator
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from terracrew.system import durable
from terracrew.system.own_program import RECORD

Status = Literal["chosen", "trial", "confirmed", "given_up"]
STATUSES = ("chosen", "trial", "confirmed", "given_up")
FOLDER = "versions"
_CURRENT, _LOCK = "current.json", "lock"
FILES = (_CURRENT, _LOCK)
REMOVED = "what was installed is not there any more, or is for another version of Python"
INTERRUPTED = "the runner or its machine ended while this version was on trial"


class Current(NamedTuple):
    """The last update of this runner."""

    version: str = ""
    """The version that it brings; empty if there was no update, or if people have installed a newer one since."""
    former: str = ""
    """The version before, which is kept; empty if it is that of the environment."""
    status: Status = "confirmed"
    update_id: str = ""
    step: str = ""
    """Where it failed."""
    words: str = ""
    """Why it failed, or how it proved itself."""


class NextStart(NamedTuple):
    version: str
    """The version to start; empty if it is that of the environment."""
    is_on_trial: bool


def folder_of(working_directory: Path) -> Path:
    return working_directory / FOLDER


def read(folder: Path) -> Current:
    """Return the last update. A file that is missing or damaged says nothing, so the version of the environment is started."""
    found = _read_object(folder / _CURRENT)
    if found.get("status") not in STATUSES:
        return Current()
    return Current(**{name: found[name] for name in Current._fields if isinstance(found.get(name), str)})


def begin(folder: Path) -> NextStart:
    """Decide which version is started now. One that was chosen is on trial from now on, and is never started for a trial again."""
    current = read(folder)
    version = current.version if current.status == "confirmed" else current.former
    old = NextStart(version if is_usable(folder, version) else "", False)
    try:
        with _locked(folder):
            if current.status == "chosen" and is_usable(folder, current.version):
                _write(folder, current._replace(status="trial"))
                return NextStart(current.version, True)
            if current.status == "chosen":
                _write(folder, current._replace(status="given_up", step="switch", words=REMOVED))
            elif current.status == "trial":
                _write(folder, current._replace(status="given_up", step="trial", words=INTERRUPTED))
    except OSError:  # the disk is full: what cannot be noted is not begun
        return old
    return old


def choose(folder: Path, version: str, former: str, update_id: str) -> None:
    """Let the next start be a trial of this version."""
    with _locked(folder):
        _write(folder, Current(version, former, "chosen", update_id))


def confirm(folder: Path, version: str, words: str) -> bool:
    """Note that a version has proved itself. Returns False if its trial is over."""
    with _locked(folder):
        current = read(folder)
        if (current.status, current.version) != ("trial", version):
            return False
        _write(folder, current._replace(status="confirmed", words=words))
        return True


def give_up(folder: Path, words: str) -> bool:
    """Note that the version on trial has failed. Returns False if there is none: it has proved itself, or said itself why not."""
    with _locked(folder):
        current = read(folder)
        if current.status != "trial":
            return False
        _write(folder, current._replace(status="given_up", step="trial", words=words))
        return True


def forget(folder: Path) -> None:
    """Let the version of the environment be started from now on."""
    with _locked(folder):
        if (folder / _CURRENT).exists():
            _write(folder, Current())


def forget_former(folder: Path) -> None:
    """Let the version of the environment be started instead of the version before the last update."""
    with _locked(folder):
        _write(folder, read(folder)._replace(former=""))


def is_usable(folder: Path, version: str) -> bool:
    """Return whether this version is installed, for the Python that runs now. People may have upgraded that one."""
    return not version or _read_object(folder / version / RECORD).get("python") == python_tag()


def installed(folder: Path) -> set[str]:
    """Return the versions that are complete, for whichever Python."""
    return {each.parent.name for each in folder.glob(f"*/{RECORD}") if not each.parent.name.startswith(".")}


def python_tag() -> str:
    """Return what compiled packages depend on."""
    return f"{sys.implementation.cache_tag} {sysconfig.get_platform()}"


def kept(current: Current) -> set[str]:
    """Return the versions that may still be started."""
    return {current.version, current.former} - {""}


def _read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file; an empty one if it is missing or damaged."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


@contextlib.contextmanager
def _locked(folder: Path) -> Generator[None]:
    """Let one process at a time read and write: the launcher gives a trial up while the version on trial may confirm it."""
    durable.make_directory(folder)
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write(folder: Path, current: Current) -> None:
    durable.write(folder / _CURRENT, json.dumps(current._asdict()).encode())
