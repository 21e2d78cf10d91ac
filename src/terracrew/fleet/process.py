"""The fleet process: does the work of jobs and makes calls to clouds, as the server on the other end of its socket asks."""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Coroutine
from enum import IntEnum
from importlib import import_module
from typing import Any, Literal

from terracrew.api.cloud_identities import CloudKind
from terracrew.clouds.contract import Canceled, Cloud, OpenCloud, SignToken
from terracrew.clouds.model import CloudIdentity
from terracrew.errors import Invalid, TerracrewError, Unavailable
from terracrew.fleet import messages
from terracrew.fleet.messages import (
    AbortJob,
    CallCloud,
    CancelJob,
    CheckWork,
    CloudAnswered,
    DeployWork,
    KeepRunning,
    LinePrinted,
    Ping,
    Pong,
    ProcessMessage,
    RunJob,
    ServerMessage,
    StartCall,
    StepBegun,
    StepDone,
    StepFailed,
    StopCall,
    TokenAnswer,
    TokenWanted,
    WatchCall,
    WorkEnded,
)
from terracrew.logging import get_logger

MAX_SILENCE_SECONDS = 20.0
"""With jobs, the process ends when its server has not renewed their leases for this long: another server may have them then."""
TOKEN_WAIT_SECONDS = 30.0
log = get_logger("terracrew.fleet")


_CLASSES: dict[CloudKind, tuple[str, str]] = {
    "aws": ("terracrew.clouds.aws.cloud", "AwsCloud"),
    "kubernetes": ("terracrew.clouds.kubernetes.cloud", "KubernetesCloud"),
}


def open_cloud(identity: CloudIdentity, sign_token: SignToken) -> Cloud:
    module, name = _CLASSES[identity.kind]
    try:
        opened: Callable[[CloudIdentity, SignToken], Cloud] = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        raise Invalid(
            f"the server cannot use an identity of the kind {identity.kind}: the Python package {error.name} is missing"
        ) from error
    return opened(identity, sign_token)


class OpenClouds:
    """The accounts that are open, by identity. One that was changed is another one. Those that were not used for long are closed."""

    def __init__(self, open_one: OpenCloud, sign: Callable[[CloudIdentity], SignToken], max_open: int = 64) -> None:
        self._open_one, self._sign, self._max_open = open_one, sign, max_open
        self._open: dict[CloudIdentity, Cloud] = {}
        self._users: dict[CloudIdentity, int] = {}

    async def take(self, identity: CloudIdentity) -> Cloud:
        """Return the cloud of an identity; the caller gives it back."""
        if identity not in self._open:
            self._open[identity] = self._open_one(identity, self._sign(identity))
        self._users[identity] = self._users.get(identity, 0) + 1
        cloud = self._open.pop(identity)
        self._open[identity] = cloud  # the last one in the order is the one that was used last
        return cloud

    async def give_back(self, identity: CloudIdentity) -> None:
        self._users[identity] -= 1
        if not self._users[identity]:
            del self._users[identity]
        unused = [each for each in self._open if each not in self._users]
        for each in unused[: max(0, len(self._open) - self._max_open)]:
            await self._open.pop(each).close()


class WorkReporter:
    """The reporter of one attempt, as `clouds/contract.py` describes it."""

    def __init__(self, job_id: str, attempt: int, send: Callable[[ProcessMessage], None]) -> None:
        self._job_id, self._attempt, self._send = job_id, attempt, send
        self.is_canceled = False
        self.passed = 0
        self.problems: list[str] = []

    def begin(self, step: str, words: str) -> None:
        self._send(StepBegun(self._job_id, self._attempt, step, words))

    def done(self, step: str, reference: str = "", words: str = "") -> None:
        self.passed += 1
        self._send(StepDone(self._job_id, self._attempt, step, reference, words))

    def failed(self, step: str, words: str, remedy: str = "") -> None:
        self.problems.append(words)
        self._send(StepFailed(self._job_id, self._attempt, step, words, remedy))

    def line(self, text: str) -> None:
        self._send(LinePrinted(self._job_id, self._attempt, text))

    def require_wanted(self) -> None:
        if self.is_canceled:
            raise Canceled("the job was canceled")


class FleetExit(IntEnum):
    """The exit codes: the server has closed the socket, has sent something that is no message, or is silent."""

    ENDED = 0
    FAULTY = 2
    SILENT = 3


class FleetProcess:
    def __init__(self, connection: socket.socket, open_cloud: OpenCloud) -> None:
        self._connection = connection
        self._clouds = OpenClouds(open_cloud, self._signer)
        self._jobs: dict[tuple[str, int], tuple[asyncio.Task[None], WorkReporter]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._tokens: dict[int, asyncio.Future[TokenAnswer]] = {}
        self._next_token = 0
        self._renewed_at = time.monotonic()

    async def run(self) -> int:
        """Serve until the server closes the socket, and return the exit code. What runs then is not ended in good order."""
        reader, self._writer = await asyncio.open_connection(sock=self._connection, limit=messages.MAX_MESSAGE_BYTES)
        watch = asyncio.create_task(self._watch_leases())
        try:
            while (body := await messages.receive(reader)) is not None:
                self._take(messages.of_server.decode(body))
        except (ValueError, Invalid) as error:
            log.error("the server has sent something that is no message", reason=str(error)[:200])
            return FleetExit.FAULTY
        finally:
            watch.cancel()
        return FleetExit.ENDED

    def _take(self, message: ServerMessage) -> None:
        match message:
            case RunJob():
                self._renewed_at = time.monotonic()
                reporter = WorkReporter(message.job_id, message.attempt, self._send)
                task = self._start(self._run_job(message, reporter))
                self._jobs[message.job_id, message.attempt] = task, reporter
            case CancelJob():
                if found := self._jobs.get((message.job_id, message.attempt)):
                    found[1].is_canceled = True
            case AbortJob():
                if found := self._jobs.pop((message.job_id, message.attempt), None):
                    found[0].cancel()
            case KeepRunning():
                self._renewed_at = time.monotonic()
            case Ping():
                self._send(Pong())
            case CallCloud():
                self._start(self._call(message))
            case TokenAnswer():
                if (waiting := self._tokens.pop(message.id, None)) and not waiting.done():
                    waiting.set_result(message)

    def _send(self, message: ProcessMessage) -> None:
        self._writer.write(messages.encoded(message))

    def _start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _watch_leases(self) -> None:
        """End the process once its jobs may belong to another server. Nothing is undone: the next attempt finds what was made."""
        while True:
            await asyncio.sleep(1.0)
            if self._jobs and time.monotonic() - self._renewed_at > MAX_SILENCE_SECONDS:
                log.error("the server has not renewed the leases of its jobs, so they are given up")
                os._exit(FleetExit.SILENT)

    async def _run_job(self, job: RunJob, reporter: WorkReporter) -> None:
        try:
            ended = await self._worked(job, reporter)
        finally:
            self._jobs.pop((job.job_id, job.attempt), None)
        self._send(ended)

    async def _worked(self, job: RunJob, reporter: WorkReporter) -> WorkEnded:
        facts: dict[str, str] = {}
        outcome: Literal["succeeded", "failed", "canceled"] = "succeeded"
        error = ""
        try:
            cloud = await self._clouds.take(job.identity)
            try:
                facts = await _do(cloud, job, reporter)
            finally:
                await self._clouds.give_back(job.identity)
            if isinstance(job.work, CheckWork) and reporter.problems:
                count = len(reporter.problems)
                outcome, error = "failed", f"{count} of {count + reporter.passed} checks failed: {reporter.problems[0]}"
        except Canceled:
            outcome = "canceled"
        except TerracrewError as refused:
            outcome, error = "failed", refused.message
        except Exception as fault:
            log.exception("the work of a job has a fault", job=job.job_id)
            outcome, error = "failed", f"the fleet process has a fault ({type(fault).__name__}): see the server's log"
        return WorkEnded(job.job_id, job.attempt, outcome, error, facts)

    async def _call(self, message: CallCloud) -> None:
        try:
            cloud = await self._clouds.take(message.identity)
            try:
                answer = await _called(cloud, message)
            finally:
                await self._clouds.give_back(message.identity)
        except TerracrewError as error:
            answer = CloudAnswered(message.id, problem=error.message, code=error.code)
        except Exception as fault:
            log.exception("a call to a cloud has a fault", identity=message.identity.id)
            answer = CloudAnswered(message.id, problem=f"the fleet process has a fault ({type(fault).__name__})")
        self._send(answer)

    def _signer(self, identity: CloudIdentity) -> SignToken:
        async def sign(is_probe: bool = False, /) -> str:
            self._next_token += 1
            number = self._next_token
            waiting = self._tokens[number] = asyncio.get_running_loop().create_future()
            self._send(TokenWanted(number, identity.id, is_probe))
            try:
                async with asyncio.timeout(TOKEN_WAIT_SECONDS):
                    found = await waiting
            except TimeoutError:
                raise Unavailable("the server did not sign a token in time") from None
            finally:
                self._tokens.pop(number, None)
            if found.problem:
                raise (Unavailable if found.is_transient else Invalid)(found.problem)
            return found.token

        return sign


async def _do(cloud: Cloud, job: RunJob, reporter: WorkReporter) -> dict[str, str]:
    work = job.work
    if isinstance(work, CheckWork):
        if not await cloud.check(reporter, work.deployment) and not reporter.problems:
            reporter.problems.append("the cloud did not say which")
        return {}
    if isinstance(work, DeployWork):
        return await cloud.deploy(work.deployment, work.worker_token, job.job_id, reporter)
    await cloud.destroy(work.deployment, job.job_id, reporter)
    return {}


async def _called(cloud: Cloud, message: CallCloud) -> CloudAnswered:
    call = message.call
    if isinstance(call, StartCall):
        return CloudAnswered(message.id, started=await cloud.start(call.deployment, call.wanted))
    if isinstance(call, WatchCall):
        return CloudAnswered(message.id, states=await cloud.watch(call.deployment, call.references))
    if isinstance(call, StopCall):
        await cloud.stop(call.deployment, call.reference, call.reason)
        return CloudAnswered(message.id)
    return CloudAnswered(message.id, found=await cloud.found())
