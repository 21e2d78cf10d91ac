"""Makes the directories of an attempt in its container, and forks the executor, which runs as a user of its own."""

import contextlib
import os
import sys
from pathlib import Path
from typing import NoReturn

import msgspec

from terracrew.attempt import exit_codes, process_record
from terracrew.attempt.engine_directory import EngineDirectory
from terracrew.errors import Invalid
from terracrew.executor import main, startup
from terracrew.executor.container import reaper, shared_cache, user
from terracrew.executor.container.paths import ENGINE_FILES, HOME, ROOT, SHARED_CACHE, TEMP, WORKSPACES
from terracrew.executor.container.user import ENGINE_UID, EXECUTOR_UID
from terracrew.executor.engines import engine_user
from terracrew.executor.engines.engine_user import EngineUser
from terracrew.protocol.start import ExecutorStart
from terracrew.system import procfs
from terracrew.toolchains import remembered

_PRIVATE_MODE = 0o700
_SHARED_MODE = 0o711


def read(content: bytes) -> ExecutorStart:
    """Return a start with the variables of the image, except Terracrew's, and with directories that an engine may write to."""
    start = msgspec.json.decode(content, type=ExecutorStart)
    own = {name: value for name, value in os.environ.items() if not name.startswith("TERRACREW_")}
    image = {**own, "HOME": str(HOME), "TMPDIR": str(TEMP)}
    cache = str(SHARED_CACHE) if SHARED_CACHE.is_dir() else start.cache_directory
    return msgspec.structs.replace(start, environment={**image, **start.environment}, cache_directory=cache)


def make_directories(start: ExecutorStart) -> None:
    """Make the directories of an attempt. Engines cannot list the shared ones, and cannot enter the private ones."""
    if os.getuid() != 0:
        raise Invalid(
            "the container must be started as root: its first process gives up the rights that it does not need"
        )
    os.chmod(ROOT, _SHARED_MODE)
    directory = Path(start.directory)
    for folder, mode, owner in (
        (directory.parent, _PRIVATE_MODE, EXECUTOR_UID),
        (directory, _PRIVATE_MODE, EXECUTOR_UID),
        (WORKSPACES, _SHARED_MODE, EXECUTOR_UID),
        (ENGINE_FILES, _SHARED_MODE, EXECUTOR_UID),
        (HOME, _PRIVATE_MODE, ENGINE_UID),
        (TEMP, _PRIVATE_MODE, ENGINE_UID),
    ):
        folder.mkdir(mode=mode, exist_ok=True)
        os.chmod(folder, mode)
        os.chown(folder, owner, owner)
    shared_cache.prepare(Path(start.cache_directory))
    give_to_executor(directory)


def give_to_executor(directory: Path) -> None:
    for entry in directory.iterdir():
        os.chown(entry, EXECUTOR_UID, EXECUTOR_UID, follow_symlinks=False)


def fork(start: ExecutorStart) -> int:
    """Run the attempt in a new process, and return its id."""
    remembered.recall()
    pid = os.fork()
    if pid == 0:
        _become_executor(start)
    return pid


def _become_executor(start: ExecutorStart) -> NoReturn:
    """Run the attempt in this process. It never returns to the loop of the first process."""

    def attempt() -> int:
        os.setsid()
        reaper.unblock()
        user.become(EXECUTOR_UID)
        procfs.forbid_inspection()
        engine_files = EngineDirectory(Path(start.engine_directory))
        engine_user.choose(EngineUser(ENGINE_UID, ENGINE_UID, Path(start.directory), engine_files))
        return main.run(start, process_record.of(os.getpid()))

    code = exit_codes.CRASHED
    try:
        code = startup.exit_code_of(attempt)
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
