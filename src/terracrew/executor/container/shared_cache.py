"""The cache that containers keep between jobs, if the operator mounts a directory for it at `/terracrew-cache` (`docs/dispatchers.md`).

It has the same layout as the cache of a runner's machine: archives and mirrors of repositories, which only executors can read, and
provider plug-ins, which engines read, too. On a runner's machine the runner adds the plug-ins that a job had to download. Here the
first process of the container lets it be done by a process of the executor's user, after the job has delivered its result.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from terracrew.attempt import downloads
from terracrew.attempt.downloads import MissingDownloads
from terracrew.errors import Invalid, TerracrewError
from terracrew.executor.container import paths, reaper, user
from terracrew.executor.container.reaper import ContainerReaper
from terracrew.executor.container.user import EXECUTOR_UID
from terracrew.executor.engines import contract
from terracrew.executor.engines.contract import DownloadContext
from terracrew.protocol.start import ExecutorStart

PLUGINS = "plugins"
_PRIVATE_FOLDERS = ("archives", "git", "partial")
_PRIVATE_MODE, _SHARED_MODE, _READABLE_MODE = 0o700, 0o711, 0o755
_LOCK = "partial/lock"
_MAX_DOWNLOAD_SECONDS = 300.0
"""How long a container goes on after its job to keep what the job has downloaded."""


def prepare(place: Path) -> None:
    """Make the folders of the cache. Engines of all containers have one user, who can read the plug-ins and nothing else of it."""
    folders = [(place, _SHARED_MODE), (place / PLUGINS, _READABLE_MODE)]
    folders += [(place / name, _PRIVATE_MODE) for name in _PRIVATE_FOLDERS]
    for folder, mode in folders:
        folder.mkdir(mode=mode, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise Invalid(f"{folder} is not a directory: empty the cache of containers")
        if found.st_mode & 0o7777 != mode:
            os.chmod(folder, mode)
        if found.st_uid != EXECUTOR_UID:
            os.chown(folder, EXECUTOR_UID, EXECUTOR_UID)


def fill(start: ExecutorStart) -> None:
    """Download what the job had to download, so that later jobs find it in the cache. Every process of the job has ended."""
    missing = downloads.read(Path(start.directory))
    if start.is_salvage or missing is None or start.cache_directory != str(paths.SHARED_CACHE):
        return
    try:
        pid = os.fork()
    except OSError:  # later jobs download it themselves
        return
    if pid == 0:
        _fill_and_exit(start, missing)
    ContainerReaper(pid, start.interrupt_seconds).reap()


def _fill_and_exit(start: ExecutorStart, missing: MissingDownloads) -> NoReturn:
    """Download in this process. It never returns to the loop of the first process."""
    code = 1
    try:
        os.setsid()
        reaper.unblock()
        user.become(EXECUTOR_UID)
        asyncio.run(download(Path(start.cache_directory), start, missing))
        code = 0
    except BaseException as error:  # the job has ended, and later jobs download it themselves
        print(f"what the job has downloaded is not kept: {error}", file=sys.stderr)
    finally:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


async def download(cache: Path, start: ExecutorStart, missing: MissingDownloads) -> None:
    """Let the engine download each item for the cache, unless another container does so now."""
    with (cache / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        home = Path(tempfile.mkdtemp(dir=cache / "partial"))
        try:
            context = DownloadContext(cache, _environment(start.environment, home), start.engine_paths)
            async with asyncio.timeout(_MAX_DOWNLOAD_SECONDS):
                for item in missing.items:
                    try:
                        if await contract.engine_named(missing.engine).download(item, context):
                            _let_read(cache / PLUGINS)
                    except (TerracrewError, OSError) as error:
                        print(f"{item} is not kept for other jobs: {error}", file=sys.stderr)
        finally:
            shutil.rmtree(home, ignore_errors=True)


def _environment(given: Mapping[str, str], home: Path) -> dict[str, str]:
    """Return the environment of the download. The home and the temporary directory of the job are its engine's own: a module may have
    put a configuration there that names another place to download from."""
    return {**given, "HOME": str(home), "TMPDIR": str(home)}


def _let_read(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode & 0o777
            os.chmod(path, mode | (0o055 if path.is_dir() or mode & 0o100 else 0o044))
