"""The messages of the runner hub: one tagged union for each direction of each kind of client.

Text frames are JSON of these. The one binary frame, a batch of events, is in `frames`. After its hello, a client speaks the
agreed version and nothing else: unknown types and unknown fields are refused. A hello comes before the agreement, so what is
unknown in it is passed over; and so is what an older client does not know of a newer server (`docs/protocol.md`).
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec

from terracrew.protocol.spec import Credentials, JobSpec

CancelMode = Literal["after_step", "interrupt", "kill"]
JobId: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9_-]{1,64}\Z")]
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=(1 << 53) - 1)]
"""What every database and every reader of JSON can hold."""


class AttemptRef(msgspec.Struct, frozen=True, order=True):
    job_id: JobId
    attempt: Number


class _FromClient(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    pass


class _FromServer(msgspec.Struct, frozen=True, tag_field="type"):
    pass


class Greeting(msgspec.Struct, frozen=True, tag_field="type", tag="hello"):
    """What every hello of every version has, and all that is read of it before a version is agreed on."""

    oldest_protocol: int
    newest_protocol: int
    version: str = "of an unknown version"


# ---- runner → server


Isolation = Literal["", "landlock", "none", "unavailable"]
"""What keeps engines from the rest of their machine. Empty: the runner did not say."""


class RunnerHello(_FromClient, frozen=True, tag="hello", forbid_unknown_fields=False):
    runner_id: str
    instance: str
    instance_key: str
    """A secret of this instance's working directory: with it a returning process takes its old place, once nothing answers
    there any more."""
    version: str
    oldest_protocol: int
    newest_protocol: int
    capacity: int
    engines: dict[str, str]
    attempts: list[AttemptRef]
    is_draining: bool = False
    is_disk_full: bool = False
    isolation: Isolation = ""
    resume: str = ""
    """From the last welcome that this process was given: with it and the key, it takes its old place at once."""


class Heartbeat(_FromClient, frozen=True, tag="heartbeat", omit_defaults=True):
    version: str
    is_draining: bool
    """Whether the runner itself takes no new jobs: it is about to stop, or its disk is full."""
    attempts: list[AttemptRef]
    is_disk_full: bool = False
    """Whether that is because its disk is full."""


class Claim(_FromClient, frozen=True, tag="claim"):
    job_id: JobId
    attempt: Number


class HandBack(_FromClient, frozen=True, tag="hand_back"):
    """The runner could not start what it was granted: no process of it ever existed."""

    job_id: JobId
    attempt: Number
    reason: str


class Gone(_FromClient, frozen=True, tag="gone"):
    """Every process of the attempt has exited. Whether all that it recorded has arrived is for the server to judge."""

    job_id: JobId
    attempt: Number
    saw_process: bool
    """Whether this runner ever saw the executor's process: without it, this is a hand-back."""
    reason: str
    last: Number | None = None
    """The number of the outbox's last event; None where the runner could not read it."""
    is_delivered: bool = False
    """Whether the runner believes that everything was delivered. The server compares `last` with its high-water mark."""


class Renew(_FromClient, frozen=True, tag="renew"):
    token: str


FromRunner = RunnerHello | Heartbeat | Claim | HandBack | Gone | Renew


# ---- server → runner


class RunnerWelcome(_FromServer, frozen=True, tag="welcome"):
    instance_id: str
    epoch: int
    protocol: int
    heartbeat_seconds: float
    unknown: list[AttemptRef]
    """Of the attempts in the hello, those that this server does not know as the runner's current ones."""
    is_draining: bool = False
    log_level: dict[str, str] = {}
    """As in `configure`."""
    resume: str = ""
    """A secret for the next hello of this process, which keeps it in memory alone."""


class Offer(_FromServer, frozen=True, tag="offer"):
    job_id: str
    attempt: int


class Granted(_FromServer, frozen=True, tag="granted"):
    spec: JobSpec
    credentials: Credentials


class Missed(_FromServer, frozen=True, tag="missed"):
    job_id: str
    attempt: int
    reason: str


class CancelAttempt(_FromServer, frozen=True, tag="cancel"):
    """To a runner: only where the executor cannot be reached. To an executor: stop, in this way."""

    job_id: str
    attempt: int
    mode: CancelMode


class ConfigureRunner(_FromServer, frozen=True, tag="configure"):
    """All that is configured, each time."""

    heartbeat_seconds: float
    log_level: dict[str, str] = {}
    """Category → level, above the runner's own settings; empty: those alone."""


class Drain(_FromServer, frozen=True, tag="drain"):
    on: bool


class Settled(_FromServer, frozen=True, tag="settled"):
    """The server has stored a `hand_back` or a `gone`. The runner may remove the attempt's directory."""

    job_id: str
    attempt: int


class Refused(_FromServer, frozen=True, tag="refused"):
    """What was asked is not done. `code` is that of `errors`; where `is_final`, it is no use to ask again."""

    code: str
    message: str
    is_final: bool = False


FromServerToRunner = (
    RunnerWelcome | Offer | Granted | Missed | CancelAttempt | ConfigureRunner | Drain | Settled | Refused
)


# ---- executor → server (beside the binary frame of events)


class ExecutorHello(_FromClient, frozen=True, tag="hello", forbid_unknown_fields=False):
    job_id: JobId
    attempt: Number
    version: str
    oldest_protocol: int
    newest_protocol: int


class Begin(_FromClient, frozen=True, tag="begin"):
    """Ask for leave to mutate, naming the state version that the plan was made from and, of a kept one, who made it."""

    state_version: Number
    plan_attempt: Number | None = None


FromExecutor = ExecutorHello | Begin


# ---- server → executor


class LogCadence(msgspec.Struct, frozen=True):
    """None leaves the executor's own batching settings in force."""

    is_watched: bool = False
    batch_size_limit: int | None = None
    period_seconds: float | None = None


class ExecutorWelcome(_FromServer, frozen=True, tag="welcome"):
    mark: int
    """The number of the last event that is stored; the executor resumes after it."""
    protocol: int
    is_superseded: bool = False
    """The attempt is no longer current: deliver what there is, start nothing more."""
    has_result: bool = False
    """Its result has arrived, and nothing is accepted after that."""
    cadence: LogCadence = LogCadence()


class Ack(_FromServer, frozen=True, tag="ack"):
    mark: int


class Begun(_FromServer, frozen=True, tag="begun"):
    state_version: int


class BeginRefused(_FromServer, frozen=True, tag="begin_refused"):
    """`approval`: a person has to look at this plan, so it is kept and the attempt ends. `wait`: ask again in a moment."""

    code: Literal["state_moved", "quarantine", "superseded", "canceled", "approval", "wait"]
    message: str


class ConfigureExecutor(_FromServer, frozen=True, tag="configure"):
    cadence: LogCadence


class Superseded(_FromServer, frozen=True, tag="superseded"):
    reason: str


FromServerToExecutor = (
    ExecutorWelcome | Ack | Begun | BeginRefused | ConfigureExecutor | CancelAttempt | Superseded | Refused
)

MAX_TEXT_FRAME = 1 << 20
"""What a server takes from a client in one text frame."""
MAX_GRANT_FRAME = 8 << 20
"""What a client takes from a server: a grant may carry a state and an archive."""
INLINE_ARCHIVE = 1 << 20


class _Typed(msgspec.Struct, frozen=True):
    type: str


def _unless_unknown(union: Any) -> Callable[[str | bytes], Any]:
    decode = msgspec.json.Decoder(union).decode
    known = {kind.__struct_config__.tag for kind in get_args(union)}

    def decoded(frame: str | bytes) -> Any:
        try:
            return decode(frame)
        except msgspec.ValidationError:
            if msgspec.json.decode(frame, type=_Typed).type in known:
                raise
            return None

    return decoded


encode = msgspec.json.Encoder().encode
decode_greeting = msgspec.json.Decoder(Greeting).decode
decode_from_runner = msgspec.json.Decoder(FromRunner).decode
decode_from_executor = msgspec.json.Decoder(FromExecutor).decode
# None: a message of a type that is not known here.
decode_to_runner: Callable[[str | bytes], FromServerToRunner | None] = _unless_unknown(FromServerToRunner)
decode_to_executor: Callable[[str | bytes], FromServerToExecutor | None] = _unless_unknown(FromServerToExecutor)
