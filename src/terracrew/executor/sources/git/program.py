"""Runs the program `git`: with an argument list, a clean environment, bounds for time and size, and its progress in the log."""

import contextlib
import errno
import os
import re
import resource
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from terracrew.errors import EngineMissing, TerracrewError, TooLarge, Unavailable
from terracrew.executor.sources.contract import Confinement, Deadline, Unconfined
from terracrew.executor.sources.git import operator_paths
from terracrew.executor.sources.git.credential import GivenCredential
from terracrew.wording import escapes

PROGRESS_SECONDS = 2.0
"""A fetch that takes longer than this says so in the log, and again whenever twice as much time has passed."""
_POLL_SECONDS = 0.1
_PIPE_SECONDS = 0.5
"""How long to read on after git has ended: what it has started may hold the pipe for longer."""
_END_SECONDS = 0.001
_TERMINATE_SECONDS = 2.0
_CHUNK_BYTES = 1 << 16
_ERROR_BYTES = 16 << 10
_KEPT_VARIABLES = frozenset(
    (
        "GIT_ASKPASS",
        "GIT_CONFIG_GLOBAL",
        "GIT_SSH",
        "GIT_SSH_COMMAND",
        "GIT_SSH_VARIANT",
        "GIT_SSL_CAINFO",
        "GIT_SSL_CAPATH",
    )
)
"""The variables of git that are kept from the runner's own environment: they say how its user authenticates."""
_SSH = "ssh -oBatchMode=yes -oConnectTimeout=20 -oServerAliveInterval=15 -oServerAliveCountMax=4"
_SETTINGS = (
    "core.attributesFile=/dev/null",
    "core.autocrlf=false",
    "core.bigFileThreshold=64m",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.packedGitLimit=512m",
    "core.packedGitWindowSize=32m",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    "credential.interactive=false",
    "fetch.recurseSubmodules=false",
    "fetch.unpackLimit=1",
    "gc.auto=0",
    "http.lowSpeedLimit=1",
    "maintenance.auto=false",
    "pack.threads=2",
    "protocol.allow=never",
    "protocol.https.allow=always",
    "protocol.ssh.allow=always",
    "protocol.version=2",
    "submodule.recurse=false",
)
_PROGRESS = re.compile(rb"[0-9]+% \([0-9]+/[0-9]+\)|^remote: (Enumerating|Counting|Compressing|Total) ")

_LOGIN = re.compile(r"://([^/\s@':]*:[^/\s@']+|[^/\s@']{16,})@")
"""A password or a token in an address: the runner's own configuration of git may add it."""


class GitFailed(TerracrewError):
    """A git command that ended with an error; its message is the last thing that it printed."""


class MirrorFailed(GitFailed):
    """A git command failed that uses only this machine: its mirror is damaged."""


class _Printed(NamedTuple):
    output: bytes
    errors: bytes


class Git:
    """Git as one attempt uses it."""

    def __init__(
        self,
        environment: Mapping[str, str],
        deadline: Deadline,
        say: Callable[[str], object],
        credential: GivenCredential | None = None,
        confinement: Confinement | None = None,
        writable: Sequence[Path] = (),
    ) -> None:
        """Git changes nothing but what is in the folders `writable` and in that of the credential, if there is a confinement."""
        self._deadline, self._say = deadline, say
        self._credential = credential or GivenCredential()
        self._environment = _clean(environment)
        self._inherited: tuple[int, ...] = ()
        path = self._environment.get("PATH")
        if (program := shutil.which("git", path=path)) is None:
            raise EngineMissing(
                "the source is a git repository, and this runner has no program `git`: install it there"
            )
        settings = (*_SETTINGS, f"http.lowSpeedTime={max(1, round(deadline.limits.silence_seconds))}")
        self._confinement = confinement or Unconfined()
        self._writable = [*writable, *([Path(self._credential.folder)] if self._credential.folder else [])]
        self._readable = operator_paths.find(program, environment)
        self._start = [program, *(part for each in settings for part in ("-c", each))]

    @property
    def has_credential(self) -> bool:
        """Whether it authenticates with a credential of the source, and not with those of the runner's user."""
        return bool(self._credential.identity)

    @contextlib.contextmanager
    def inheriting(self, descriptor: int) -> Generator[None]:
        """Give this open file, which is a lock, to every git that is started in this block."""
        before, self._inherited = self._inherited, (descriptor,)
        try:
            yield
        finally:
            self._inherited = before

    def local(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        given: Path | None = None,
    ) -> bytes:
        """Run a command that uses only this machine, without the configuration of the runner's user. Returns what it printed.

        `given` is a file that it can read as its input.
        """
        own = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_ALLOW_PROTOCOL": ""}
        try:
            return self._run(arguments, "git", own | dict(env or {}), cwd, given)
        except GitFailed as error:
            raise MirrorFailed(error.message) from error

    def remote(self, *arguments: str, what: str) -> bytes:
        """Run a command that talks to another machine, as the user of the runner. `what` describes it for people."""
        settings = [part for each in self._credential.settings for part in ("-c", each)]
        return self._run((*settings, *arguments), what, self._credential.environment, None)

    def _run(
        self, arguments: tuple[str, ...], what: str, env: dict[str, str], cwd: Path | None, given: Path | None = None
    ) -> bytes:
        with open(given or os.devnull, "rb") as source:
            return self._run_with(arguments, what, env, cwd, source.fileno())

    def _run_with(
        self, arguments: tuple[str, ...], what: str, env: dict[str, str], cwd: Path | None, source: int
    ) -> bytes:
        self._deadline.check(what)

        def begin() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                [*self._start, *arguments],
                env=self._environment | env,
                cwd=cwd or "/",
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                process_group=0,
                pass_fds=self._inherited,
                restore_signals=False,  # Python ignores SIGXFSZ, and so does git then: it says that a file is too large
            )

        process = self._confinement.start(begin, writable=self._writable, readable=self._readable)
        try:
            self._limit(process.pid)
            output, errors = self._follow(process, what)
        finally:
            code = _end(process)
        if code == 0:
            return output
        if b"File too large" in errors:
            raise TooLarge(
                f"{what} wrote a file of more than {self._deadline.limits.pack_bytes:,} bytes, so it was ended"
            )
        if b"No space left on device" in errors:
            raise OSError(errno.ENOSPC, f"{what}: {os.strerror(errno.ENOSPC)}")
        raise GitFailed(printed(errors) or f"git ended with exit code {code}")

    def _limit(self, pid: int) -> None:
        """Limit the process and what it starts. It has just been started and has not connected to anything yet."""
        limits = self._deadline.limits
        with contextlib.suppress(ProcessLookupError, PermissionError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (limits.pack_bytes, limits.pack_bytes))
            resource.prlimit(pid, resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))

    def _follow(self, process: "subprocess.Popen[bytes]", what: str) -> _Printed:
        assert process.stdout is not None
        assert process.stderr is not None
        limits, output, errors = self._deadline.limits, bytearray(), bytearray()
        began = progressed_at = time.monotonic()
        progress = _Progress(self._say, what, began)
        ended_at: float | None = None
        with selectors.DefaultSelector() as selector:
            for pipe in (process.stdout, process.stderr):
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select(_POLL_SECONDS):
                    chunk = os.read(key.fd, _CHUNK_BYTES)
                    if not chunk:
                        selector.unregister(key.fileobj)
                        continue
                    progressed_at = time.monotonic()
                    if key.fileobj is process.stdout:
                        output += chunk
                    else:
                        errors += chunk
                        del errors[:-_ERROR_BYTES]
                if len(output) > limits.answer_bytes:
                    raise TooLarge(f"{what} gave an answer of more than {limits.answer_bytes:,} bytes, so it was ended")
                self._deadline.check(what)
                now = time.monotonic()
                if now - progressed_at > limits.silence_seconds:
                    raise Unavailable(f"{what} made no progress for {limits.silence_seconds:.0f} s, so it was ended")
                progress.show(now, errors)
                if ended_at is None and _has_ended(process.pid):
                    ended_at = now
                if ended_at is not None and now - ended_at > _PIPE_SECONDS:
                    break
        while not _has_ended(process.pid):  # it has closed its pipes, and is about to end
            self._deadline.check(what)
            time.sleep(_END_SECONDS)
        return _Printed(bytes(output), bytes(errors))


class _Progress:
    """Writes the progress of a long command into the log, at growing intervals."""

    def __init__(self, say: Callable[[str], object], what: str, began: float) -> None:
        self._say, self._what, self._began = say, what, began
        self._wait = PROGRESS_SECONDS

    def show(self, now: float, errors: bytearray) -> None:
        if now - self._began < self._wait:
            return
        self._wait *= 2
        lines = re.split(rb"[\r\n]+", bytes(errors[-2000:]).strip())
        last = escapes.plain(lines[-1].decode(errors="replace"))[:200].strip()
        self._say(
            f"{self._what[0].upper()}{self._what[1:]} takes {now - self._began:.0f} s so far{': ' + last if last else ''}"
        )


def printed(errors: bytes) -> str:
    """Return the last lines that git printed, without its progress and without control characters."""
    lines = [line.rpartition(b"\r")[2].strip() for line in errors.splitlines()]
    kept = [line for line in lines if line and not _PROGRESS.search(line) and not line.startswith(b"hint:")]
    text = "; ".join(line.decode(errors="replace") for line in kept[-4:])
    return _LOGIN.sub("://***@", escapes.plain(text))[:1000]


def _clean(environment: Mapping[str, str]) -> dict[str, str]:
    kept = {name: text for name, text in environment.items() if not name.startswith("GIT_") or name in _KEPT_VARIABLES}
    ours = {
        "GIT_ALLOW_PROTOCOL": "https:ssh",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_PROTOCOL_FROM_USER": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
    if "GIT_SSH" not in kept and "GIT_SSH_COMMAND" not in kept:
        ours |= {"GIT_SSH_COMMAND": _SSH, "GIT_SSH_VARIANT": "ssh"}
    if "SSL_CERT_FILE" in kept:  # git has its own name for the same setting
        kept = {"GIT_SSL_CAINFO": kept["SSL_CERT_FILE"]} | kept
    return kept | ours


def _has_ended(pid: int) -> bool:
    """Return whether the process has ended. It is not reaped, so that the id of its group is not used again yet."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(process: "subprocess.Popen[bytes]") -> int:
    """End git and what it has started, and return its exit code. It gets a moment to remove its temporary files."""
    if not _has_ended(process.pid):
        os.killpg(process.pid, signal.SIGTERM)
        until = time.monotonic() + _TERMINATE_SECONDS
        while not _has_ended(process.pid) and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    return process.wait()
