"""The settings of a runner: their names, defaults and rules. `layers` reads and merges them."""

from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import ConfigDict, Field, SecretStr

from terracrew import ids
from terracrew.client import address
from terracrew.errors import Invalid
from terracrew.protocol import dispatcher_choice, limits
from terracrew.protocol.start import IsolationSettings, LogStreamSettings
from terracrew.runner import engine_users
from terracrew.runner.config import HelperCommand, NoticeSource, RunnerConfig
from terracrew.settings import dispatchers
from terracrew.settings.dispatchers import DispatcherKey, FurtherDispatcher, JobDispatcher
from terracrew.settings.external.section import External
from terracrew.settings.values import (
    SHOWN,
    Arguments,
    Cgroup,
    Directories,
    Directory,
    InstanceName,
    LogLevel,
    SettingsSection,
    Text,
    TreePath,
    VariableNames,
    checked,
)

SCHEMA_ID = "urn:terracrew:settings:runner"
SHARED = "shared"
"""Stands for the organization of a shared runner, which belongs to none."""


def _organization(text: str) -> str:
    return text if text == SHARED else ids.parse("org", text)


def _release_key(text: str) -> str:
    from terracrew.releases import (
        minisign,  # it loads a large library, which most runners need later, and commands not at all
    )

    return str(minisign.PublicKey.parse(text))


def _engine_user(text: str) -> str:
    try:
        engine_users.parse(text)
    except ValueError as error:
        raise Invalid(str(error)) from None
    return text


class ServerSection(SettingsSection):
    url: Annotated[str, checked(address.checked), SHOWN, VariableNames(("TERRACREW_API_URL", "TERRACREW_URL"))] = Field(
        description="The server's address."
    )
    allow_plain_http: bool = Field(default=False, description="Allow http:// to a server that is not on this machine.")
    discovery_host: (
        Annotated[str, checked(address.checked_host), SHOWN, VariableNames(("TERRACREW_SERVICE_DISCOVERY_HOST",))]
        | None
    ) = Field(
        default=None,
        description="The host, with a port if it is not 443, under which modules name the server, if that is not the host of "
        "`url`. Jobs then have their token for both (`TF_TOKEN_<host>`), and the `cloud` block of a source may name either.",
    )


class HelperSection(SettingsSection):
    """A program that prints `{"token": "…"}`: a token of an issuer that the service account trusts."""

    command: Annotated[Directory, VariableNames(("TERRACREW_CREDENTIAL_HELPER_CMD_PATH",))] = Field(
        description="The path of the program; it runs without a shell."
    )
    args: Annotated[Arguments, VariableNames(("TERRACREW_CREDENTIAL_HELPER_CMD_ARGS",))] = Field(
        default=[], description="Its arguments, separated by spaces."
    )
    timeout_seconds: float = Field(
        default=30.0, gt=0, le=300, description="After how many seconds it is killed and tried again."
    )


class CredentialsSection(SettingsSection):
    """A service account (`client_id`, or `service_account_path`, with `client_secret` or a `helper`), or what `terracrew runner register`
    printed (`worker_id` and `worker_token`)."""

    client_id: Text | None = Field(
        default=None,
        min_length=1,
        description="The id of the service account, with its organization (`org_…:sac_…`, as `terracrew service-account add-secret` "
        "prints it) or without it (`sac_…`): the runner then puts the organization's id before it by itself.",
    )
    service_account_path: Annotated[TreePath | None, VariableNames(("TERRACREW_SERVICE_ACCOUNT_PATH",))] = Field(
        default=None,
        description="The path of the service account (its group's path and its name), instead of `client_id`.",
    )
    client_secret: SecretStr | None = Field(default=None, min_length=1, description="A secret of the service account.")
    worker_id: Text | None = Field(
        default=None, min_length=1, description="The worker id that `terracrew runner register` printed."
    )
    worker_token: SecretStr | None = Field(
        default=None, min_length=1, description="The worker token that belongs to it."
    )
    helper: HelperSection | None = Field(default=None, description="A credential helper, instead of a secret.")

    def helper_command(self) -> HelperCommand | None:
        found = self.helper
        return HelperCommand(found.command, found.args, found.timeout_seconds) if found else None

    def pair(self) -> tuple[str, str]:
        """Return the name and the secret for the token endpoint. `combinations` has checked that there is one of each."""
        name = self.client_id or self.service_account_path or self.worker_id or ""
        secret = self.worker_token if self.worker_id is not None else self.client_secret
        return name, secret.get_secret_value() if secret else ""


class RunnerSection(SettingsSection):
    id: Annotated[str, checked(lambda text: ids.parse("rnr", text)), SHOWN] | None = Field(
        default=None, description="The id of the runner's record (`rnr_…`)."
    )
    path: Annotated[TreePath | None, VariableNames(("TERRACREW_RUNNER_PATH",))] = Field(
        default=None,
        description="The path of the runner's record (its group's path and its name), instead of `id`.",
    )
    instance: InstanceName | None = Field(
        default=None,
        description="This process's name among the instances of its runner. Modules can be pinned to it, and its history is "
        "kept under it, so it must stay the same when the process starts again. By default the name at the end of `path`.",
    )
    organization_id: Annotated[str, checked(_organization), SHOWN] | None = Field(
        default=None,
        description="The id of the organization that the credentials belong to (`org_…`), or `shared` for a runner that the "
        "server's configuration declares. It is needed for a service account that is named by its path and has no secret, if the "
        "server has several organizations.",
    )
    credentials: CredentialsSection
    capacity: int = Field(
        default=4,
        ge=1,
        le=limits.MAX_CAPACITY,
        description="How many jobs this instance runs at once. The `max_jobs` of its runner can only lower this number.",
    )
    stop_seconds: float | None = Field(
        default=None,
        ge=1,
        le=86_400,
        description="How many seconds the runner and its jobs have after SIGTERM or SIGINT, for a place that ends all of its "
        "processes then, such as a container. It takes no new jobs, and jobs that do not end in time are interrupted early enough that "
        "the engine saves its state and everything is delivered; then the server decides as for every lost attempt. By default the "
        "runner waits for its jobs however long they take. Set it a little lower than the time that the place gives: 110 for "
        "Fargate with `stopTimeout` 120.",
    )
    idle_seconds: float = Field(
        default=0,
        ge=0,
        le=86_400,
        description="After how many seconds without a job the runner asks the server whether it may end. The server agrees only if it "
        "gives it no job any more, and the process exits with the code 0; otherwise the runner stays, and asks again after the same "
        "time. For runners that something else starts when they are needed, such as cloud-hosted ones. 0: it never asks.",
    )
    max_lifetime_seconds: float = Field(
        default=0,
        ge=0,
        le=31_536_000,
        description="After how many seconds the runner takes no further jobs, and exits after its last one. 0: never.",
    )
    notices: NoticeSource = Field(
        default="auto",
        description="What announces that the machine goes away, so that the runner takes no new jobs and interrupts those that do "
        "not end in time: `ec2` for the instance metadata of EC2 (spot and rebalance notices, scheduled events, termination by an "
        "Auto Scaling group), which is asked every 5 s; `auto`: the same, if the machine is an instance of EC2; `none`.",
    )
    on_trial: bool = Field(
        default=False,
        description="Take no job before a no-op job has passed: the default engine runs `init`, `plan` and `apply` on a configuration "
        "that changes nothing, isolated as in every job. The server is told how it ended; if it failed, the process logs the reason and "
        "exits with the code 1. For a new version that must prove itself, such as the first instance of a deployment.",
    )
    self_update: bool = Field(
        default=False,
        description="Whether the runner updates itself when somebody updates it on the server (docs/updating-runners.md). It fetches "
        "the release from the server, and installs it only if it was signed with `release_key`. Jobs that run go on. A runner in a "
        "container, one for one job (`--once`) and one that runs from sources never update themselves.",
    )
    release_key: (
        Annotated[str, checked(_release_key), SHOWN, VariableNames(("TERRACREW_RUNNER_RELEASE_KEY",))] | None
    ) = Field(
        default=None,
        description="The public key of releases: a line in the format of minisign. `terracrew runner register` prints it. The runner "
        "never takes another one from the server, so a server that was taken over cannot have it install anything.",
    )
    rotate_worker_token: bool = Field(
        default=True,
        description="Replace the worker token every 24 hours; the new one is kept in the working directory. Set it to false "
        "where that directory does not outlive the process, as in most containers without a volume.",
    )


class WorkingDirectory(SettingsSection):
    working_directory: Directory = Field(
        default="~/.terracrew/runner",
        validate_default=True,
        description="Attempts, sources and caches. `outputs/<module id>.json` has the outputs of a module's last job on this machine, "
        "without sensitive ones, if the dispatcher is `local`; isolated modules cannot read it.",
    )
    temp_directory: Directory | None = Field(
        default=None, description="Scratch of one attempt. By default `.temp` in the working directory."
    )
    cgroup: Cgroup = Field(
        default="auto",
        description="Below which cgroup (version 2) each attempt gets its own, by which all of its processes are found: "
        "`auto` for the runner's own one if it may be divided, `off`, or the directory of another one.",
    )


class WarmWorkspaces(SettingsSection):
    """What `init` made is kept in the working directory, so that it need not run again as long as nothing that it reads has changed."""

    max_mb: int = Field(
        default=1024,
        ge=0,
        le=1_048_576,
        description="How much is kept for all modules together, in units of 1,048,576 bytes. 0 turns it off: every job runs `init`.",
    )
    max_age_hours: float = Field(
        default=168.0, gt=0, le=8760, description="After how many hours `init` runs again in any case."
    )


class EngineSection(SettingsSection):
    additional_binary_paths: Directories = Field(default=[], description="Searched for engines before PATH.")
    install: Literal["on-demand", "never"] = Field(
        default="never",
        description="What happens if a job needs an engine, or a version of one, that this machine does not have: with "
        "`on-demand` the runner takes the job and installs that version first (a verified release, else a build from "
        "source), with `never` the job waits for another runner.",
    )


class ExecutorSection(SettingsSection):
    isolation: Literal["landlock", "none"] = Field(
        default="landlock",
        description="What keeps an engine, and whatever its module runs, from the rest of this machine: `landlock` (needs "
        "Linux 5.13; a runner on a kernel without it warns and isolates nothing) or `none`.",
    )
    user: Annotated[str, checked(_engine_user), SHOWN] = Field(
        default=engine_users.AUTO,
        description="The users that engines run as if the runner is root; each running attempt has one of its own. `auto`: user "
        "ids between 60578 and 61183 that no other runner of this machine uses. `none`: engines run as the runner's own user, as "
        "they always do if it is not root. Or a user, or a range of user ids such as `20000-20015`, at least as many as "
        "`runner.capacity`.",
    )
    read_paths: Directories = Field(
        default=[],
        description="Files and directories that modules may read and execute, besides the system's and the standard places of "
        "credentials.",
    )
    write_paths: Directories = Field(
        default=[],
        description="Files and directories that modules may also write, besides their workspace and temporary directory.",
    )


class Source(SettingsSection):
    local_roots: Directories = Field(default=[], description="A source on a local path must lie under one of these.")


class HooksPreapproval(SettingsSection):
    """Which hooks of modules and groups may run on this runner."""

    enabled: bool = Field(
        default=False,
        description="Run a hook only if its content is that of a file in `preapproved_hooks_directory`. Without a directory, "
        "no hook may run.",
    )
    preapproved_hooks_directory: Directory | None = Field(
        default=None, description="The directory with the approved hooks. It must exist if pre-approval is enabled."
    )

    @property
    def directory(self) -> str | None:
        """Where the only hooks that may run are; empty if no hook may run, and None if every hook may."""
        return (self.preapproved_hooks_directory or "") if self.enabled else None


class JobLogStream(SettingsSection):
    batch_size_limit: int = Field(default=50, ge=1, le=limits.MAX_LOG_BATCH_EVENTS, description="Events in one batch.")
    period_seconds: float = Field(
        default=5.0,
        gt=0,
        le=limits.MAX_LOG_PERIOD_SECONDS,
        description="How long an event waits for its batch to fill; at most 0.2 s in a step that changes resources.",
    )
    eagerly_emit_first_event: bool = Field(default=True, description="Ship the first event of each batch at once.")


class Logging(SettingsSection):
    """The runner's own diagnostics on standard output. Other keys are accepted and ignored."""

    model_config = ConfigDict(extra="allow")

    log_level: Annotated[dict[str, LogLevel], SHOWN] = Field(
        default={},
        description="Category → level. The longest category that a logger's name starts with decides; `Default` decides "
        "where no other matches. `terracrew.runner.jobs` logs when a job is picked up, starts and ends, `terracrew.runner.connection` "
        "what happens to the connection.",
    )


class RunnerProcessSettings(SettingsSection):
    """What `terracrew runner start` reads: a file, TERRACREW_… variables (`__` between levels), options."""

    server: ServerSection
    runner: RunnerSection
    working_directory: WorkingDirectory = Field(default_factory=WorkingDirectory)
    engine: EngineSection = Field(default_factory=EngineSection)
    executor: ExecutorSection = Field(default_factory=ExecutorSection)
    source: Source = Field(default_factory=Source)
    warm_workspaces: WarmWorkspaces = Field(default_factory=WarmWorkspaces)
    hooks_preapproval: HooksPreapproval = Field(default_factory=HooksPreapproval)
    job_dispatcher: JobDispatcher = Field(default_factory=JobDispatcher)
    job_dispatchers: dict[DispatcherKey, FurtherDispatcher] = Field(
        default={},
        max_length=dispatcher_choice.MAX_DISPATCHERS - 1,
        description="Further dispatchers by name, for the jobs of modules and groups that ask for one (docs/dispatchers.md): each "
        "has `type`, `data` and `allow` as `job_dispatcher` does. Also TERRACREW_JOB_DISPATCHERS_<NAME>_TYPE, "
        "TERRACREW_JOB_DISPATCHERS_<NAME>_DATA_<PARAMETER> and TERRACREW_JOB_DISPATCHERS_<NAME>_ALLOW_<WHAT>.",
    )
    job_log_stream: JobLogStream = Field(default_factory=JobLogStream)
    logging: Logging = Field(default_factory=Logging)
    external: External = Field(default_factory=External)

    def config(self) -> RunnerConfig:
        """Return the settings in the form that the runner process uses."""
        name, secret = self.runner.credentials.pair()
        working, stream = self.working_directory.working_directory, self.job_log_stream
        data, organization = self.job_dispatcher.data, self.runner.organization_id
        return RunnerConfig(
            server_url=self.server.url,
            runner_id=self.runner.id or "",
            runner_path=self.runner.path or "",
            instance=self.runner.instance or (self.runner.path or "").rpartition("/")[2],
            client_id=name if organization in (None, SHARED) or ":" in name else f"{organization}:{name}",
            client_secret=secret,
            helper=self.runner.credentials.helper_command(),
            working_directory=working,
            temp_directory=self.working_directory.temp_directory or str(Path(working) / ".temp"),
            rotates_worker_token=self.runner.rotate_worker_token,
            capacity=self.runner.capacity,
            stop_seconds=self.runner.stop_seconds,
            idle_seconds=self.runner.idle_seconds,
            max_lifetime_seconds=self.runner.max_lifetime_seconds,
            notices=self.runner.notices,
            is_on_trial=self.runner.on_trial,
            updates_itself=self.runner.self_update,
            release_key=self.runner.release_key or "",
            cgroup=self.working_directory.cgroup,
            dispatcher=self.job_dispatcher.type,
            dispatcher_data=self.job_dispatcher.own_data,
            dispatcher_allows=self.job_dispatcher.allow.allowed(),
            named_dispatchers=dispatchers.named(self.job_dispatchers),
            discovery_host=self.server.discovery_host or "",
            executor_server_url=data.get("api_url", ""),
            engine_paths=self.engine.additional_binary_paths,
            is_engine_installed=self.engine.install == "on-demand",
            source_roots=self.source.local_roots,
            warm_bytes=self.warm_workspaces.max_mb << 20,
            warm_seconds=self.warm_workspaces.max_age_hours * 3600,
            approved_hooks_directory=self.hooks_preapproval.directory,
            isolation=IsolationSettings(self.executor.isolation, self.executor.read_paths, self.executor.write_paths),
            engine_accounts=engine_users.parse(self.executor.user),
            claims_engine_users=self.executor.user == engine_users.AUTO,
            log_stream=LogStreamSettings(
                stream.batch_size_limit, stream.period_seconds, stream.eagerly_emit_first_event
            ),
            log_level=cast("dict[str, str]", self.logging.log_level),
        )


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a settings file. It requires nothing, because other layers may have what the file lacks."""
    made = RunnerProcessSettings.model_json_schema()
    for section in (made, *made["$defs"].values()):
        section.pop("required", None)
    made["properties"]["$schema"] = {"type": "string", "description": "Where this schema is."}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, **made}
