"""The messages of the runner hub: one tagged union for each direction of each kind of client.

Text frames are the JSON of these messages. The only binary frame, a batch of events, is in `frames`. After its hello, a client
speaks the agreed version only: unknown types and unknown fields are refused. A hello comes before the agreement, so unknown
fields in it are ignored. An older client also ignores what it does not know from a newer server (`docs/protocol.md`).
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec

from terracrew.protocol.dispatcher_choice import NO_CHOICE, DispatcherChoice, OfferedDispatcher
from terracrew.protocol.spec import Credentials, JobSpec

CancelMode = Literal["after_step", "interrupt", "kill"]
JobId: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9_-]{1,64}\Z")]
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=(1 << 53) - 1)]
"""An integer that every database can store and every JSON reader can represent."""


class AttemptRef(msgspec.Struct, frozen=True, order=True):
    job_id: JobId
    attempt: Number


class _FromClient(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    pass


class _FromServer(msgspec.Struct, frozen=True, tag_field="type"):
    pass


class Greeting(msgspec.Struct, frozen=True, tag_field="type", tag="hello"):
    """The fields that a hello of every version has. Nothing else is read before a version is agreed on."""

    oldest_protocol: int
    newest_protocol: int
    version: str = "of an unknown version"


# ---- runner → server


Isolation = Literal["", "landlock", "none", "unavailable"]
"""How engines are isolated from the rest of their machine. It is empty if the runner did not report it."""


class Installation(msgspec.Struct, frozen=True):
    """How a runner was installed. A hello is sent before a version is agreed on, so values that are not known are possible."""

    kind: str = ""
    """`pip`, `pipx`, `uv`, `systemd`, `container`, `helm`, `source` or `server` (the built-in runner); empty if it is not known."""
    place: str = ""
    """The environment that it runs from, the image of its container, or the name of its Helm release."""
    detail: str = ""
    """The unit of systemd, or the namespace of the Helm release."""


class RunnerHello(_FromClient, frozen=True, tag="hello", forbid_unknown_fields=False):
    runner_id: str
    """Empty if the runner knows only its path."""
    instance: str
    instance_key: str
    """A secret in this instance's working directory. With it, a new process can take the instance over once the old connection
    no longer answers."""
    version: str
    oldest_protocol: int
    newest_protocol: int
    capacity: int
    engines: dict[str, str]
    attempts: list[AttemptRef]
    is_draining: bool = False
    is_disk_full: bool = False
    drain_reason: str = ""
    ends_at: float | None = None
    """The same as in `Heartbeat`."""
    isolation: str = ""
    """One of `Isolation`, or a value that only newer runners know: a hello is sent before a version is agreed on."""
    resume: str = ""
    """The secret from the last welcome. With it and the key, a process that reconnects replaces its old connection at once."""
    runner_path: str = ""
    """The runner's path in the organization of the credential. It is used only if `runner_id` is empty."""
    engine_versions: dict[str, list[str]] = {}
    """All versions of each engine that the runner has. An engine that is missing here has only the version in `engines`."""
    installable_engines: list[str] = []
    """The engines of which the runner installs a version that it does not have, when a job needs it."""
    dispatchers: list[OfferedDispatcher] = []
    """The dispatchers that jobs may ask for, the default one first."""
    history: list[str] = []
    """The points of the server's history that it was told last. A server whose database lacks one of them was set back."""
    machine: str = ""
    """A digest of the id of the machine, by which the server notices that an instance has moved; empty if it has no id."""
    may_leave: bool = False
    """Whether the runner asks to leave when it was idle for a while."""
    installation: Installation = Installation()
    """How it was installed, from which follows how people update it."""
    is_self_updating: bool = False
    """Whether it updates itself when the server sends `Update`."""
    knows_merge_results: bool = False
    """Whether its executors fetch the result of a merge that the server has made (`MergeResult`)."""
    is_on_trial: bool = False
    """Whether it takes no jobs yet, but proves first that it can run them, and then sends `TrialReport`."""


class WaitingStart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An attempt that has no process yet, or one whose executor may not have connected, and what the start waits for."""

    job_id: JobId
    attempt: Number
    reason: str
    running_seconds: float = 0.0
    """For how long the runner has known of a process of the attempt. Only the server knows whether the executor has connected."""


class Heartbeat(_FromClient, frozen=True, tag="heartbeat", omit_defaults=True):
    version: str
    is_draining: bool
    """Whether the runner refuses new jobs by its own decision: it is about to stop, or its disk is full."""
    attempts: list[AttemptRef]
    is_disk_full: bool = False
    """Whether its disk is full."""
    starting: list[WaitingStart] = []
    """The attempts whose start takes long."""
    drain_reason: str = ""
    """What announced the end of the runner or its machine, in a few words: `spot notice`. Empty if nothing did."""
    ends_at: float | None = None
    """When its executors end with it at the latest, in seconds since 1970; None if that is not known, or if they survive it."""


class HandBack(_FromClient, frozen=True, tag="hand_back"):
    """The runner could not start the attempt that it was granted: no process of it ever existed."""

    job_id: JobId
    attempt: Number
    reason: str
    pause_seconds: float = 0.0
    """For how long this instance should not be given the job."""
    choice: DispatcherChoice = NO_CHOICE
    """What the job asks of its dispatcher, as the grant has it."""
    choice_pause_seconds: float = 0.0
    """For how long this instance should not be given any job that asks for the same."""


class Gone(_FromClient, frozen=True, tag="gone"):
    """Every process of the attempt has exited. The server decides whether everything that it recorded has arrived."""

    job_id: JobId
    attempt: Number
    saw_process: bool
    """Whether this runner ever saw the executor's process. If not, this is a hand-back."""
    reason: str
    last: Number | None = None
    """The number of the outbox's last event, or None if the runner could not read it."""
    is_delivered: bool = False
    """Whether the runner believes that everything was delivered. The server compares `last` with its high-water mark."""


class Renew(_FromClient, frozen=True, tag="renew"):
    token: str


class Credits(_FromClient, frozen=True, tag="credits"):
    """Claims that the runner makes ahead, one for each free slot: the server may grant it this many jobs. Each message replaces the one
    before it, and 0 withdraws them. Each grant uses one."""

    slots: Number
    received: Number
    """How many grants the runner has received on this connection. Those that are on their way use some of `slots`."""


class Leave(_FromClient, frozen=True, tag="leave"):
    """Asks whether the process may end, because it had no attempt for its idle time. The answer is `LeaveAnswer`. Only a runner whose
    hello says `may_leave` sends it."""

    idle_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """For how long it has had no attempt. After a refusal it asks again, and this number is larger."""


class UpdateReport(_FromClient, frozen=True, tag="update_report"):
    """How far an update of this runner is, or how it ended. The last report of an update is repeated on every new connection, until
    the server sends no `Update` with this id any more."""

    update_id: str
    status: Literal["running", "done", "failed"]
    step: str = ""
    """What it does or where it failed: `fetch`, `verify`, `install`, `check`, `switch`, `trial`."""
    words: str = ""


class TrialReport(_FromClient, frozen=True, tag="trial_report"):
    """Whether a runner that was started on trial can run jobs. It takes jobs from then on, or ends."""

    is_passed: bool
    words: str
    """What it did to prove it, or what went wrong."""
    seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0


FromRunner = RunnerHello | Heartbeat | Credits | HandBack | Gone | Renew | Leave | UpdateReport | TrialReport


# ---- server → runner


class RunnerWelcome(_FromServer, frozen=True, tag="welcome"):
    instance_id: str
    epoch: int
    protocol: int
    heartbeat_seconds: float
    unknown: list[AttemptRef]
    """The attempts in the hello that this server does not know as current attempts of the runner."""
    is_draining: bool = False
    log_level: dict[str, str] = {}
    """The same as in `ConfigureRunner`."""
    resume: str = ""
    """A secret for the next hello of this process, which keeps it only in memory."""
    runner_id: str = ""
    """The runner's id, for the next hello of a process that knows only its path: a runner that moves keeps its id."""
    history: str = ""
    """The newest point of the server's history, to be remembered on disk."""


class Granted(_FromServer, frozen=True, tag="granted"):
    spec: JobSpec
    credentials: Credentials


class CancelAttempt(_FromServer, frozen=True, tag="cancel"):
    """Asks an executor to stop in this way. A runner gets it only if the executor cannot be reached."""

    job_id: str
    attempt: int
    mode: CancelMode


class ConfigureRunner(_FromServer, frozen=True, tag="configure"):
    """The whole configuration; each message replaces the last one."""

    heartbeat_seconds: float
    log_level: dict[str, str] = {}
    """Category → level. It overrides the runner's own settings; if it is empty, those apply."""


class HistoryPoint(_FromServer, frozen=True, tag="history"):
    """A point of the server's history, which the runner remembers on its disk and names in its next hello."""

    point: str


class Drain(_FromServer, frozen=True, tag="drain"):
    on: bool


class LeaveAnswer(_FromServer, frozen=True, tag="leave_answer"):
    """If it is granted, this connection is given no job any more, and the process ends. It counts only for the connection on which
    it was asked: a process that connects again takes jobs again."""

    is_granted: bool
    reason: str = ""
    """Why it is refused."""


class ArtifactRef(msgspec.Struct, frozen=True):
    """A file of a release, which a runner fetches from its server."""

    name: str
    size_bytes: int
    sha256: str
    signature: str
    """In the format of minisign. The runner checks it with the key that its own settings have."""


class Update(_FromServer, frozen=True, tag="update"):
    """Asks a runner to update itself. It is sent again on every new connection until its end was reported."""

    update_id: str
    version: str
    artifacts: list[ArtifactRef]


class Retire(_FromServer, frozen=True, tag="retire"):
    """Asks a runner to take no more jobs and to end after its last one, because a newer one has taken its place."""

    reason: str


class Settled(_FromServer, frozen=True, tag="settled"):
    """The server has processed a hand-back or a `Gone`; the runner may remove the attempt's directory."""

    job_id: str
    attempt: int


class Refused(_FromServer, frozen=True, tag="refused"):
    """The request was refused. `code` is a code of `errors`. If `is_final`, a repetition would be refused as well."""

    code: str
    message: str
    is_final: bool = False


FromServerToRunner = (
    RunnerWelcome
    | Granted
    | CancelAttempt
    | ConfigureRunner
    | HistoryPoint
    | Drain
    | LeaveAnswer
    | Update
    | Retire
    | Settled
    | Refused
)


# ---- executor → server (beside the binary frame of events)


class ExecutorHello(_FromClient, frozen=True, tag="hello", forbid_unknown_fields=False):
    job_id: JobId
    attempt: Number
    version: str
    oldest_protocol: int
    newest_protocol: int
    has_begun: bool = False
    """Whether it has had permission to apply. A server whose database was set back may not know of it."""
    history: list[str] = []
    """The points of the server's history that it was told with that permission and with its result."""


class Begin(_FromClient, frozen=True, tag="begin"):
    """Asks for permission to apply. It names the state version of the plan and, for a saved plan, the attempt that made it."""

    state_version: Number
    plan_attempt: Number | None = None
    plan_sha256: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{0,64}\Z")] = ""
    """The hash of the plan that is going to be applied, which is the one that was described."""


FromExecutor = ExecutorHello | Begin


# ---- server → executor


class LogSettings(msgspec.Struct, frozen=True):
    """How an executor sends its log. None keeps the executor's own setting."""

    is_watched: bool = False
    batch_size_limit: int | None = None
    period_seconds: float | None = None


class ExecutorWelcome(_FromServer, frozen=True, tag="welcome"):
    mark: int
    """The number of the last event that is stored; the executor resumes after it."""
    protocol: int
    is_superseded: bool = False
    """The attempt is no longer current. It delivers what it has and starts nothing more."""
    has_result: bool = False
    """The attempt's result has arrived, so nothing more is accepted."""
    log_settings: LogSettings = LogSettings()


class Ack(_FromServer, frozen=True, tag="ack", omit_defaults=True):
    mark: int
    history: str = ""
    """The point of the server's history with which the result of a change was stored; empty for everything else."""


class Begun(_FromServer, frozen=True, tag="begun"):
    state_version: int
    history: str = ""
    """The point of the server's history with which the permission was stored, to be remembered on disk before it is used."""


class BeginRefused(_FromServer, frozen=True, tag="begin_refused"):
    """The apply may not begin. `approval`: the plan is saved and the attempt ends. `wait`: ask again in a moment. `leaving`: the
    runner ends too soon, and the job is queued again."""

    code: Literal[
        "state_moved", "quarantine", "held", "superseded", "canceled", "approval", "wait", "plan_changed", "leaving"
    ]
    message: str


class ConfigureExecutor(_FromServer, frozen=True, tag="configure"):
    log_settings: LogSettings


class SupersededNotice(_FromServer, frozen=True, tag="superseded"):
    reason: str


FromServerToExecutor = (
    ExecutorWelcome | Ack | Begun | BeginRefused | ConfigureExecutor | CancelAttempt | SupersededNotice | Refused
)

RECEIPT_HEADER = "Terracrew-Receipt"
"""The header in which an executor shows the receipt of its claim, after the server has not known its credential."""
MAX_TEXT_FRAME_BYTES = 1 << 20
"""The largest text frame that a server accepts from a client."""
MAX_GRANT_FRAME_BYTES = 8 << 20
"""The largest frame that a client accepts from a server: a grant may carry a state and an archive."""
MAX_INLINE_ARCHIVE_BYTES = 1 << 20


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
# These return None for a message of an unknown type.
decode_to_runner: Callable[[str | bytes], FromServerToRunner | None] = _unless_unknown(FromServerToRunner)
decode_to_executor: Callable[[str | bytes], FromServerToExecutor | None] = _unless_unknown(FromServerToExecutor)
