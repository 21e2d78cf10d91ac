"""The connection to the fleet process: work of jobs, calls to clouds, and tokens that the server signs for identities in use."""

import asyncio
import contextlib
import socket
import subprocess
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from terracrew.api.cloud_identities import FoundResource
from terracrew.backoff import Backoff
from terracrew.clouds.contract import CloudRefused
from terracrew.clouds.model import CloudIdentity, Deployment, InstanceState, StartAnswer, StartRequest
from terracrew.errors import Invalid, TerracrewError, Unavailable
from terracrew.fleet import messages
from terracrew.fleet.messages import (
    AbortJob,
    CallCloud,
    CancelJob,
    CloudAnswered,
    FleetCall,
    FoundCall,
    KeepRunning,
    Ping,
    Pong,
    ProcessMessage,
    RunJob,
    ServerMessage,
    StartCall,
    StopCall,
    TokenAnswer,
    TokenWanted,
    WatchCall,
    WorkEnded,
    WorkEvent,
)
from terracrew.logging import get_logger
from terracrew.server.fleet_process import child
from terracrew.wording import escapes

MAX_TEXT_CHARACTERS = 4_000
T = TypeVar("T", bound=msgspec.Struct)


def plain(message: T) -> T:
    """Return a message whose texts have no control characters but tabs and line ends, and are not endless."""
    return msgspec.convert(_plain(msgspec.to_builtins(message)), type(message))


def _plain(value: Any) -> Any:
    match value:
        case str():
            return escapes.plain(value[:MAX_TEXT_CHARACTERS])
        case list():
            listed: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
            return [_plain(each) for each in listed]
        case dict():
            items: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
            return {_plain(name): _plain(each) for name, each in items.items()}
        case _:
            return value


Sign = Callable[[CloudIdentity, bool], Awaitable[str]]
"""Signs a token for an identity; the second argument asks for one that a cloud must turn away."""
IDLE_SECONDS = 300.0
"""The process ends after it had nothing to do for this long, unless it is to stay ready."""
READY_CHECK_SECONDS = 5.0
CALL_SECONDS = 150.0
"""How long a call may take. Clouds repeat requests for up to 90 s while they are throttled."""
FIRST_RESTART_SECONDS, MAX_RESTART_SECONDS = 0.2, 30.0
MAX_SIGNINGS = 50
"""How many tokens are being signed at a time. An identity needs one in ten minutes, so more than this is a fault."""
END_SECONDS = 2.0
"""How long the process may take to end after its socket was closed, before it is killed."""
PING_SECONDS = 5.0
MAX_UNANSWERED_COUNT = 6
"""A process that has answered none of so many pings in a row hangs, and is killed: its jobs would never end. Pings are counted and
not seconds, because a server that was stopped itself has not waited."""
log = get_logger("terracrew.fleet")


class FleetLost(Unavailable):
    """The fleet process ended before it had answered. What was asked for may have happened."""

    code = "fleet_lost"


class FleetLink:
    """Starts the process for the first request and again after a crash. It implements `cloud_hosted.cloud_calls.CloudCalls`."""

    def __init__(
        self,
        sign: Sign,
        private: Sequence[Path],
        *,
        program: Sequence[str] | None = None,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._sign, self._private, self._idle_seconds = sign, private, idle_seconds
        self._program = child.PROGRAM if program is None else program
        self._connection: _Connection | None = None
        self._starting = asyncio.Lock()
        self._restarts = Backoff(FIRST_RESTART_SECONDS, MAX_RESTART_SECONDS)
        self._crashed_at = float("-inf")
        self._crash_delay = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._is_kept_ready: Callable[[], bool] = lambda: False

    @property
    def process_id(self) -> int | None:
        """The id of the process, while there is one."""
        return self._connection.process.pid if self._connection else None

    async def stay_ready(self, is_wanted: Callable[[], bool]) -> None:
        """Keep the process running while this is true, so that a sleeping runner is woken without waiting for its start."""
        self._is_kept_ready = is_wanted
        while True:
            if is_wanted() and self._connection is None:
                await self._connected()
            await asyncio.sleep(READY_CHECK_SECONDS)

    async def run(self, job: RunJob, take: Callable[[WorkEvent], None]) -> WorkEnded:
        """Have the work of an attempt done, and return how it ended. Raises FleetLost if the process ends in the middle."""
        connection = await self._connected()
        with self._in_use(connection):
            return await connection.run(job, take)

    def cancel(self, job_id: str, attempt: int) -> None:
        self._tell(CancelJob(job_id, attempt))

    def abort(self, job_id: str, attempt: int) -> None:
        self._tell(AbortJob(job_id, attempt))

    def keep_running(self) -> None:
        """Tell the process that the leases of its jobs were renewed. Without this, it ends by itself."""
        self._tell(KeepRunning())

    async def start(
        self, identity: CloudIdentity, deployment: Deployment, wanted: Sequence[StartRequest]
    ) -> list[StartAnswer]:
        return (await self._call(identity, StartCall(deployment, list(wanted)))).started

    async def watch(
        self, identity: CloudIdentity, deployment: Deployment, references: Sequence[str]
    ) -> list[InstanceState]:
        return (await self._call(identity, WatchCall(deployment, list(references)))).states

    async def stop(self, identity: CloudIdentity, deployment: Deployment, reference: str, reason: str) -> None:
        await self._call(identity, StopCall(deployment, reference, reason))

    async def found(self, identity: CloudIdentity) -> list[FoundResource]:
        return (await self._call(identity, FoundCall())).found

    async def close(self) -> None:
        """End the process."""
        connection, self._connection = self._connection, None
        if self._timer is not None:
            self._timer.cancel()
        if connection is not None:
            await connection.close()

    async def _call(self, identity: CloudIdentity, call: FleetCall) -> CloudAnswered:
        connection = await self._connected()
        with self._in_use(connection):
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    answer = await connection.call(identity, call)
            except TimeoutError:
                raise Unavailable(f"the cloud of `{identity.name}` has not answered for {CALL_SECONDS:.0f} s") from None
        if answer.problem:
            raise (CloudRefused if answer.code == CloudRefused.code else Unavailable)(answer.problem)
        return answer

    def _tell(self, message: ServerMessage) -> None:
        if self._connection is not None:
            self._connection.send(message)

    async def _connected(self) -> "_Connection":
        async with self._starting:
            if self._connection is not None and not self._connection.is_ended:
                return self._connection
            now = asyncio.get_running_loop().time()
            if (delay := self._crashed_at + self._crash_delay - now) > 0:
                await asyncio.sleep(delay)
            process, connection = await asyncio.to_thread(child.start, self._private, self._program)
            log.info("the fleet process is started", pid=process.pid)
            self._connection = await _Connection.open(process, connection, self._sign, self._ended)
            self._end_when_idle(self._connection)
            return self._connection

    def _ended(self, connection: "_Connection") -> None:
        if connection.is_closed:
            return
        log.warning("the fleet process has ended in the middle", reason=connection.end)
        self._crashed_at, self._crash_delay = asyncio.get_running_loop().time(), self._restarts.next()
        if self._connection is connection:
            self._connection = None

    @contextmanager
    def _in_use(self, connection: "_Connection") -> Generator[None]:
        """Count a request; when the last one has ended, the process is ended some time later."""
        connection.users += 1
        try:
            yield
            self._restarts.reset()
        finally:
            connection.users -= 1
            if not connection.users:
                self._end_when_idle(connection)

    def _end_if_idle(self, connection: "_Connection") -> None:
        if connection.users or self._connection is not connection:
            return
        if self._is_kept_ready():
            self._end_when_idle(connection)
        else:
            self._connection = None
            connection.end_soon()

    def _end_when_idle(self, connection: "_Connection") -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._idle_seconds, self._end_if_idle, connection)


class _Connection:
    """One process, from its start to its end."""

    _writer: asyncio.StreamWriter
    _pinging: asyncio.Task[None]

    def __init__(self, process: "subprocess.Popen[bytes]", sign: Sign, on_end: "Callable[[_Connection], None]") -> None:
        self.process, self._sign, self._on_end = process, sign, on_end
        self.users = 0
        self.is_ended = self.is_closed = False
        self.end = ""
        """Why it ended."""
        self._runs: dict[tuple[str, int], tuple[RunJob, Callable[[WorkEvent], None], asyncio.Future[WorkEnded]]] = {}
        self._calls: dict[int, tuple[CloudIdentity, asyncio.Future[CloudAnswered]]] = {}
        self._numbers = count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._unanswered = 0
        """The pings since the last message of the process."""

    @classmethod
    async def open(
        cls,
        process: "subprocess.Popen[bytes]",
        connection: socket.socket,
        sign: Sign,
        on_end: "Callable[[_Connection], None]",
    ) -> "_Connection":
        made = cls(process, sign, on_end)
        reader, made._writer = await asyncio.open_connection(sock=connection, limit=messages.MAX_MESSAGE_BYTES)
        made._start(made._read(reader))
        made._pinging = asyncio.create_task(made._ping())
        return made

    async def run(self, job: RunJob, take: Callable[[WorkEvent], None]) -> WorkEnded:
        key = job.job_id, job.attempt
        waiting: asyncio.Future[WorkEnded] = asyncio.get_running_loop().create_future()
        self._runs[key] = job, take, waiting
        try:
            self.send(job)
            return await waiting
        finally:
            del self._runs[key]

    async def call(self, identity: CloudIdentity, call: FleetCall) -> CloudAnswered:
        number = next(self._numbers)
        waiting: asyncio.Future[CloudAnswered] = asyncio.get_running_loop().create_future()
        self._calls[number] = identity, waiting
        try:
            self.send(CallCloud(number, identity, call))
            return await waiting
        finally:
            del self._calls[number]

    def send(self, message: ServerMessage) -> None:
        if self.is_ended:
            raise FleetLost(f"the fleet process has ended: {self.end}")
        self._writer.write(messages.encoded(message))

    def end_soon(self) -> None:
        self._start(self.close())

    async def close(self) -> None:
        """Close the socket, upon which the process ends."""
        self.is_closed = True
        self._pinging.cancel()
        self._writer.close()
        await self._reap()

    def _start(self, work: "Awaitable[None]") -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        problem = ""
        try:
            while (body := await messages.receive(reader)) is not None:
                self._take(messages.of_process.decode(body))
        except (ValueError, Invalid) as error:
            problem = f"it has sent something that is no message ({str(error)[:200]})"
        finally:
            self._pinging.cancel()
            self._writer.close()
            await self._reap(at_once=bool(problem))
            self._lose(problem or self.end or _end_of(self.process))

    async def _ping(self) -> None:
        while not (self.is_ended or self.is_closed):
            if self._unanswered >= MAX_UNANSWERED_COUNT:
                self.end = f"it hung, and was killed after {self._unanswered} pings without an answer"
                self.process.kill()
                return
            self._unanswered += 1
            self.send(Ping())
            await asyncio.sleep(PING_SECONDS)

    def _lose(self, reason: str) -> None:
        self.is_ended, self.end = True, reason
        lost = FleetLost(f"the fleet process has ended: {reason}")
        for waiting in [*(run[2] for run in self._runs.values()), *(call[1] for call in self._calls.values())]:
            if not waiting.done():
                waiting.set_exception(lost)
        self._on_end(self)

    async def _reap(self, *, at_once: bool = False) -> None:
        """Wait for the end of the process; kill it if it does not end by itself."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            if not at_once:
                await asyncio.to_thread(self.process.wait, END_SECONDS)
                return
        self.process.kill()
        await asyncio.to_thread(self.process.wait)

    def _take(self, message: ProcessMessage) -> None:
        self._unanswered = 0
        match message:
            case Pong():
                pass
            case WorkEnded():
                found = self._runs.get((message.job_id, message.attempt))
                if found and not found[2].done():
                    found[2].set_result(plain(message))
            case CloudAnswered():
                known = self._calls.get(message.id)
                if known and not known[1].done():
                    known[1].set_result(plain(message))
            case TokenWanted():
                if len(self._tasks) < MAX_SIGNINGS:
                    self._start(self._answer(message))
            case _:
                found = self._runs.get((message.job_id, message.attempt))
                if found and not found[2].done():
                    found[1](message)

    async def _answer(self, wanted: TokenWanted) -> None:
        """Sign a token for an identity of a request that is being served, and for no other one."""
        in_use = [run[0].identity for run in self._runs.values()] + [call[0] for call in self._calls.values()]
        identity = next((each for each in in_use if each.id == wanted.identity_id), None)
        try:
            if identity is None:
                log.warning(
                    "the fleet process asked for a token that it does not need", identity=wanted.identity_id[:100]
                )
                raise Invalid("no request of this identity is being served")
            answer = TokenAnswer(wanted.id, await self._sign(identity, wanted.is_probe))
        except TerracrewError as error:
            answer = TokenAnswer(wanted.id, problem=error.message, is_transient=error.is_transient)
        with contextlib.suppress(FleetLost):
            self.send(answer)


def _end_of(process: "subprocess.Popen[bytes]") -> str:
    code = process.returncode
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
