"""Runs a program that an operator configured and returns what it printed, with bounds on its time, its output and its leftovers.

Credential helpers and settings of the kind `exec:` are such programs. There is no shell: the program gets an argument list.
It runs in a session of its own with an empty standard input. When it has ended, or is ended, every process of that session is
killed, and so is every process that inherited the run's mark in its environment. Only the program's own end counts: a child that
keeps the pipe open delays nothing. What the program printed is in no error, and its standard error is shown without secrets.
"""

import asyncio
import contextlib
import os
import re
import resource
import secrets
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

import msgspec

from terracrew.errors import ProgramFailed
from terracrew.masking import names
from terracrew.masking.redactor import Redactor
from terracrew.system import procfs
from terracrew.wording import escapes

MAX_SHOWN_CHARACTERS = 2000
"""How much of the end of its standard error a message shows."""
MAX_STDERR_BYTES = 1 << 20
_KEPT_STDERR_BYTES = 16 << 10
_READ_BYTES = 64 << 10
_END_SECONDS = 5.0
"""How long to wait for a killed program. One that hangs in the kernel is given up after this time."""
_MARK = "BOUNDED_PROGRAM_RUN"
_TOKENS = re.compile(r"eyJ[\w-]{10,}(?:\.[\w-]+){1,4}|(?:AKIA|ASIA)[A-Z0-9]{12,}|X-Amz-[A-Za-z-]+=[^&\s]+")
"""JSON web tokens, access keys of AWS, and the parameters of a signed address."""
_MIN_HIDDEN_CHARACTERS = 8
_WORDS = re.compile(r"[^\s\"',:{}\[\]]+")


class ProgramBounds(msgspec.Struct, frozen=True):
    timeout_seconds: float = 30.0
    max_stdout_bytes: int = 64 << 10
    max_memory_bytes: int = 0
    """How much address space each of its processes may use; 0 sets no limit."""


class ProgramEnd(msgspec.Struct, frozen=True):
    """How a program ended by itself, and what it printed."""

    code: int
    stdout: bytes
    stderr: bytes


async def run(
    arguments: Sequence[str],
    *,
    purpose: str,
    bounds: ProgramBounds | None = None,
    environment: Mapping[str, str] | None = None,
) -> bytes:
    """Run a program to its end and return its standard output. `purpose` begins each message: "the credential helper".

    The environment is the one of this process unless one is given. Raises ProgramFailed if the program cannot be started,
    takes too long, prints too much, or fails. Cancelling the call ends the program.
    """
    limits, inherited = bounds or ProgramBounds(), dict(os.environ if environment is None else environment)
    started = _Program(arguments, inherited, f"{purpose} {arguments[0]}", limits)
    try:
        await started.wait()
    finally:
        await asyncio.to_thread(started.end)
    return started.result()


async def run_to_end(
    arguments: Sequence[str],
    *,
    purpose: str,
    bounds: ProgramBounds | None = None,
    environment: Mapping[str, str] | None = None,
) -> ProgramEnd:
    """Do the same for a program whose exit status says something. Raises ProgramFailed only if it exceeds a bound or is killed."""
    limits, inherited = bounds or ProgramBounds(), dict(os.environ if environment is None else environment)
    started = _Program(arguments, inherited, f"{purpose} {arguments[0]}", limits)
    try:
        await started.wait()
    finally:
        await asyncio.to_thread(started.end)
    return started.ended()


def run_blocking(
    arguments: Sequence[str],
    *,
    purpose: str,
    bounds: ProgramBounds | None = None,
    environment: Mapping[str, str] | None = None,
) -> bytes:
    """Do the same in a thread that runs no event loop."""
    return asyncio.run(run(arguments, purpose=purpose, bounds=bounds, environment=environment))


class _Program:
    def __init__(self, arguments: Sequence[str], environment: dict[str, str], name: str, bounds: ProgramBounds) -> None:
        self._name, self._bounds, self._environment = name, bounds, environment
        self._stdout, self._stderr = bytearray(), bytearray()
        self._stderr_bytes = 0
        self._failure = ""
        self._mark = f"{_MARK}={secrets.token_hex(16)}"
        marked = environment | dict([self._mark.split("=", 1)])
        try:
            self._process = subprocess.Popen(
                list(arguments),
                env=marked,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                bufsize=0,
            )
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise ProgramFailed(f"{name} could not be started: {why}") from None
        if bounds.max_memory_bytes:
            with contextlib.suppress(OSError):  # it has ended already
                resource.prlimit(
                    self._process.pid, resource.RLIMIT_AS, (bounds.max_memory_bytes, bounds.max_memory_bytes)
                )
            with contextlib.suppress(
                OSError
            ):  # if the machine has too little, the kernel ends it, and not this process
                Path(f"/proc/{self._process.pid}/oom_score_adj").write_text("1000")

    async def wait(self) -> None:
        """Read until the program itself ends, or until it exceeds a bound."""
        pipes: dict[int, Callable[[bytes], None]] = {
            _descriptor(self._process.stdout): self._add_stdout,
            _descriptor(self._process.stderr): self._add_stderr,
        }
        loop, is_over = asyncio.get_running_loop(), asyncio.Event()

        def read(descriptor: int) -> None:
            if not _read(descriptor, pipes[descriptor]):
                loop.remove_reader(descriptor)
            if self._failure:
                is_over.set()

        pidfd = os.pidfd_open(self._process.pid)
        try:
            for descriptor in pipes:
                os.set_blocking(descriptor, False)
                loop.add_reader(descriptor, read, descriptor)
            loop.add_reader(pidfd, is_over.set)
            async with asyncio.timeout(self._bounds.timeout_seconds):
                await is_over.wait()
        except TimeoutError:
            self._fail(f"did not end within {self._bounds.timeout_seconds:g} seconds and was killed")
        finally:
            for descriptor in (pidfd, *pipes):
                loop.remove_reader(descriptor)
            os.close(pidfd)
        for descriptor, add in pipes.items():
            while not self._failure and _read(descriptor, add, is_partial=False):
                pass  # what the program printed last is still in the pipe

    def end(self) -> None:
        """Kill what is left of the program, and its process, which is not reaped before: its id still belongs to it."""
        descendants = procfs.descendants(self._process.pid)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for process in (*descendants, *_marked(self._process.pid, self._mark.encode())):
            procfs.send(process, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def result(self) -> bytes:
        code = self._process.returncode
        if not self._failure and code:
            self._failure = f"ended with exit status {code}" if code > 0 else f"was killed by signal {-code}"
        if self._failure:
            raise ProgramFailed(f"{self._name} {self._failure}{self._shown()}")
        return bytes(self._stdout)

    def ended(self) -> ProgramEnd:
        code = self._process.returncode
        if self._failure or code < 0:
            self.result()
        return ProgramEnd(code, bytes(self._stdout), bytes(self._stderr))

    def _add_stdout(self, piece: bytes) -> None:
        self._stdout += piece
        if len(self._stdout) > self._bounds.max_stdout_bytes:
            self._fail(f"printed more than {self._bounds.max_stdout_bytes} bytes and was killed")

    def _add_stderr(self, piece: bytes) -> None:
        self._stderr_bytes += len(piece)
        self._stderr = (self._stderr + piece)[-_KEPT_STDERR_BYTES:]
        if self._stderr_bytes > MAX_STDERR_BYTES:
            self._fail(f"printed more than {MAX_STDERR_BYTES} bytes to its standard error and was killed")

    def _fail(self, words: str) -> None:
        self._failure = self._failure or words

    def _shown(self) -> str:
        """Return the end of the standard error, without what looks like a secret, was printed as one, or is in the environment."""
        text = self._stderr.decode(errors="replace")
        if not text.strip():
            return ""  # searching what was printed for secrets takes a second where that is much
        printed = _WORDS.findall(self._stdout[: self._bounds.max_stdout_bytes].decode(errors="replace"))
        hidden = [word for word in printed if len(word) >= _MIN_HIDDEN_CHARACTERS]
        redactor = Redactor([*names.secrets_of(self._environment), *hidden[: names.MAX_SECRETS]])
        masked = _TOKENS.sub("***", redactor.mask_text(escapes.plain(text))).strip()
        if len(masked) > MAX_SHOWN_CHARACTERS:
            masked = f"…{masked[-MAX_SHOWN_CHARACTERS:]}"
        return f": {masked}" if masked else ""


def _descriptor(pipe: IO[bytes] | None) -> int:
    return -1 if pipe is None else pipe.fileno()


def _read(descriptor: int, add: Callable[[bytes], None], *, is_partial: bool = True) -> bool:
    """Read once. Returns whether there may be more: at the end of the pipe there is not, nor, if not `is_partial`, in an empty one."""
    try:
        piece = os.read(descriptor, _READ_BYTES)
    except BlockingIOError:
        return is_partial
    add(piece)
    return bool(piece)


def _marked(session: int, mark: bytes) -> list[procfs.Process]:
    """Return the living processes of this session, and those that have this mark in their environment."""
    found: list[procfs.Process] = []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != session):
        seen = procfs.stat(pid)
        if seen is not None and seen.is_alive and (seen.session == session or _has_mark(pid, mark)):
            found.append(procfs.Process(pid, seen))
    return found


def _has_mark(pid: int, mark: bytes) -> bool:
    try:
        return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
