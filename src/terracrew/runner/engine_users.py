"""Gives the engine of each running attempt a user of its own, if the runner is privileged and its settings name users.

An attempt keeps its user until its directories are removed, also across a restart of the runner: a file in its directory has
it. So two engines never run as the same user, and no engine can read what another one left.
"""

import asyncio
import contextlib
import fcntl
import grp
import os
import pwd
import re
import stat
from collections import OrderedDict
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path

from terracrew.errors import Invalid
from terracrew.executor.isolation.mounts import is_open
from terracrew.protocol.start import EngineAccount
from terracrew.toolchains import cache

FILE = "engine-user"
"""The file in the directory of an attempt that has its user."""
MAX_USERS = 10_000
WAIT_SECONDS = 60.0
"""How long a start waits for the user of an attempt that has ended and whose directories are being removed."""
_POLL_SECONDS = 1.0
SETTING = "executor.user"
AUTO, NONE = "auto", "none"
"""Values of the setting: users that the runner claims itself if it is root, and the user of the runner."""
DISPATCHER = "local"
"""The type of the dispatchers that it applies to: in containers, engines have a user of their own."""
_RANGE = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?")
_FOREIGN_VARIABLES = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME")
"""Variables that name directories of the runner's user, which engines cannot enter."""
_SHARED_MODE, _READABLE_MODE, _PRIVATE_MODE = 0o711, 0o755, 0o700
_PLUGINS = "plugins"
_OPEN_DIRECTORIES = (
    "Set working_directory.working_directory (such as /var/lib/terracrew-runner) and the variable TERRACREW_CACHE "
    "(such as /var/cache/terracrew) to directories that every user can enter"
)
_OPEN_TEMP_DIRECTORY = (
    "Set working_directory.temp_directory to a directory that every user can enter, and whose path is short enough for "
    "the sockets of provider plug-ins (such as /var/tmp)"
)


def parse(text: str) -> list[EngineAccount]:
    """Return the users that a setting names: a user, a user id, or a range of user ids. Raises ValueError."""
    if text in (AUTO, NONE):
        return []
    found = _RANGE.fullmatch(text)
    if found is None:
        try:
            entry = pwd.getpwnam(text)
        except (KeyError, ValueError):
            raise ValueError(
                f"{text!r} is neither a user of this machine nor user ids such as 20000-20015, {AUTO!r} or {NONE!r}"
            ) from None
        return [_checked(EngineAccount(entry.pw_uid, entry.pw_gid))]
    first, last = int(found[1]), int(found[2] or found[1])
    if not 0 < first <= last < 2**32 - 1 or last - first >= MAX_USERS:
        raise ValueError(f"{text!r} is not a range of up to {MAX_USERS} user ids above 0, such as 20000-20015")
    accounts = [_checked(_account(uid)) for uid in range(first, last + 1)]
    if len({each.gid for each in accounts}) < len(accounts):
        raise ValueError(f"some of the users {text} share a group, and could read each other's files: choose other ids")
    return accounts


def _account(uid: int) -> EngineAccount:
    try:
        return EngineAccount(uid, pwd.getpwuid(uid).pw_gid)
    except KeyError:
        pass
    try:
        other = grp.getgrgid(uid).gr_name
    except KeyError:
        return EngineAccount(uid, uid)
    raise ValueError(
        f"user {uid} does not exist, and its group id would be that of the group {other}: choose other ids"
    )


def _checked(account: EngineAccount) -> EngineAccount:
    if account.uid in (0, os.getuid()):
        raise ValueError(f"user {account.uid} is root or the runner's own user: engines need another one")
    if account.gid == 0:
        raise ValueError(f"the group of user {account.uid} is that of root: choose another user")
    return account


def is_privileged() -> bool:
    """Return whether this process may start programs as other users. Only those that root starts lose all capabilities by that."""
    return os.geteuid() == 0


class EngineUsers:
    def __init__(self, accounts: Iterable[EngineAccount]) -> None:
        self._free: OrderedDict[int, EngineAccount] = OrderedDict((each.uid, each) for each in accounts)
        self._accounts = dict(self._free)
        self._used: dict[str, int] = {}
        self._idle: set[int] = set()
        """Free users who have no process. They cannot get one as long as they are free: nothing else becomes these users."""
        self._released = asyncio.Event()

    @property
    def is_on(self) -> bool:
        return bool(self._accounts)

    def prepare(
        self,
        own: Path,
        shared: Iterable[Path],
        cache_directory: Path,
        readable: Iterable[str],
        temp_directory: Path | None = None,
        *,
        has_view: bool = False,
    ) -> None:
        """Let the users enter the directories of engines, and nothing beside them. Raises Invalid if they cannot get there.

        In a view of their own, engines reach their directories in any case (`executor/isolation/mounts.py`)."""
        if not self.is_on:
            return
        if not is_privileged():
            raise Invalid(
                f"{SETTING}: this runner is not root, so it cannot run engines as another user. Start it as root, or remove "
                "the setting"
            )
        (cache_directory / _PLUGINS).mkdir(exist_ok=True)
        self.open_plugins(cache_directory)
        if has_view:
            return
        temporary = [temp_directory] if temp_directory else []
        for folder in (own, *shared, *temporary, cache_directory):
            os.chmod(folder, _SHARED_MODE)
        for entry in cache_directory.iterdir():
            if entry.is_dir() and not entry.is_symlink() and entry.name != _PLUGINS:
                os.chmod(entry, _PRIVATE_MODE)
        for path in (own, *shared, *(Path(each) for each in (*readable, str(cache.root())) if Path(each).is_dir())):
            self._require_open(path, _OPEN_DIRECTORIES)
        for path in temporary:
            self._require_open(path, _OPEN_TEMP_DIRECTORY)

    def turn_off(self) -> None:
        """Run engines as the user of the runner, because they cannot run as others here."""
        self._free.clear()
        self._accounts.clear()

    def open_plugins(self, cache_directory: Path) -> None:
        """Let the users read the provider plug-ins that attempts share. A runner with a strict umask makes them for itself alone."""
        if not self.is_on:
            return
        for folder, _, names in os.walk(cache_directory / _PLUGINS):
            os.chmod(folder, _READABLE_MODE)
            for path in (Path(folder, name) for name in names):
                mode = path.lstat().st_mode
                if stat.S_ISREG(mode):
                    os.chmod(path, _READABLE_MODE if mode & stat.S_IXUSR else _READABLE_MODE & ~0o111)

    def _require_open(self, path: Path, remedy: str) -> None:
        place = Path(os.path.realpath(path))
        for account in self._accounts.values():
            for folder in (*reversed(place.parents), place):
                if not is_open(folder, account.uid, account.gid):
                    raise Invalid(
                        f"{SETTING}: user {account.uid} cannot enter {folder}, and engines need {path}. {remedy}"
                    )

    def adopt(self, directory: Path) -> None:
        """Keep the user of an attempt that an earlier process of the runner started."""
        try:
            uid = int((directory / FILE).read_text())
        except (OSError, ValueError):
            return
        self._used[directory.name] = uid
        self._free.pop(uid, None)

    async def take(self, directory: Path) -> EngineAccount | None:
        """Give a user to an attempt, the one that has been free for longest. Returns None if engines run as the runner's own user.

        Raises TimeoutError if no user becomes free.
        """
        if not self.is_on:
            return None
        async with asyncio.timeout(WAIT_SECONDS):
            while (account := self._next_idle() or await self._look_for_idle()) is None:
                self._released.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_POLL_SECONDS):
                        await self._released.wait()
        del self._free[uid := account.uid]
        self._idle.discard(uid)
        self._used[directory.name] = uid
        # Not synced to the disk: when the machine has restarted, no process of the user is left.
        (directory / FILE).write_text(str(uid))
        return account

    def _next_idle(self) -> EngineAccount | None:
        return next((account for account in self._free.values() if account.uid in self._idle), None)

    async def _look_for_idle(self) -> EngineAccount | None:
        """Find the free users without a process: one that an earlier module left behind could attack the next one. It takes
        milliseconds to look at all processes, so what is found is used for later attempts, too."""
        candidates = set(self._free)
        busy = await asyncio.to_thread(_users_with_processes)
        self._idle = (candidates & set(self._free)) - busy
        return self._next_idle()

    def release(self, name: str) -> None:
        """Take the user back from an attempt whose directories have been removed."""
        uid = self._used.pop(name, None)
        if uid is not None and uid in self._accounts and uid not in self._used.values():
            self._free[uid] = self._accounts[uid]
            self._released.set()


def environment_of(account: EngineAccount, base: Mapping[str, str], temp_directory: str) -> dict[str, str]:
    """Return the runner's variables for an engine of another user: its home is that user's, or its temporary directory."""
    try:
        entry = pwd.getpwuid(account.uid)
        name, home = entry.pw_name, entry.pw_dir if os.path.isdir(entry.pw_dir) else temp_directory
    except KeyError:
        name, home = str(account.uid), temp_directory
    kept = {key: value for key, value in base.items() if key not in _FOREIGN_VARIABLES}
    return {**kept, "HOME": home, "USER": name, "LOGNAME": name}


def _users_with_processes() -> set[int]:
    """Return the real, effective and saved users of all processes."""
    found: set[int] = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/status", "rb") as file:  # it may have ended
                found.update(map(int, file.read().partition(b"\nUid:")[2].partition(b"\n")[0].split()))
    return found


def give(path: str, account: EngineAccount) -> None:
    """Make a new directory of the runner the user's own."""
    os.chown(path, account.uid, account.gid, follow_symlinks=False)


def warn_if_root(accounts: list[EngineAccount]) -> str:
    """Return what a runner of root should log if its engines are root, too; empty if there is nothing to say."""
    if accounts or os.geteuid() != 0:
        return ""
    return (
        f"this runner is root, and so are the engines that it starts: set {SETTING} to {AUTO!r}, or to user ids such as "
        "20000-20015, of which each running attempt gets one"
    )


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
            f"{SETTING}: of the user ids {USER_IDS[0]} to {USER_IDS[-1]}, only {len(found)} are free on this "
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
