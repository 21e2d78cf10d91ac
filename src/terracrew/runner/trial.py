"""The no-op job, by which a runner that was started on trial proves that it can run jobs before it is given one.

Its default engine runs `init`, `plan` and `apply` on a configuration that changes nothing: it has an output, and neither a resource
nor a provider. The dispatcher starts an executor for it, which isolates the engine, gives it its user and delivers what it did, as
for every job. Only the server of that executor is another one (`trial_hub`), since the real one knows no such job.
"""

import io
import logging
import secrets
import tarfile
import time
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from secrets import compare_digest
from typing import Protocol

import msgspec
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from terracrew import ids
from terracrew.attempt import exit_codes
from terracrew.client.hub import PATH
from terracrew.protocol import events, frames, messages, version
from terracrew.protocol.events import Kind, Result
from terracrew.protocol.messages import Granted
from terracrew.protocol.spec import ArchiveSource, Credentials, JobSpec, JobType, StateSeed
from terracrew.runner.dispatch.protocol import AttemptEnd, NotStarted
from terracrew.toolchains import specs

MAX_SECONDS = 100.0
"""How long the no-op job may take. It is killed then, which takes up to 15 s."""
_KEY_BYTES = 32
_CREDENTIAL_BYTES = 32
_HCL = {"main.tf": 'output "trial" {\n  value = "passed"\n}\n'}
_CONFIGURATIONS: dict[str, Mapping[str, str]] = {
    "tofu": _HCL,
    "terraform": _HCL,
    "pulumi": {"Pulumi.yaml": "name: trial\nruntime: yaml\noutputs:\n  trial: passed\n"},
}
"""A configuration that changes nothing, for each engine; the first one that a runner has is its default one."""


log = logging.getLogger(__name__)

_KEPT_LINES_COUNT = 5
_MAX_LINE_CHARACTERS = 300
_CLOSE_SECONDS = 1.0


class TrialHub:
    """Takes what the executor of one attempt delivers."""

    def __init__(self, credential: str) -> None:
        self._credential = credential
        self._mark = 0
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES_COUNT)
        self.result: Result | None = None
        """How the attempt ended; None if it has not said so."""

    @property
    def last_lines(self) -> str:
        """The end of its log, in one line."""
        return " ".join(line for line in self._lines if line)

    @asynccontextmanager
    async def listen(self) -> AsyncGenerator[str]:
        """Yield the address that its executor connects to."""
        async with serve(
            self._converse,
            "127.0.0.1",
            0,
            process_request=self._check,
            compression=None,
            max_size=messages.MAX_GRANT_FRAME_BYTES,
            close_timeout=_CLOSE_SECONDS,
        ) as listening:
            port = next(iter(listening.sockets)).getsockname()[1]
            yield f"http://127.0.0.1:{port}"

    def _check(self, connection: ServerConnection, request: Request) -> Response | None:
        """Refuse other processes of this machine."""
        given = request.headers.get("Authorization", "")
        if request.path == PATH and compare_digest(given.encode(), f"Bearer {self._credential}".encode()):
            return None
        return connection.respond(HTTPStatus.FORBIDDEN, "this is not for you\n")

    async def _converse(self, connection: ServerConnection) -> None:
        try:
            async for frame in connection:
                answer = self._take_batch(frame) if isinstance(frame, bytes) else self._take_message(frame)
                await connection.send(messages.encode(answer), text=True)
        except ValueError:
            log.exception("the executor of the no-op job sent something that is not part of the protocol")

    def _take_message(self, frame: str) -> messages.ExecutorWelcome | messages.Begun:
        message: messages.FromExecutor = messages.decode_from_executor(frame)
        if isinstance(message, messages.Begin):
            return messages.Begun(message.state_version)
        return messages.ExecutorWelcome(self._mark, version.NEWEST_VERSION, has_result=self.result is not None)

    def _take_batch(self, frame: bytes) -> messages.Ack:
        header, body = frames.unpack(frame)
        if header.first > self._mark + 1:
            raise ValueError(f"event {header.first} came after event {self._mark}")
        for record in list(events.unpack(body))[self._mark + 1 - header.first :]:
            self._mark += 1
            if record.kind == Kind.LOG:
                text = record.payload.decode(errors="replace")
                self._lines.extend(line.strip()[:_MAX_LINE_CHARACTERS] for line in text.splitlines())
            elif record.kind == Kind.FACT and isinstance(fact := events.fact_of(record), Result):
                self.result = fact
        return messages.Ack(self._mark)


class Trial(msgspec.Struct, frozen=True):
    """How the no-op job ended."""

    is_passed: bool
    words: str
    """What was done to prove it, or what went wrong."""
    seconds: float = 0.0


class RunsUnknownAttempts(Protocol):
    """What starts executors (`AttemptSupervisor`), as far as a trial needs it."""

    @property
    def default_dispatcher(self) -> str: ...
    async def run_unknown(self, granted: Granted, server_url: str, max_seconds: float) -> AttemptEnd: ...


async def prove(
    supervisor: RunsUnknownAttempts,
    engines: Mapping[str, str],
    *,
    is_engine_installed: bool,
    max_seconds: float = MAX_SECONDS,
) -> Trial:
    """Run the no-op job. `engines` are those that this runner announces, each with its default version."""
    if (dispatcher := supervisor.default_dispatcher) != "local":
        return _elsewhere(dispatcher, engines)
    engine = next((name for name in _CONFIGURATIONS if name in engines), None)
    if engine is None:
        return _without_engine(engines, is_engine_installed=is_engine_installed)
    what, since = _named(engine, engines[engine]), time.monotonic()
    hub = TrialHub(credential := secrets.token_urlsafe(_CREDENTIAL_BYTES))
    try:
        async with hub.listen() as url:
            ended = await supervisor.run_unknown(_grant(engine, engines[engine], credential), url, max_seconds)
        seconds = round(time.monotonic() - since, 1)
        problem = _problem(hub, ended)
    except TimeoutError:
        seconds = round(time.monotonic() - since, 1)
        problem = f"it had not ended after {max_seconds:g} s, and was killed{_last_lines(hub)}"
    except (NotStarted, OSError) as error:
        seconds, problem = round(time.monotonic() - since, 1), f"it could not be started: {error}"
    if problem:
        return Trial(
            False,
            f"{what} did not run init, plan and apply of a configuration that changes nothing: {problem}",
            seconds,
        )
    return Trial(
        True, f"{what} ran init, plan and apply of a configuration that changes nothing in {seconds:g} s", seconds
    )


def _named(engine: str, number: str) -> str:
    return f"{specs.get(engine).title if engine in specs.ENGINES else engine} {number}"


def _elsewhere(dispatcher: str, engines: Mapping[str, str]) -> Trial:
    """Executors in containers cannot reach the trial's server, so only the answer of their dispatcher is known."""
    if not engines:
        return Trial(False, f"the dispatcher {dispatcher} does not say which engines its executors have")
    found = ", ".join(_named(*each) for each in sorted(engines.items()))
    return Trial(True, f"the dispatcher {dispatcher} answers: its executors have {found}. None of them was started")


def _without_engine(engines: Mapping[str, str], *, is_engine_installed: bool) -> Trial:
    if is_engine_installed:
        return Trial(True, "this runner has no engine yet, so none was run: it installs the one that a job needs")
    if engines:
        return Trial(
            True, f"no configuration that changes nothing is known for {', '.join(sorted(engines))}, so none was run"
        )
    return Trial(False, "this runner has no engine, and does not install one on demand (engine.install)")


def _problem(hub: TrialHub, ended: AttemptEnd) -> str:
    """Say what went wrong; '' if nothing did."""
    if hub.result is None:
        how = ended.reason or f"its executor ended with the code {ended.code}"
        return f"{how}, without a result{_last_lines(hub)}"
    if hub.result.status != "SUCCEEDED":
        return f"{hub.result.message or hub.result.status}{_last_lines(hub)}"
    if ended.code != exit_codes.DELIVERED:
        return f"its executor ended with the code {ended.code} after it had succeeded"
    return ""


def _last_lines(hub: TrialHub) -> str:
    return f". Its log ends with: {hub.last_lines}" if hub.last_lines else ""


def _grant(engine: str, engine_version: str, credential: str) -> Granted:
    spec = JobSpec(
        job_id=ids.new("job"),
        attempt=1,
        number=1,
        type=JobType.APPLY,
        organization_id=ids.new("org"),
        module_id=ids.new("mod"),
        module_path="trial",
        group_path="",
        engine=engine,
        engine_version=engine_version,
        source=ArchiveSource(""),
        inputs={},
        environment={},
        backend="terracrew",
        state=StateSeed(0),
        archive=_packed(_CONFIGURATIONS[engine]),
        is_fresh=True,
    )
    state_key, module_key = secrets.token_bytes(_KEY_BYTES), secrets.token_bytes(_KEY_BYTES)
    return Granted(spec, Credentials(credential, secrets.token_urlsafe(_CREDENTIAL_BYTES), state_key, module_key))


def _packed(files: Mapping[str, str]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content := text.encode())
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
