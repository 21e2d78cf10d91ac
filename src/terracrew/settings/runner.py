"""The settings of a runner: their names, defaults and rules. `layers` reads and merges them."""

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from terracrew import errors, ids
from terracrew.client import address
from terracrew.protocol.start import IsolationSettings, LogStreamSettings
from terracrew.runner.config import RunnerConfig

SCHEMA_ID = "urn:terracrew:settings:runner"
Level = Literal["Trace", "Debug", "Information", "Warning", "Error", "Critical", "None"]
_LEVELS = {"trace", "debug", "information", "warning", "error", "critical", "none"}


def _checked(check: Callable[[str], str]) -> Callable[[str], str]:
    """Turn a check of ours into one that raises what the settings library expects."""

    def checked(text: str) -> str:
        try:
            return check(text)
        except errors.Invalid as error:
            raise ValueError(error.message) from error

    return checked


def _expanded(text: str) -> str:
    path = os.path.expanduser(text)
    if not os.path.isabs(path):
        raise ValueError(f"{text!r} is not an absolute path")
    return os.path.normpath(path)


def _split(value: Any) -> Any:
    """Split one variable into several directories, which are separated as in PATH or given as a JSON list."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return json.loads(value)
    return [part for part in value.split(os.pathsep) if part]


def _canonical(level: Any) -> Any:
    return level.capitalize() if isinstance(level, str) and level.lower() in _LEVELS else level


Directory = Annotated[str, AfterValidator(_expanded)]
Directories = Annotated[list[Directory], NoDecode, BeforeValidator(_split)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class ServerSection(_Section):
    url: Annotated[str, AfterValidator(_checked(address.checked))] = Field(
        description="The server's address. Also TERRACREW_API_URL and TERRACREW_URL."
    )
    allow_plain_http: bool = Field(default=False, description="Allow http:// to a server that is not on this machine.")

    @model_validator(mode="after")
    def _is_safe(self) -> "ServerSection":
        if self.url.startswith("http:") and not address.is_loopback(self.url) and not self.allow_plain_http:
            raise ValueError("plain http to another machine exposes every secret: use https, or set allow_plain_http")
        return self


class CredentialsSection(_Section):
    """A service account's client id and secret, or what `terracrew runner register` printed."""

    client_id: str | None = Field(default=None, min_length=1)
    client_secret: SecretStr | None = Field(default=None, min_length=1)
    worker_id: str | None = Field(default=None, min_length=1)
    worker_token: SecretStr | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _is_one_pair(self) -> "CredentialsSection":
        self.pair()
        return self

    def pair(self) -> tuple[str, str]:
        match self.client_id, self.client_secret, self.worker_id, self.worker_token:
            case str(name), SecretStr() as secret, None, None:
                return name, secret.get_secret_value()
            case None, None, str(name), SecretStr() as secret:
                return name, secret.get_secret_value()
            case _:
                raise ValueError("give client_id and client_secret, or worker_id and worker_token")


class RunnerSection(_Section):
    rotate_worker_token: bool = Field(
        default=True,
        description="Replace the worker token every 24 hours; the new one is kept in the working directory. Set it to false "
        "where that directory does not outlive the process, as in most containers without a volume.",
    )
    id: Annotated[str, AfterValidator(_checked(lambda text: ids.parse("rnr", text)))] = Field(
        description="The id of the runner's record (`rnr_…`)."
    )
    instance: str = Field(
        default_factory=socket.gethostname,
        min_length=1,
        max_length=128,
        description="This process's name among the instances of its runner. By default the host's name.",
    )
    organization_id: Annotated[str, AfterValidator(_checked(lambda text: ids.parse("org", text)))] = Field(
        description="The organization that the credentials belong to (`org_…`)."
    )
    credentials: CredentialsSection
    capacity: int = Field(default=4, ge=1, le=1000, description="How many jobs run at once.")


class WorkingDirectory(_Section):
    working_directory: Directory = Field(
        default="~/.terracrew/runner", validate_default=True, description="Attempts, sources and caches."
    )
    temp_directory: Directory | None = Field(
        default=None, description="Scratch of one attempt. By default `.temp` in the working directory."
    )
    cgroup: Literal["auto", "off"] | Directory = Field(
        default="auto",
        description="Below which cgroup (version 2) each attempt gets its own, by which all of its processes are found: "
        "`auto` for the runner's own one if it may be divided, `off`, or the directory of another one.",
    )


class EngineSection(_Section):
    additional_binary_paths: Directories = Field(default=[], description="Searched for engines before PATH.")


class ExecutorSection(_Section):
    isolation: Literal["landlock", "none"] = Field(
        default="landlock",
        description="What keeps an engine, and whatever its module runs, from the rest of this machine: `landlock` (needs "
        "Linux 5.13; a runner on a kernel without it warns and isolates nothing) or `none`.",
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


class Source(_Section):
    local_roots: Directories = Field(default=[], description="A source on a local path must lie under one of these.")


class JobDispatcher(_Section):
    type: str = Field(
        default="local",
        min_length=1,
        description="What starts executors: `local` (processes of this machine), or a dispatcher of an installed package.",
    )
    data: dict[str, str] = Field(
        default={}, description="Settings of the dispatcher of an installed package; `local` has none."
    )


class JobLogStream(_Section):
    batch_size_limit: int = Field(default=50, ge=1, le=10_000, description="Events in one batch.")
    period_seconds: float = Field(
        default=5.0, gt=0, le=3600, description="How long an event waits for its batch to fill."
    )
    eagerly_emit_first_event: bool = Field(default=True, description="Ship the first event of each batch at once.")


class Logging(_Section):
    model_config = ConfigDict(extra="allow", frozen=True, hide_input_in_errors=True)

    log_level: dict[str, Annotated[Level, BeforeValidator(_canonical)]] = Field(
        default={}, description="Category → level; `Default` where nothing longer matches, the longest prefix wins."
    )


class RunnerSettings(BaseSettings):
    """What `terracrew runner start` reads: a file, TERRACREW_… variables (`__` between levels), options."""

    model_config = SettingsConfigDict(
        env_prefix="TERRACREW_", env_nested_delimiter="__", extra="forbid", frozen=True, hide_input_in_errors=True
    )

    server: ServerSection
    runner: RunnerSection
    working_directory: WorkingDirectory = Field(default_factory=WorkingDirectory)
    engine: EngineSection = Field(default_factory=EngineSection)
    executor: ExecutorSection = Field(default_factory=ExecutorSection)
    source: Source = Field(default_factory=Source)
    job_dispatcher: JobDispatcher = Field(default_factory=JobDispatcher)
    job_log_stream: JobLogStream = Field(default_factory=JobLogStream)
    logging: Logging = Field(default_factory=Logging)

    def config(self) -> RunnerConfig:
        """Return the settings in the form that the runner process uses."""
        name, secret = self.runner.credentials.pair()
        working, stream = self.working_directory.working_directory, self.job_log_stream
        return RunnerConfig(
            server_url=self.server.url,
            runner_id=self.runner.id,
            instance=self.runner.instance,
            client_id=f"{self.runner.organization_id}:{name}",
            client_secret=secret,
            working_directory=working,
            temp_directory=self.working_directory.temp_directory or str(Path(working) / ".temp"),
            rotates_worker_token=self.runner.rotate_worker_token,
            capacity=self.runner.capacity,
            cgroup=self.working_directory.cgroup,
            dispatcher=self.job_dispatcher.type,
            dispatcher_data=self.job_dispatcher.data,
            engine_paths=self.engine.additional_binary_paths,
            source_roots=self.source.local_roots,
            isolation=IsolationSettings(self.executor.isolation, self.executor.read_paths, self.executor.write_paths),
            log_stream=LogStreamSettings(
                stream.batch_size_limit, stream.period_seconds, stream.eagerly_emit_first_event
            ),
            log_level=cast("dict[str, str]", self.logging.log_level),
        )


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a settings file."""
    made = RunnerSettings.model_json_schema()
    made["properties"]["$schema"] = {"type": "string", "description": "Where this schema is."}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, **made}
