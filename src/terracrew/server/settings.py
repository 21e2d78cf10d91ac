"""What a server is told when it starts."""

from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

import msgspec

from terracrew.errors import Invalid
from terracrew.server.addresses import parse_networks

MIN_WORKER_TOKEN_DAYS = 7
"""Runners replace their tokens every day, so one that is in use never comes near its end."""


class DeclaredRunner(msgspec.Struct, frozen=True, kw_only=True):
    """A shared runner that the server's settings file declares."""

    name: str
    kind: Literal["built-in", "remote"]
    description: str = ""
    tags: tuple[str, ...] = ()
    max_jobs: int | None = None
    """How many jobs each instance has at most. None, for a built-in one: by the number of processors."""
    allow_multiple_instances: bool = False
    worker_token_sha256: str | None = None
    """Of a remote runner; a built-in one has a token that the servers make."""
    worker_token_file: Path | None = None
    engine_paths: tuple[Path, ...] = ()
    isolation: Literal["landlock", "none"] | None = None
    read_paths: tuple[Path, ...] = ()
    write_paths: tuple[Path, ...] = ()


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    data_directory: Path = Path("~/.terracrew/server")
    database_url: str = ""
    """Empty: an SQLite file in the data directory."""
    host: str = "127.0.0.1"
    port: int = 7400
    public_url: str = ""
    """How browsers, runners and executors reach this server. Empty: by its host and port."""
    cloud_runner_image: str = ""
    """The image of cloud-hosted runners whose deployment names none."""
    release_key: str = ""
    """The public key, in the form of minisign, with which the artifacts of releases are checked. Empty: none are accepted."""
    updates_cloud_runners: bool = True
    """Whether cloud-hosted runners are updated when a release is published."""
    issuer_url: str = ""
    """The `iss` of the tokens that clouds are shown. Empty: the URL of this server."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks of reverse proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed. None by default."""
    allowed_hosts: tuple[str, ...] = ()
    """Further host names that requests may be for, beside loopback and the host of the public URL; `*.example.com`, `*`."""
    master_key: str | None = None
    master_key_file: Path | None = None
    object_store: str = ""
    """A URL that obstore knows (`s3://…`, `gs://…`, `az://…`, `file:///…`). Empty: a folder in the data directory."""
    local_roots: tuple[Path, ...] = ()
    """The directories that may contain sources on a local path. There are none by default."""
    runner_isolation: Literal["landlock", "none"] = "landlock"
    """What keeps the modules of the built-in runner from the rest of this machine."""
    runner_user: Literal["auto", "none"] = "auto"
    """Whether the engines of built-in runners have users of their own, if this server is root."""
    runner_read_paths: tuple[Path, ...] = ()
    """What those modules may read besides the system and the standard places of credentials."""
    runner_write_paths: tuple[Path, ...] = ()
    """What those modules may write besides their own directories."""
    runner_environment: tuple[str, ...] = ()
    """The names of further variables of this process that the engines of built-in runners get; `AWS_*` stands for several."""
    secret_variables: tuple[str, ...] = ()
    """Variables that hold secrets of this server. No engine gets them."""
    organization: str = "default"
    apply_lease_seconds: float = 1800.0
    """How long an attempt that was lost in the middle of a change is waited for, before it is given up."""
    late_delivery_days: float = 7.0
    """How long a lost or fenced attempt may still deliver what it has."""
    precedence: Literal["online", "configured"] = "online"
    """When a nearer tier of runners keeps a job from farther ones: if one of them is online, or if there is one at all."""
    federation_private_issuers: tuple[str, ...] = ()
    """Issuers that trust policies may name although they have private addresses or no TLS, and where their keys are."""
    worker_token_days: float = 90.0
    """After how many days the worker token of a runner ends, unless the runner replaces or uses it."""
    leftovers_days: float = 30.0
    """How long these are kept: instances that do not connect any more, expired API tokens and secrets, idempotency keys."""
    max_connections: int = 20_000
    """Open connections of this process, WebSockets of runners and executors included."""
    max_connections_per_address: int = 2_000
    """Open HTTP connections from one IPv4 address or IPv6 /64. WebSockets are not counted: a fleet may share an address."""
    max_queued_jobs_per_organization: int = 20_000
    """The quotas of each organization; 0 (here and below): none."""
    max_archive_megabytes_per_organization: int = 20_000
    max_log_megabytes_per_organization: int = 50_000
    max_log_megabytes_per_attempt: int = 0
    """How much of the log of one attempt is stored; 0: all of it."""
    disk_reserve_megabytes: int = 1_000
    """How much of the disk stays free of deliveries and uploads."""

    retain_logs_days: float | None = None
    """How long logs of ended jobs are kept. None (here and below) means forever."""
    retain_states_days: float | None = None
    """How long states are kept that are not current any more."""
    retain_states_count: int = 10
    """The newest states of a module that are kept, however old they are."""
    retain_plans_days: float = 0.0
    """How long a saved plan is kept that no attempt can need any more."""
    retain_archives_days: float | None = None
    """How long an archive is kept that only ended jobs refer to."""
    retain_audit_days: float | None = None
    object_deletion_delay_hours: float = 24.0
    """How long an object stays after the row that named it was deleted. A backup must not take longer than this."""

    file: Path | None = None
    """The settings file that all of this was read from, if there is one."""
    secret_files: tuple[Path, ...] = ()
    """The files from which external settings and the credentials for vaults are read."""
    reread_seconds: float | None = None
    """After how long the settings must be read again, so that the token for a vault does not expire; None: only if asked."""
    shared_runners: tuple[DeclaredRunner, ...] | None = None
    """The shared runners that the file declares, sorted by name. None: it declares nothing, which retires nothing."""

    def __repr__(self) -> str:
        return f"ServerSettings({self.directory}, {self.host}:{self.port})"  # the others may hold secrets

    @property
    def directory(self) -> Path:
        return self.data_directory.expanduser().absolute()

    @property
    def worker_token_seconds(self) -> float:
        return self.worker_token_days * 24 * 3600.0

    @property
    def private_paths(self) -> list[Path]:
        """What no module may read."""
        tokens = [each.worker_token_file for each in self.shared_runners or ()]
        named = (self.master_key_file, self.file, *tokens, *self.secret_files)
        return [self.directory, *[path for path in named if path is not None]]

    @property
    def database(self) -> str:
        return self.database_url or str(self.directory / "terracrew.db")

    @property
    def objects(self) -> str:
        return self.object_store or (self.directory / "objects").as_uri()

    @property
    def local_objects(self) -> Path | None:
        """The folder of the object store, if it is one."""
        parts = urlsplit(self.objects)
        return Path(unquote(parts.path)) if parts.scheme == "file" else None

    @property
    def uploads(self) -> Path:
        """The directory that holds a body until it has been checked."""
        return self.directory / "uploads"

    @property
    def url(self) -> str:
        if self.public_url:
            return self.public_url.rstrip("/")
        host = "localhost" if self.host in ("", "0.0.0.0", "::") else self.host  # noqa: S104 (compared, not bound)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def issuer(self) -> str:
        """The issuer of the tokens that clouds are shown."""
        return self.issuer_url.rstrip("/") or self.url

    @property
    def is_reached_unencrypted(self) -> bool:
        """Whether other machines reach it without TLS, as far as the settings tell."""
        is_loopback = self.host in ("localhost", "::1") or self.host.startswith("127.")
        return not is_loopback and not self.public_url.startswith("https://")

    @property
    def listens_on(self) -> str:
        """The one address that it listens on; empty if it listens on all."""
        return "" if self.host in ("0.0.0.0", "::") else self.host  # noqa: S104 (compared, not bound)

    @property
    def is_postgres(self) -> bool:
        return self.database.startswith(("postgres://", "postgresql://"))

    def check(self) -> None:
        """Refuse what cannot work, all of it at once, in words that name the setting."""
        problems: list[str] = []
        if self.is_postgres and not self.master_key and self.master_key_file is None:
            problems.append(
                "master_key_file: PostgreSQL may serve many servers, so none of them makes the key: "
                "put what `openssl rand -base64 32` prints into a file that only the server can read, and name it here"
            )
        if not 0 <= self.port <= 65535:
            problems.append(f"port: {self.port} is not a number between 0 and 65535")
        if self.late_delivery_days <= 0:
            problems.append(
                f"late_delivery_days: {self.late_delivery_days:g} is not more than 0; give a lost attempt some time to deliver"
            )
        if self.worker_token_days < MIN_WORKER_TOKEN_DAYS:
            raise Invalid(
                f"worker_token_days: {self.worker_token_days:g} is less than {MIN_WORKER_TOKEN_DAYS}; a runner that is off for a few "
                "days must find its token valid"
            )
        if self.leftovers_days < 1:
            problems.append(
                f"leftovers_days: {self.leftovers_days:g} is less than 1; keep what is old for at least a day"
            )
        if self.apply_lease_seconds < 60:
            problems.append(
                f"apply_lease_seconds: {self.apply_lease_seconds:g} is less than 60; give a lost attempt time to come back"
            )
        problems += [
            f"{name}: {value} is less than 1"
            for name, value in (
                ("max_connections", self.max_connections),
                ("max_connections_per_address", self.max_connections_per_address),
            )
            if value < 1
        ]
        try:
            parse_networks(self.trusted_proxies)
        except Invalid as error:
            problems.append(f"trusted_proxies: {error.message}")
        problems += [
            f"{name}: {days:g} is less than 1; keep what may be removed for at least a day"
            for name in ("retain_logs_days", "retain_states_days", "retain_archives_days", "retain_audit_days")
            if (days := getattr(self, name)) is not None and days < 1
        ]
        if self.retain_states_count < 1:
            problems.append(
                f"retain_states_count: {self.retain_states_count} is less than 1; a module keeps its newest state"
            )
        if self.public_url and not self.public_url.startswith(("http://", "https://")):
            problems.append(f"public_url: {self.public_url!r} should start with http:// or https://")
        problems += [
            f"{name}: {path} is not an absolute path"
            for name in ("local_roots", "runner_read_paths", "runner_write_paths")
            for path in getattr(self, name)
            if not path.expanduser().is_absolute()
        ]
        if problems:
            raise Invalid("the server's settings are not valid: " + "; ".join(problems), problems=problems)
