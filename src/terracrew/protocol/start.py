"""What a dispatcher gives to an executor that it starts, directly or by a ticket for which the server keeps it."""

import secrets
from typing import Annotated, Literal

import msgspec

from terracrew.protocol.dispatcher_choice import NO_CHOICE, DispatcherChoice
from terracrew.protocol.messages import Granted
from terracrew.protocol.spec import ApprovedHooks

INTERRUPT_SECONDS = (60.0, 20.0)
"""How long an engine may run after it was interrupted, and after it was interrupted again, before it is killed."""

RETRY_SECONDS = 10.0
"""How long a step that failed waits before it is tried again for the first time; then twice as long each time."""


MAX_START_BYTES = 4 << 20
TICKET_HEADER = "X-Ticket-SHA256"
FETCH_PATH = "/runnerhub/starts"
_TICKET_BYTES = 32


class LogStreamSettings(msgspec.Struct, frozen=True):
    batch_size_limit: int = 50
    period_seconds: float = 5.0
    eagerly_emit_first_event: bool = True


class EngineAccount(msgspec.Struct, frozen=True):
    """The user and the only group that the engine of an attempt runs as."""

    uid: int
    gid: int


class IsolationSettings(msgspec.Struct, frozen=True):
    """How an engine is kept from the rest of the machine, see `executor/isolation/rules.py`."""

    mode: Literal["landlock", "none"] = "landlock"
    read_paths: list[str] = []
    """Files and directories that modules may read and execute, besides those of the system."""
    write_paths: list[str] = []
    """Files and directories that modules may also change."""
    private_paths: list[str] = []
    """Files and directories that stay hidden although they are in a directory that engines may read by default."""
    has_view: bool = False
    """Whether each engine has a mount namespace, in which private directories are covered (`executor/isolation/mounts.py`)."""


class WarmSettings(msgspec.Struct, frozen=True):
    """Where executors keep what `init` made for later attempts of the same module, and how much of it (ADR 0060)."""

    directory: str
    """Engines can neither read nor write it."""
    secret: bytes
    """Signs what is kept. Only the memory of the runner and of its executors has it, so no other process can forge an entry."""
    max_bytes: int
    """How much all entries together may take."""
    max_age_seconds: float
    """After this time an entry is not used any more."""

    def __repr__(self) -> str:
        return f"WarmSettings({self.directory!r})"


class ExecutorStart(msgspec.Struct, frozen=True):
    """Everything that an executor is started with. It is passed in a pipe or a file, never as arguments or in the environment."""

    server_url: str
    directory: str
    """The attempt's own directory, which exists and has mode 0700."""
    cache_directory: str
    """The cache that all attempts of this runner share: archives by hash, and provider plug-ins."""
    workspaces: str
    """The directory of this runner's workspaces. A saved plan can be resumed by an instance with the same path."""
    engine_directory: str
    """The directory in which this attempt's engine and its executor exchange files; the engine may read all of it. The
    executor makes it, see `attempt/engine_directory.py`, and the runner removes it."""
    environment: dict[str, str]
    """The engine's base environment, from which Terracrew's own variables were already removed."""
    granted: Granted | None = None
    engine_paths: list[str] = []
    is_engine_installed: bool = False
    """Whether the executor installs the version of the engine that its job needs, if this machine does not have it."""
    source_roots: list[str] = []
    log_stream: LogStreamSettings = LogStreamSettings()
    isolation: IsolationSettings = IsolationSettings()
    approved_hooks: ApprovedHooks | None = None
    """The only hooks that may run; None if the operator of the runner does not restrict them."""
    discovery_host: str = ""
    """The host under which modules name the server, if it is not that of `server_url`."""
    interrupt_seconds: tuple[float, float] = INTERRUPT_SECONDS
    retry_seconds: float = RETRY_SECONDS
    waits_for_server: bool = False
    """Whether a state counts as saved only when the server has it, because the attempt's directory may be lost with the executor."""
    engine_account: EngineAccount | None = None
    """The user that engines run as; None if it is that of the executor, or if the dispatcher chooses it."""
    notes: list[str] = []
    """Lines for the beginning of the job's log: what the dispatcher did before it could start the executor."""
    choice: DispatcherChoice = NO_CHOICE
    """What the job asks of its dispatcher, if the allow-list of the runner has it. A salvage asks for nothing."""
    slots: int = 1
    """How many attempts may run at once where this one runs, and share its memory."""
    warm: WarmSettings | None = None
    """Where what `init` made is kept; None if the operator has turned that off, or if no disk outlives the executor."""
    is_salvage: bool = False
    """Whether the attempt's first executor is dead. The new one only delivers what the directory holds; `granted` is None."""


class StartWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The request of a task for its start."""

    ticket: Annotated[str, msgspec.Meta(max_length=100)]
    claim: Annotated[str, msgspec.Meta(min_length=32, max_length=100)]
    """A random text of the process that asks. The first claim that comes with a ticket is the only one that is answered."""

    def __repr__(self) -> str:
        return "StartWanted(…)"


class StartRevoked(msgspec.Struct, frozen=True):
    """The answer to the end of a ticket. Nobody can fetch the start any more."""

    was_fetched: bool
    """Whether a process has fetched it before. If not, no process of this attempt has begun, and none can."""


def new_ticket() -> str:
    return f"tct_{secrets.token_urlsafe(_TICKET_BYTES)}"


def new_claim() -> str:
    return secrets.token_urlsafe(_TICKET_BYTES)
