"""Finds user ids for the engines of a runner of root that belong to nobody else on this machine.

The ids are from a range that neither Debian nor systemd gives to anybody (60578 to 61183, see https://systemd.io/UIDS-GIDS). No
user is created. Each runner, which is a working directory, claims ids of its own, by files that last until the machine restarts.
"""

import contextlib
import fcntl
import grp
import os
import pwd
from collections.abc import Generator
from pathlib import Path

from terracrew.errors import Invalid
from terracrew.protocol.start import EngineAccount
from terracrew.runner import engine_users

DIRECTORY = Path("/run/terracrew-engine-users")
USER_IDS = range(60578, 61184)


def claim(working_directory: str, count: int, directory: Path = DIRECTORY) -> list[EngineAccount]:
    """Return as many users, the same ones whenever the runner starts. Raises Invalid if there are not enough."""
    own = os.path.realpath(working_directory)
    found: list[EngineAccount] = []
    with _locked(directory):
        claims = {uid: _claimed_by(directory / str(uid)) for uid in USER_IDS}
        for uid in sorted(USER_IDS, key=lambda each: claims[each] != own):
            if len(found) == count:
                return found
            owner = claims[uid]
            if _is_unknown(uid) and (owner in (None, own) or not os.path.isdir(owner)):
                (directory / str(uid)).write_text(own)
                found.append(EngineAccount(uid, uid))
    if len(found) < count:
        raise Invalid(
            f"{engine_users.SETTING}: of the user ids {USER_IDS[0]} to {USER_IDS[-1]}, only {len(found)} are free on this "
            f"machine, and {count} attempts may run at once: name others, such as 20000-{20000 + count - 1}"
        )
    return found


def _is_unknown(uid: int) -> bool:
    """Whether neither a user nor a group of this machine has the id."""
    with contextlib.suppress(KeyError):
        pwd.getpwuid(uid)
        return False
    with contextlib.suppress(KeyError):
        grp.getgrgid(uid)
        return False
    return True


def _claimed_by(file: Path) -> str | None:
    try:
        return file.read_text()
    except OSError:
        return None


@contextlib.contextmanager
def _locked(directory: Path) -> Generator[None]:
    directory.mkdir(mode=0o700, exist_ok=True)
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
