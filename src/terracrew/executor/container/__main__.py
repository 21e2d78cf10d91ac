"""The first process of a container that runs one attempt: `python -m terracrew.executor.container`.

It needs no shell. It makes the directories, becomes the parent of everything in the container, and forks the executor, which
runs as a user of its own. Then it reaps, forwards SIGTERM, and ends after the last process, with the executor's exit code. If
the executor is dead, it interrupts what is left itself.
"""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

import msgspec

from terracrew import plugins, procfs, trees
from terracrew.attempt import exit_codes, files, process_record
from terracrew.attempt.engine_directory import EngineDirectory
from terracrew.errors import EngineMissing, Invalid
from terracrew.executor import main, startup
from terracrew.executor.container import user
from terracrew.executor.container.paths import ENGINE_FILES, HOME, ROOT, START, TEMP, WORKSPACES
from terracrew.executor.container.user import ENGINE_UID, EXECUTOR_UID
from terracrew.executor.engines import engine_user, registry
from terracrew.executor.engines.engine_user import EngineUser
from terracrew.protocol.start import ExecutorStart
from terracrew.toolchains import discovery

_PRIVATE_MODE = 0o700
_SHARED_MODE = 0o711
_REMOVE, _ENGINES = "remove", "engines"


def run() -> int:
    start = _read_start()
    directory = Path(start.directory)
    if start.is_salvage and not (directory / files.RECORD).exists():
        return exit_codes.NOTHING_LEFT
    _make_directories(start)
    executor = os.fork()
    if executor == 0:
        _become_executor(start)
    return _Init(executor, start.interrupt_seconds).reap()


def _read_start() -> ExecutorStart:
    """Read what the runner put here, and remove it: it has secrets that are kept in memory only."""
    content = START.read_bytes()
    START.unlink()
    start = msgspec.json.decode(content, type=ExecutorStart)
    return msgspec.structs.replace(start, environment={**_image_environment(), **start.environment})


def _image_environment() -> dict[str, str]:
    """Return the variables of the image, without those of Terracrew, with directories that an engine may write to."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("TERRACREW_")}
    return {**own, "HOME": str(HOME), "TMPDIR": str(TEMP)}


def _make_directories(start: ExecutorStart) -> None:
    """Make the directories of an attempt. Engines cannot list the shared ones, and cannot enter the private ones."""
    if os.getuid() != 0:
        raise Invalid(
            "the container must be started as root: its first process gives up the rights that it does not need"
        )
    os.chmod(ROOT, _SHARED_MODE)
    private = Path(start.directory), Path(start.cache_directory)
    for folder, mode, owner in (
        (private[0].parent, _PRIVATE_MODE, EXECUTOR_UID),
        (private[0], _PRIVATE_MODE, EXECUTOR_UID),
        (private[1], _SHARED_MODE, EXECUTOR_UID),
        (WORKSPACES, _SHARED_MODE, EXECUTOR_UID),
        (ENGINE_FILES, _SHARED_MODE, EXECUTOR_UID),
        (HOME, _PRIVATE_MODE, ENGINE_UID),
        (TEMP, _PRIVATE_MODE, ENGINE_UID),
    ):
        folder.mkdir(mode=mode, exist_ok=True)
        os.chmod(folder, mode)
        os.chown(folder, owner, owner)
    for entry in private[0].iterdir():
        os.chown(entry, EXECUTOR_UID, EXECUTOR_UID, follow_symlinks=False)


def _become_executor(start: ExecutorStart) -> NoReturn:
    """Run the attempt in this process. It never returns to the loop of the first process."""

    def attempt() -> int:
        os.setsid()
        user.become(EXECUTOR_UID)
        procfs.forbid_inspection()
        engine_files = EngineDirectory(Path(start.engine_directory))
        engine_user.choose(EngineUser(ENGINE_UID, WORKSPACES, engine_files))
        return main.run(start, process_record.of(os.getpid()))

    code = exit_codes.CRASHED
    try:
        code = startup.exit_code_of(attempt)
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


class _Init:
    """The first process after the fork: it waits for everything, and passes a request to end on to the executor."""

    def __init__(self, executor: int, interrupt_seconds: tuple[float, float]) -> None:
        self._executor, self._interrupt_seconds = executor, interrupt_seconds
        self._code: int | None = None
        """The executor's exit code; a negative number is a signal."""
        self._stop_at: list[tuple[float, signal.Signals]] = []
        """When which signal goes to everything that a dead executor left, the next one last."""
        self._is_stopping = False

    def reap(self) -> int:
        signals = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP}
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        while self._has_children():
            now = time.monotonic()
            while self._stop_at and self._stop_at[-1][0] <= now:
                _signal_all(self._stop_at.pop()[1])
            wait = max(0.0, self._stop_at[-1][0] - now) if self._stop_at else None
            got = signal.sigwait(signals) if wait is None else signal.sigtimedwait(signals, wait)
            number = got.si_signo if isinstance(got, signal.struct_siginfo) else got
            if number in (signal.SIGTERM, signal.SIGINT):
                self._is_stopping = True
                self._pass_on()
        code = exit_codes.CRASHED if self._code is None else self._code
        return code if code >= 0 else 128 - code

    def _has_children(self) -> bool:
        """Reap everything that has ended. Returns whether a process is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._executor:
                self._code = os.waitstatus_to_exitcode(status)
                # Its executor may have paused an engine, and no other process would resume it.
                _signal_all(signal.SIGCONT)
                if self._is_stopping:
                    self._pass_on()

    def _pass_on(self) -> None:
        if self._code is None:
            os.kill(self._executor, signal.SIGTERM)
        elif not self._stop_at:
            now, (first, second) = time.monotonic(), self._interrupt_seconds
            later = [(now + first + second, signal.SIGKILL), (now + first, signal.SIGINT), (now, signal.SIGINT)]
            self._stop_at = later


def _signal_all(number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, number)  # every process of the container but this one


def _remove(name: str) -> int:
    """Remove what an attempt left in a directory of the host."""
    if "/" in name or name in ("", ".", ".."):
        raise Invalid(f"{name!r} is not the name of an attempt's directory")
    folder = ROOT / name
    if folder.is_dir():
        trees.remove(folder)
    return 0


def _print_engines() -> int:
    """Print the engines of this image, each with its versions, for the runner that announces them to the server."""
    found: dict[str, list[str]] = {}
    for name in plugins.names(plugins.ENGINES):
        with contextlib.suppress(EngineMissing):
            versions = [each.version for each in registry.get(name).find_all([]) if discovery.answers(each)]
            found |= {name: list(dict.fromkeys(versions))} if versions else {}
    print(msgspec.json.encode(found).decode())
    return 0


def _main() -> int:
    if sys.argv[1:2] == [_REMOVE]:
        return _remove(sys.argv[2])
    if sys.argv[1:] == [_ENGINES]:
        return _print_engines()
    return run()


if __name__ == "__main__":
    sys.exit(startup.exit_code_of(_main))
