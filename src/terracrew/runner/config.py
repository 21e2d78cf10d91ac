"""The checked settings of a runner process, as a struct that needs no settings library to be read."""

from typing import Literal

import msgspec

from terracrew.protocol.dispatcher_choice import AllowedChoices
from terracrew.protocol.messages import Installation
from terracrew.protocol.start import EngineAccount, IsolationSettings, LogStreamSettings

NoticeSource = Literal["auto", "ec2", "none"]


class HelperCommand(msgspec.Struct, frozen=True):
    """A credential helper: the program, its arguments, and how long it may take."""

    path: str
    arguments: list[str] = []
    timeout_seconds: float = 30.0


class NamedDispatcher(msgspec.Struct, frozen=True):
    """A dispatcher besides the default one, for jobs that ask for it."""

    name: str
    type: str
    data: dict[str, str] = {}
    """Its settings, which only it understands."""
    allows: AllowedChoices = AllowedChoices()
    executor_server_url: str = ""
    """The server's address as its executors see it; empty if it is that of the default dispatcher."""

    def __repr__(self) -> str:
        return f"NamedDispatcher({self.name!r}, {self.type!r})"


class RunnerConfig(msgspec.Struct, frozen=True):
    server_url: str
    runner_id: str
    """The id of the runner's record. It is empty if the settings name the runner by its path."""
    instance: str
    client_id: str
    """The client id for the token endpoint: `<organization>:<client>` or `<organization>:<worker>`."""
    client_secret: str
    working_directory: str
    temp_directory: str
    runner_path: str = ""
    helper: HelperCommand | None = None
    """The program that prints a token to exchange, instead of a secret."""
    rotates_worker_token: bool = False
    capacity: int = 4
    cgroup: str = "auto"
    """The cgroup below which each attempt gets its own: a directory, `auto` for the cgroup of the runner, or `off`."""
    engine_paths: list[str] = []
    is_engine_installed: bool = False
    """Whether a version of an engine that a job needs, and that this machine does not have, is installed before the job runs."""
    source_roots: list[str] = []
    warm_bytes: int = 1 << 30
    """How much of what `init` made is kept for later jobs (ADR 0060); 0 keeps nothing."""
    warm_seconds: float = 7 * 86400.0
    """How long it is kept."""
    approved_hooks_directory: str | None = None
    """Where the only hooks that may run are. Empty means that no hook may run; None, that every hook may."""
    isolation: IsolationSettings = IsolationSettings()
    engine_accounts: list[EngineAccount] = []
    """The users that engines run as, each of one attempt at a time; none if engines run as the runner's own user."""
    claims_engine_users: bool = False
    """Whether the runner finds such users itself, if it is root."""
    log_stream: LogStreamSettings = LogStreamSettings()
    log_level: dict[str, str] = {}
    is_built_in: bool = False
    """Whether this runner is part of the server's process. Its engines then get only allowed environment variables."""
    environment_patterns: list[str] = []
    """The names of further variables that engines of a built-in runner get; `AWS_*` stands for all that begin like this."""
    stop_seconds: float | None = None
    """How long the runner and its executors live after a signal; None if they may take as long as their jobs do."""
    idle_seconds: float = 0.0
    """After this long without a job, the runner asks the server whether it may end; 0: it stays."""
    max_lifetime_seconds: float = 0.0
    """After this long the runner takes no further jobs and ends after the last one; 0: it has no such end."""
    notices: NoticeSource = "auto"
    """What announces the end of the machine."""
    is_on_trial: bool = False
    """Whether the runner proves that it can run jobs before it takes one (`runner/trial.py`)."""
    is_for_one_job: bool = False
    """Whether the runner ends after one job."""
    dispatcher: str = "local"
    dispatcher_data: dict[str, str] = {}
    """Settings of the dispatcher, which only it understands."""
    dispatcher_allows: AllowedChoices = AllowedChoices()
    """What jobs may ask the default dispatcher for."""
    named_dispatchers: list[NamedDispatcher] = []
    """Further dispatchers, for jobs that ask for one of them."""
    discovery_host: str = ""
    """The host under which modules name the server; empty if it is that of its address."""
    executor_server_url: str = ""
    """The server's address as executors see it; empty if it is the same."""
    secret_variables: list[str] = []
    """Variables that settings were read from. Engines do not get them."""
    reread_seconds: float | None = None
    """After how long the settings must be read again, so that the token for a vault does not expire; None: only if asked."""
    updates_itself: bool = False
    """Whether it updates itself when the server asks it to. It does not, whatever this says, where it cannot (`updating`)."""
    release_key: str = ""
    """The public key, in the format of minisign, by which releases are signed that this runner installs."""
    installation: Installation = Installation()
    executor_entry: str = "terracrew.executor.main:run"

    def __repr__(self) -> str:
        return f"RunnerConfig({self.runner_id or self.runner_path!r}, instance={self.instance!r})"

    @property
    def url_for_executors(self) -> str:
        return self.executor_server_url or self.server_url
