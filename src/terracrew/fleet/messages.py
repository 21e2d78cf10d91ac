"""What the server and its fleet process say to each other: JSON with its length before it, over a pair of sockets.

The process is a child of the server and has the same version, so a message that one of them does not understand is a fault.
"""

import asyncio
from typing import Literal

import msgspec

from terracrew.api.cloud_identities import FoundResource
from terracrew.clouds.model import CloudIdentity, Deployment, InstanceState, StartAnswer, StartRequest
from terracrew.errors import Invalid

MAX_MESSAGE_BYTES = 16 << 20
_LENGTH_BYTES = 4


class CheckWork(msgspec.Struct, frozen=True, tag="check", forbid_unknown_fields=True):
    """Test a connection; with a deployment, also what that one would need."""

    deployment: Deployment | None = None


class DeployWork(msgspec.Struct, frozen=True, tag="deploy", forbid_unknown_fields=True):
    deployment: Deployment
    worker_token: str = ""

    def __repr__(self) -> str:
        return f"DeployWork({self.deployment.runner_path})"  # the token must not get into a log


class DestroyWork(msgspec.Struct, frozen=True, tag="destroy", forbid_unknown_fields=True):
    deployment: Deployment


FleetWork = CheckWork | DeployWork | DestroyWork


class StartCall(msgspec.Struct, frozen=True, tag="start", forbid_unknown_fields=True):
    deployment: Deployment
    wanted: list[StartRequest]


class WatchCall(msgspec.Struct, frozen=True, tag="watch", forbid_unknown_fields=True):
    deployment: Deployment
    references: list[str]


class StopCall(msgspec.Struct, frozen=True, tag="stop", forbid_unknown_fields=True):
    deployment: Deployment
    reference: str
    reason: str


class FoundCall(msgspec.Struct, frozen=True, tag="found", forbid_unknown_fields=True):
    pass


FleetCall = StartCall | WatchCall | StopCall | FoundCall


# ---- from the server


class RunJob(msgspec.Struct, frozen=True, tag="run_job", forbid_unknown_fields=True):
    """Do the work of an attempt of a job."""

    job_id: str
    attempt: int
    identity: CloudIdentity
    work: FleetWork


class CancelJob(msgspec.Struct, frozen=True, tag="cancel_job", forbid_unknown_fields=True):
    """A person has canceled the job: unwind, and end it."""

    job_id: str
    attempt: int


class AbortJob(msgspec.Struct, frozen=True, tag="abort_job", forbid_unknown_fields=True):
    """The server has lost the job to another one: stop, and undo nothing."""

    job_id: str
    attempt: int


class KeepRunning(msgspec.Struct, frozen=True, tag="keep_running", forbid_unknown_fields=True):
    """The server has renewed the leases of its jobs."""


class Ping(msgspec.Struct, frozen=True, tag="ping", forbid_unknown_fields=True):
    """Asks whether the process hangs. It answers with Pong at once, whatever it does."""


class CallCloud(msgspec.Struct, frozen=True, tag="call_cloud", forbid_unknown_fields=True):
    id: int
    identity: CloudIdentity
    call: FleetCall


class TokenAnswer(msgspec.Struct, frozen=True, tag="signed_token", forbid_unknown_fields=True):
    """The answer to TokenWanted: a token, or why there is none."""

    id: int
    token: str = ""
    problem: str = ""
    is_transient: bool = False

    def __repr__(self) -> str:
        return f"TokenAnswer({self.id})"


ServerMessage = RunJob | CancelJob | AbortJob | KeepRunning | Ping | CallCloud | TokenAnswer


# ---- from the process


class StepBegun(msgspec.Struct, frozen=True, tag="step_begun", forbid_unknown_fields=True):
    job_id: str
    attempt: int
    step: str
    words: str


class StepDone(msgspec.Struct, frozen=True, tag="step_done", forbid_unknown_fields=True):
    job_id: str
    attempt: int
    step: str
    reference: str
    words: str


class StepFailed(msgspec.Struct, frozen=True, tag="step_failed", forbid_unknown_fields=True):
    job_id: str
    attempt: int
    step: str
    words: str
    remedy: str


class LinePrinted(msgspec.Struct, frozen=True, tag="line_printed", forbid_unknown_fields=True):
    job_id: str
    attempt: int
    text: str


WorkEvent = StepBegun | StepDone | StepFailed | LinePrinted


class WorkEnded(msgspec.Struct, frozen=True, tag="work_ended", forbid_unknown_fields=True):
    """Nothing of the attempt runs any more."""

    job_id: str
    attempt: int
    outcome: Literal["succeeded", "failed", "canceled"]
    error: str = ""
    facts: dict[str, str] = {}


class CloudAnswered(msgspec.Struct, frozen=True, tag="cloud_answered", forbid_unknown_fields=True):
    """The answer to CallCloud: of one kind, or an error."""

    id: int
    started: list[StartAnswer] = []
    states: list[InstanceState] = []
    found: list[FoundResource] = []
    problem: str = ""
    code: str = ""


class TokenWanted(msgspec.Struct, frozen=True, tag="token_wanted", forbid_unknown_fields=True):
    id: int
    identity_id: str
    is_probe: bool = False


class Pong(msgspec.Struct, frozen=True, tag="pong", forbid_unknown_fields=True):
    """The answer to Ping."""


ProcessMessage = Pong | StepBegun | StepDone | StepFailed | LinePrinted | WorkEnded | CloudAnswered | TokenWanted

_encoder = msgspec.json.Encoder()
of_server = msgspec.json.Decoder(ServerMessage)
of_process = msgspec.json.Decoder(ProcessMessage)


def encoded(message: ServerMessage | ProcessMessage) -> bytes:
    body = _encoder.encode(message)
    if len(body) > MAX_MESSAGE_BYTES:
        raise Invalid(f"a message of {len(body):,} bytes to or from the fleet process is too large")
    return len(body).to_bytes(_LENGTH_BYTES) + body


async def receive(reader: asyncio.StreamReader) -> bytes | None:
    """Return the next message, or None at the end. Raises Invalid for one that is too large."""
    try:
        length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES))
        if length > MAX_MESSAGE_BYTES:
            raise Invalid(f"a message of {length:,} bytes to or from the fleet process is too large")
        return await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
