"""What an engine sees below a runner of root: its own directories, and nothing of the private ones around them."""

import errno
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from terracrew.executor.isolation import landlock, mounts
from terracrew.executor.isolation.mounts import EngineMounts
from terracrew.protocol.start import EngineAccount
from terracrew.testing.executor_processes import ExecutorProcesses
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.executor.isolation import hostile

pytestmark = [
    pytest.mark.engine,
    pytest.mark.feature("X4.isolation"),
    pytest.mark.skipif(
        not landlock.abi() or not mounts.is_available(), reason="this process may not make mount namespaces"
    ),
]
ABSENT, DENIED = os.strerror(errno.ENOENT), os.strerror(errno.EACCES)
ACCOUNT = EngineAccount(hostile.ORDINARY_UID, hostile.ORDINARY_UID)
ATTACK = """
key = {key!r}
attempt("stat", lambda: os.stat(key))
attempt("mode", lambda: os.chmod(key, 0o644))
attempt("time", lambda: os.utime(key, (0, 0)))
attempt("owner", lambda: os.chown(key, 1000, 1000))
attempt("watch", lambda: call(libc.inotify_add_watch(libc.inotify_init(), os.fsencode(os.path.dirname(key)), 0x100)))
attempt("list", lambda: os.listdir(os.path.dirname(key)))
attempt("own-file", lambda: open(os.path.join(os.environ["TMPDIR"], "x"), "w").close())
attempt("own-folder", lambda: os.listdir("."))
print("DONE" if os.listdir("/dev/shm") == [] else "REFUSED", "empty-memory")
attempt("semaphore", lambda: __import__("multiprocessing").Lock())
"""


@pytest.fixture
async def executors(hub: FakeExecutorHub, tofu: str) -> AsyncIterator[ExecutorProcesses]:
    with hostile.executors_of("root", hub, tofu) as found:
        yield found
        await found.close()


@pytest.mark.parametrize("account", [None, ACCOUNT], ids=["root", "user"])
async def test_files_of_the_server_are_not_there_at_all(
    hub: FakeExecutorHub, executors: ExecutorProcesses, account: EngineAccount | None
) -> None:
    """A module opened `master.key` to everybody with chmod, and watched the directories of other attempts: Landlock covers neither."""
    folder = executors.folder
    key = folder / "server" / "master.key"
    key.parent.mkdir(mode=0o755)
    key.write_text("the key")
    key.chmod(0o600)
    before, memory = key.stat(), set(Path("/dev/shm").glob("sem.mp-*"))
    executors.workspaces = folder / "server" / "workspaces"  # as those of a built-in runner are
    folder.chmod(0o700)  # as the home of root is
    found = await hostile.attacked(
        hub, executors, ATTACK.format(key=str(key)), private=(key.parent,), has_view=True, account=account
    )
    hidden = dict.fromkeys(("stat", "mode", "time", "owner"), ABSENT)
    own = dict.fromkeys(("own-file", "own-folder", "empty-memory", "semaphore"), "DONE")
    assert {name: found[name] for name in (*hidden, *own)} == {**hidden, **own}
    assert found["list"] == DENIED
    after = key.stat()
    assert stat.S_IMODE(after.st_mode) == 0o600
    assert (after.st_uid, after.st_mtime_ns, after.st_ctime_ns) == (
        before.st_uid,
        before.st_mtime_ns,
        before.st_ctime_ns,
    )
    assert set(Path("/dev/shm").glob("sem.mp-*")) <= memory, "its shared memory is gone with it"


def test_only_what_is_allowed_is_shown_in_a_covered_directory(tmp_path: Path) -> None:
    for name in ("private/own/deeper", "private/other", "private/opened/part", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "private/link").symlink_to("../elsewhere")
    root, private = str(tmp_path), str(tmp_path / "private")
    allowed = {f"{private}/{name}": os.path.realpath(f"{private}/{name}") for name in ("own", "own/deeper", "link")}
    made = mounts.plan([private, f"{private}/other", f"{root}/absent"], allowed, None)
    assert made == EngineMounts([private], [f"{private}/own"], {f"{private}/link": f"{root}/elsewhere"})
    assert mounts.plan([private], {private: private}, None) == EngineMounts([], [], {}), "an operator has opened it"


def test_a_directory_that_the_user_cannot_enter_is_covered(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    (closed / "again" / "own").mkdir(parents=True)
    for folder in (closed, closed / "again"):
        folder.chmod(0o700)
    own = str(closed / "again" / "own")
    made = mounts.plan([], {own: own, "/usr": "/usr"}, ACCOUNT)
    first = next(folder for folder in (*reversed(closed.parents), closed) if not folder.stat().st_mode & 0o001)
    assert made == EngineMounts([str(first)], [own], {})
