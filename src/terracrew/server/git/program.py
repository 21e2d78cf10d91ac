"""Runs the program `git` for the server: with an argument list, an environment of its own, and bounds for time, memory and output.

What it reads was made by strangers to this server, such as the authors of pull requests. So it uses no configuration but the settings
here: no hooks, filters, attributes, helpers or programs of anybody.
"""

import asyncio
import contextlib
import os
import re
import resource
import selectors
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import msgspec

from terracrew.errors import TerracrewError, TooLarge, Unavailable
from terracrew.wording import escapes

MIN_VERSION = (2, 38)
"""The first version that merges without a working tree (`git merge-tree --write-tree`)."""
MAX_PROCESSES = 4
"""How many git programs the server runs at once that use the network, and how many that do not. Further ones wait."""
_POLL_SECONDS = 0.1
_PIPE_SECONDS = 0.5
_TERMINATE_SECONDS = 2.0
_CHUNK_BYTES = 1 << 16
_ERROR_BYTES = 16 << 10
_KEPT_VARIABLES = ("LD_LIBRARY_PATH", "PATH", "TMPDIR")
_SETTINGS = (
    "core.attributesFile=/dev/null",
    "core.askPass=",
    "core.autocrlf=false",
    "core.bigFileThreshold=64m",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.packedGitLimit=512m",
    "core.packedGitWindowSize=32m",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    "credential.helper=",
    "credential.interactive=false",
    "fetch.fsckObjects=true",
    # Old repositories have these, and they harm nobody.
    "fetch.fsck.badTimezone=ignore",
    "fetch.fsck.missingNameBeforeEmail=ignore",
    "fetch.fsck.missingSpaceBeforeDate=ignore",
    "fetch.fsck.zeroPaddedFilemode=ignore",
    "fetch.recurseSubmodules=false",
    "fetch.unpackLimit=1",
    "gc.auto=0",
    "http.followRedirects=false",
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=60",
    "http.proxy=",
    "maintenance.auto=false",
    "merge.conflictStyle=merge",
    "pack.threads=1",
    "protocol.allow=never",
    "protocol.version=2",
    "submodule.recurse=false",
    "transfer.bundleURI=false",
)
_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PROTOCOL_FROM_USER": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_PROGRESS = re.compile(rb"[0-9]+% \([0-9]+/[0-9]+\)|^remote: (Enumerating|Counting|Compressing|Total) ")
_VERSION = re.compile(rb"git version ([0-9]+)\.([0-9]+)")


class GitProgramLimits(msgspec.Struct, frozen=True):
    network_seconds: float = 900.0
    """How long a command may take that talks to another machine."""
    local_seconds: float = 120.0
    file_bytes: int = 2 << 30
    """The largest file that git may write. What is fetched at once is one file."""
    memory_bytes: int = 4 << 30
    """The address space of one git process."""
    answer_bytes: int = 64 << 20
    """The most that a command may print, unless it is given another bound."""


class GitProgramFailed(TerracrewError):
    """A git command of the server that ended with an error. Its message is the last thing that it printed."""

    def __init__(self, message: str, *, is_local: bool) -> None:
        super().__init__(message)
        self.is_local = is_local
        """Whether it uses only this machine."""


class GitOutput(NamedTuple):
    code: int
    output: bytes


class _Command(NamedTuple):
    arguments: Sequence[str]
    what: str
    environment: Mapping[str, str]
    given: bytes
    seconds: float
    max_bytes: int
    codes: frozenset[int]
    inherited: tuple[int, ...]
    is_local: bool


class GitProgram:
    def __init__(
        self, home: Path, environment: Mapping[str, str] = os.environ, limits: GitProgramLimits | None = None
    ) -> None:
        """`home` is a private folder in which git finds no settings. Little of `environment`, that of the server, is given to git."""
        self._home, self._limits = home, limits or GitProgramLimits()
        self._environment = {name: environment[name] for name in _KEPT_VARIABLES if name in environment}
        for name, own in (("SSL_CERT_FILE", "GIT_SSL_CAINFO"), ("SSL_CERT_DIR", "GIT_SSL_CAPATH")):
            if text := environment.get(own) or environment.get(name):
                self._environment[own] = text
        self._local, self._network = (
            ThreadPoolExecutor(MAX_PROCESSES, "git"),
            ThreadPoolExecutor(MAX_PROCESSES, "fetch"),
        )
        self._program = ""

    async def run(
        self,
        *arguments: str,
        what: str,
        environment: Mapping[str, str] | None = None,
        given: bytes = b"",
        max_bytes: int | None = None,
        codes: Sequence[int] = (0,),
        is_local: bool = True,
        inherited: tuple[int, ...] = (),
    ) -> GitOutput:
        """Run one command to its end. `what` describes it for people, and `given` is its input.

        Raises GitProgramFailed for an exit code that is not in `codes`, TooLarge or Unavailable if it exceeds a bound. If the caller
        is cancelled, git is ended first. Secrets belong in `environment`, which nothing here shows.
        """
        if not self._program:
            self._program = await self._found()
        limits = self._limits
        command = _Command(
            [self._program, *(part for each in _SETTINGS for part in ("-c", each)), *arguments],
            what,
            {**self._environment, "HOME": str(self._home), **_ENVIRONMENT, **(environment or {})},
            given,
            limits.local_seconds if is_local else limits.network_seconds,
            limits.answer_bytes if max_bytes is None else max_bytes,
            frozenset(codes),
            inherited,
            is_local,
        )
        return await self._in_thread(command)

    async def _in_thread(self, command: _Command) -> GitOutput:
        stop = threading.Event()
        threads = self._local if command.is_local else self._network
        running = asyncio.get_running_loop().run_in_executor(threads, _run, command, self._limits, stop)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            stop.set()
            with contextlib.suppress(Exception, asyncio.CancelledError):
                await asyncio.shield(running)
            raise

    async def _found(self) -> str:
        """Return the path of git. Raises Unavailable, with what to do, if there is none, or if it is too old."""
        program = shutil.which("git", path=self._environment.get("PATH"))
        if program is None:
            raise Unavailable(
                "this server has no program `git`, which it needs for the pull requests of watched repositories: install it there"
            )
        self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
        asked = _Command(
            [program, "--version"],
            "git --version",
            {**self._environment, **_ENVIRONMENT, "HOME": str(self._home)},
            b"",
            30.0,
            1 << 16,
            frozenset((0,)),
            (),
            True,
        )
        printed = (await self._in_thread(asked)).output
        found = _VERSION.match(printed)
        if found is None or (int(found[1]), int(found[2])) < MIN_VERSION:
            text = printed.decode(errors="replace").strip()[:100]
            raise Unavailable(
                f"this server has `{text}`, and the pull requests of watched repositories need git "
                f"{'.'.join(map(str, MIN_VERSION))} or later: install a newer one there"
            )
        return program


def _run(command: _Command, limits: GitProgramLimits, stop: threading.Event) -> GitOutput:
    """Run a command in this thread."""
    if stop.is_set():
        raise Unavailable(f"{command.what} was stopped before it began")
    try:
        process = subprocess.Popen(
            command.arguments,
            env=dict(command.environment),
            cwd="/",
            stdin=subprocess.PIPE if command.given else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
            pass_fds=command.inherited,
            restore_signals=False,  # Python ignores SIGXFSZ, and so does git then: it says that a file is too large
            bufsize=0,
        )
    except OSError as error:
        raise Unavailable(f"{command.what} could not be started: {error.strerror}") from None
    try:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limits.file_bytes, limits.file_bytes))
            resource.prlimit(process.pid, resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
        output, errors = _follow(process, command, stop)
    finally:
        code = _end(process)
    if code in command.codes:
        return GitOutput(code, output)
    if b"File too large" in errors:
        raise TooLarge(f"{command.what} wrote a file of more than {limits.file_bytes:,} bytes, so it was ended")
    if b"No space left on device" in errors:
        raise Unavailable(f"{command.what} failed: the disk of this server is full")
    raise GitProgramFailed(_printed(errors) or f"git ended with exit code {code}", is_local=command.is_local)


def _follow(process: "subprocess.Popen[bytes]", command: _Command, stop: threading.Event) -> tuple[bytes, bytes]:
    """Give the program its input and read what it prints, until it has ended or exceeds a bound."""
    assert process.stdout is not None
    assert process.stderr is not None
    output, errors, left = bytearray(), bytearray(), memoryview(command.given)
    ends_at, ended_at = time.monotonic() + command.seconds, None
    with selectors.DefaultSelector() as selector:
        for pipe in (process.stdout, process.stderr):
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
        while any(key.events & selectors.EVENT_READ for key in selector.get_map().values()):
            for key, _ in selector.select(_POLL_SECONDS):
                if process.stdin is not None and key.fileobj is process.stdin:
                    try:
                        left = left[os.write(key.fd, left[:_CHUNK_BYTES]) :]
                    except BrokenPipeError:  # it has ended, and says why
                        left = left[:0]
                    if not left:
                        selector.unregister(process.stdin)
                        process.stdin.close()
                    continue
                chunk = os.read(key.fd, _CHUNK_BYTES)
                if not chunk:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    output += chunk
                else:
                    errors += chunk
                    del errors[:-_ERROR_BYTES]
            if len(output) > command.max_bytes:
                raise TooLarge(
                    f"{command.what} gave an answer of more than {command.max_bytes:,} bytes, so it was ended"
                )
            now = time.monotonic()
            _check(command, stop, now, ends_at)
            if ended_at is None and _has_ended(process.pid):
                ended_at = now
            if ended_at is not None and now - ended_at > _PIPE_SECONDS:
                break
    while not _has_ended(process.pid):  # it has closed its pipes, and is about to end
        _check(command, stop, time.monotonic(), ends_at)
        time.sleep(_POLL_SECONDS / 100)
    return bytes(output), bytes(errors)


def _check(command: _Command, stop: threading.Event, now: float, ends_at: float) -> None:
    if stop.is_set():
        raise Unavailable(f"{command.what} was stopped")
    if now > ends_at:
        raise Unavailable(f"{command.what} took longer than {command.seconds:.0f} s, so it was ended")


def _printed(errors: bytes) -> str:
    """Return the last lines that git printed, without its progress and without control characters."""
    lines = [line.rpartition(b"\r")[2].strip() for line in errors.splitlines()]
    kept = [line for line in lines if line and not _PROGRESS.search(line) and not line.startswith(b"hint:")]
    return escapes.plain("; ".join(line.decode(errors="replace") for line in kept[-4:]))[:1000]


def _has_ended(pid: int) -> bool:
    """Return whether the process has ended. It is not reaped, so that the id of its group is not used again yet."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(process: "subprocess.Popen[bytes]") -> int:
    """End git and what it has started, and return its exit code. It gets a moment to remove its temporary files."""
    if not _has_ended(process.pid):
        os.killpg(process.pid, signal.SIGTERM)
        until = time.monotonic() + _TERMINATE_SECONDS
        while not _has_ended(process.pid) and time.monotonic() < until:
            time.sleep(_POLL_SECONDS / 10)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    return process.wait()
