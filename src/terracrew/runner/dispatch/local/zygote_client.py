"""The runner's end of the zygote: starts the zygote, restarts it when it dies, and asks it to fork executors."""

import asyncio
import contextlib
import itertools
import logging
import os
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence

import msgspec

from terracrew.attempt.process_record import ProcessRecord
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.dispatch.local import zygote
from terracrew.runner.handover import in_memory
from terracrew.system import own_program

log = logging.getLogger(__name__)

_ANSWER_SECONDS = 30.0
_STABLE_SECONDS = 5.0
"""A zygote that dies within this time is restarted only when the next executor has to be started."""


class ZygoteError(Exception):
    """The zygote failed, so it is unknown whether a process was started."""


class Forked(msgspec.Struct):
    process: ProcessRecord
    pidfd: int
    exit_code: asyncio.Future[int | None]
    """The exit code; None if the zygote died before its child."""


class ZygoteClient:
    def __init__(self, entry: str, environment: Mapping[str, str], engine_paths: Sequence[str] = ()) -> None:
        self._entry, self._engine_paths = entry, list(engine_paths)
        self._environment = dict(environment)
        self._numbers = itertools.count(1)
        self._starting: dict[int, asyncio.Future[Forked]] = {}
        self._exits: dict[int, asyncio.Future[int | None]] = {}
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._spawned_at = 0.0
        self._spawn()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def fork(self, start: ExecutorStart, cgroup: str = "") -> Forked:
        """Start an executor, in a cgroup if one is given. The specification never passes through the zygote's memory."""
        if self._socket is None:
            self._spawn()
        specification = in_memory("executor-start", msgspec.json.encode(start))
        number = next(self._numbers)
        answer = self._starting[number] = self._loop.create_future()
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await self._send(number.to_bytes(zygote.START_NUMBER_BYTES) + os.fsencode(cgroup), specification)
                return await answer
        except (OSError, TimeoutError) as error:
            raise ZygoteError(f"the process that starts executors does not answer: {error!r}") from error
        finally:
            self._starting.pop(number, None)
            os.close(specification)

    async def close(self) -> None:
        """Close the socket. The zygote then ends, and the executors continue."""
        self._drop()

    async def _send(self, request: bytes, descriptor: int) -> None:
        while self._socket is not None:
            try:
                socket.send_fds(self._socket, [request], [descriptor])
            except BlockingIOError:
                await asyncio.sleep(0.01)  # the zygote is busy with earlier starts; `fork` bounds the wait
            else:
                return
        raise ZygoteError("the process that starts executors has died")

    def _spawn(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        arguments = ["--entry", self._entry, *(f"--engine-path={path}" for path in self._engine_paths)]
        with theirs:
            self._process = subprocess.Popen(
                own_program.command(zygote.__name__, *arguments, "--socket", str(theirs.fileno())),
                pass_fds=[theirs.fileno()],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,  # so that Ctrl-C in the runner's terminal does not reach it
            )
        ours.setblocking(False)
        self._socket, self._spawned_at = ours, time.monotonic()
        self._loop.add_reader(ours, self._receive)

    def _receive(self) -> None:
        while self._socket is not None:
            try:
                data, descriptors, _, _ = socket.recv_fds(self._socket, zygote.MAX_ANSWER_BYTES, 1)
            except BlockingIOError:
                return
            except OSError:
                data, descriptors = b"", []
            if not data:
                self._died()
                return
            self._take(data, descriptors)

    def _take(self, data: bytes, descriptors: list[int]) -> None:
        message: zygote.Answer = zygote.decode(data)
        match message:
            case zygote.Started(number, process):
                answer = self._starting.get(number)
                if answer is None or answer.done():
                    os.close(descriptors[0])  # nobody waits for it any more; the runner finds it through its directory
                    return
                self._exits[number] = self._loop.create_future()
                answer.set_result(Forked(process, descriptors[0], self._exits[number]))
            case zygote.Failed(number, reason):
                answer = self._starting.get(number)
                if answer is not None and not answer.done():
                    answer.set_exception(ZygoteError(reason))
            case zygote.Exited(number, code):
                if (known := self._exits.pop(number, None)) is not None and not known.done():
                    known.set_result(code)

    def _died(self) -> None:
        lived = time.monotonic() - self._spawned_at
        log.warning("the process that starts executors has died after %.0f s; running executors continue", lived)
        self._drop()
        if lived > _STABLE_SECONDS:
            self._spawn()

    def _drop(self) -> None:
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            self._socket.close()
            self._socket = None
        for answer in self._starting.values():
            if not answer.done():
                answer.set_exception(ZygoteError("the process that starts executors has died"))
        for code in self._exits.values():
            if not code.done():
                code.set_result(None)
        self._exits.clear()
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5)  # its socket is closed, so it ends at once
            self._process = None
