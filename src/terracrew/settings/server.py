"""The settings of a server: their names, defaults and rules. `server_layers` reads and merges them; the server uses them as they are."""

import fnmatch
import re
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, Field, PrivateAttr, SecretStr

from terracrew.client import address
from terracrew.errors import Invalid
from terracrew.settings.external.section import External, ExternalFacts
from terracrew.settings.shared_runners import RemoteRunner, SharedRunners
from terracrew.settings.values import (
    SHOWN,
    Directories,
    FilePath,
    FilePaths,
    Option,
    SettingsSection,
    Text,
    Words,
    split_words,
)

PREFIX = "TERRACREW_SERVER_"
SCHEMA_ID = "urn:terracrew:settings:server"
FILE_ONLY = ("shared_runners",)
"""Settings that only a file can have: neither a variable nor an option sets them."""
WITHOUT_OPTION = (*FILE_ONLY, "external", "master_key", "smtp_password")
"""Settings that no option sets: sections, and a secret that every user could read among the arguments."""


def _is_http(text: str) -> str:
    if text and not (text.startswith(("http://", "https://")) and address.is_address(text)):
        raise ValueError(f"{address.without_password(text)!r} is not an address like https://terracrew.example.com")
    return text


def _is_issuer(text: str) -> str:
    if not text:
        raise ValueError("an issuer is an address like https://kubernetes.default.svc")
    return _is_http(text)


def _is_release_key(text: str) -> str:
    if not text:
        return text
    from terracrew.releases import minisign  # it loads a library, and few servers have a key

    try:
        return str(minisign.PublicKey.parse(text))
    except Invalid as error:
        raise ValueError(error.message) from None


def _is_own_issuer(text: str) -> str:
    """Check the address as clouds do: AWS accepts neither a port nor a query. One of this machine is for trying it out."""
    if not text:
        return text
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    shown = repr(address.without_password(text))
    if not host or not address.is_address(text) or "@" in parts.netloc or set("?#\\") & set(text):
        raise ValueError(
            f"{shown} is not an address like https://issuer.example.com, without a password, a query or a fragment"
        )
    if parts.scheme == "http" and (host == "localhost" or host == "::1" or host.startswith("127.")):
        return text
    if parts.scheme != "https":
        raise ValueError(f"{shown} does not begin with https://: clouds fetch the keys of an issuer over TLS only")
    if port is not None:
        raise ValueError(f"{shown} has a port: AWS accepts no issuer with one")
    return text


def _is_network(text: str) -> str:
    try:
        meant = ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"{text!r} is neither an address nor a network such as 10.0.0.0/8") from None
    if str(meant.network_address) != str(ip_address(text.partition("/")[0])):
        raise ValueError(f"{text!r} is not the first address of its network: did you mean {meant}?")
    return text


def _is_destination(text: str) -> str:
    if set(text) <= set("0123456789.") or ":" in text or "/" in text:
        return _is_network(text)
    if not _HOST_PATTERN.fullmatch(text):
        raise ValueError(f"{text!r} is neither the name of a host, such as hooks.example.com, nor a network")
    return text


def _is_pattern(text: str) -> str:
    is_own = text.startswith("TERRACREW_") or fnmatch.fnmatchcase("TERRACREW_", text)
    if is_own or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*\*?", text):
        raise ValueError(
            f"{text!r} is neither the name of a variable that jobs may have nor the beginning of such names (`AWS_*`)"
        )
    return text


_HOST_PATTERN = re.compile(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_-]*)(\.[A-Za-z0-9_][A-Za-z0-9_-]*)*")

VariablePatterns = Annotated[list[Annotated[str, AfterValidator(_is_pattern)]], split_words, SHOWN]
Networks = Annotated[list[Annotated[str, AfterValidator(_is_network)]], split_words, SHOWN]
Destinations = Annotated[list[Annotated[str, AfterValidator(_is_destination)]], split_words, SHOWN]
Issuers = Annotated[list[Annotated[str, AfterValidator(_is_issuer)]], split_words, SHOWN]
Days = Annotated[float, Field(ge=1)]


class ServerSettings(SettingsSection):
    """What `terracrew server` and `terracrew up` read: a file, TERRACREW_SERVER_… variables, options."""

    data_directory: Annotated[FilePath, Option("DIR", alias="--data-dir", is_in_up=True)] = Field(
        default=Path("~/.terracrew/server"), description="The directory for all data."
    )
    host: Annotated[Text, Option("HOST", is_in_up=True)] = Field(
        default="127.0.0.1", description="The address to listen on."
    )
    port: Annotated[int, Option("PORT", is_in_up=True)] = Field(
        default=7400, ge=0, le=65535, description="The port to listen on; 0 for any free one."
    )
    local_roots: Annotated[FilePaths, Option("DIR", is_in_up=True)] = Field(
        default=[], description="A source on a local path must be below one of these directories."
    )
    runner_isolation: Annotated[Literal["landlock", "none"], Option(is_in_up=True)] = Field(
        default="landlock",
        description="How jobs of built-in runners are isolated from the rest of this machine.",
    )
    runner_user: Annotated[Literal["auto", "none"], Option(is_in_up=True)] = Field(
        default="auto",
        description="The users of the engines of built-in runners, if this server is root: `auto` for user ids that nothing "
        "else uses, one for each running attempt, or `none` for root itself.",
    )
    runner_read_paths: Annotated[Directories, Option("PATH", is_in_up=True)] = Field(
        default=[],
        description="Further paths that jobs of built-in runners may read, besides the system and the usual credentials.",
    )
    runner_write_paths: Annotated[Directories, Option("PATH", is_in_up=True)] = Field(
        default=[],
        description="Further paths that jobs of built-in runners may write, besides their own directories.",
    )
    runner_environment: Annotated[VariablePatterns | None, Option("NAME", is_in_up=True)] = Field(
        default=None,
        description="Further variables of the server's environment that jobs of built-in runners get: names, or `AWS_*` for all "
        "that begin like this. By default those of the usual clouds with `terracrew up`, and none with `terracrew server`.",
    )
    database_url: Annotated[SecretStr | None, SHOWN] = Field(
        default=None,
        description="The address of a PostgreSQL database (`postgresql://…`); by default SQLite in the data directory.",
    )
    public_url: Annotated[str, AfterValidator(_is_http), SHOWN] = Field(
        default="",
        description="The address at which browsers and runners reach this server; by default its host and port.",
    )
    cloud_runner_image: Text = Field(
        default="",
        description="The image of cloud-hosted runners whose deployment names none, where their cloud can pull it. `{version}` stands "
        "for the version: that of the server for a new deployment, and that of a release for an update, unless the release has an image. "
        "For example `registry.example.com/terracrew-runner:{version}`.",
    )
    release_key: Annotated[str, AfterValidator(_is_release_key), SHOWN] = Field(
        default="",
        description="The public key with which the artifacts of published releases are checked, as the line that `minisign -P` takes. "
        "Without it, releases can be published only without artifacts, so that no runner can update itself.",
    )
    updates_cloud_runners: bool = Field(
        default=True,
        description="Whether cloud-hosted runners are updated by themselves when a release is published: one first, then the others "
        "in growing waves. A breaking release waits for a person.",
    )
    issuer_url: Annotated[str, AfterValidator(_is_own_issuer), SHOWN] = Field(
        default="",
        description="The issuer of the tokens that clouds are shown, if clouds cannot reach the public URL: the address of two "
        "files that `terracrew server issuer export` writes. By default the public URL.",
    )
    trusted_proxies: Annotated[Networks, Option("CIDR")] = Field(
        default=[],
        description="The addresses or networks of reverse proxies whose X-Forwarded-For is trusted.",
    )
    allowed_hosts: Annotated[Words, Option("NAME")] = Field(
        default=[],
        description="Further host names to accept, besides loopback and that of the public URL, for example `*.example.com`.",
    )
    master_key_file: Annotated[FilePath | None, Option("FILE")] = Field(
        default=None, description="The file with the key that encrypts secrets; required with PostgreSQL."
    )
    master_key: SecretStr | None = Field(
        default=None,
        min_length=1,
        description="The key itself, instead of `master_key_file`, where it is an external setting.",
    )
    object_store: Annotated[Text, Option("URL")] = Field(
        default="",
        description="`s3://…`, `gs://…`, `az://…` or `file:///…`, the same for all servers of a database; by default a folder in "
        "the data directory.",
    )
    organization: Annotated[Text, Option("NAME")] = Field(
        default="default", min_length=1, description="The name of the organization that the first start creates."
    )
    precedence: Literal["online", "configured"] = Field(
        default="online",
        description="When nearer runners keep a job from farther ones: if one is online, or if one is configured.",
    )
    apply_lease_seconds: float = Field(
        default=1800,
        ge=60,
        description="How many seconds to wait for an attempt that was lost in the middle of a change.",
    )
    drift_slots_percent: int = Field(
        default=25,
        ge=1,
        le=100,
        description="How much of the slots that an organization's online runners have may be used by drift checks at once, "
        "queued ones included. One check may always run.",
    )
    late_delivery_days: float = Field(
        default=7, gt=0, description="How many days a lost attempt may still deliver its log and states."
    )
    federation_private_issuers: Issuers = Field(
        default=[],
        description="The addresses of issuers that trust policies may name although they are at private addresses or without "
        "TLS, for example `https://kubernetes.default.svc`. If an issuer's keys are on another host, name that, too.",
    )
    private_destinations: Annotated[Destinations, Option("HOST")] = Field(
        default=[],
        description="The hosts (`hooks.example.com`, `*.internal.example.com`), addresses and networks that this server may send to on "
        "behalf of people, although they are private or without TLS: receivers of notifications, for example. Without an entry, "
        "private, loopback and link-local addresses are refused.",
    )
    smtp_host: Annotated[Text, Option("HOST")] = Field(
        default="",
        description="The mail server that notifications are sent by; without it, no channel can send e-mail.",
    )
    smtp_port: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="Its port; 0 for the usual one: 587 with `starttls`, 465 with `tls`, 25 without.",
    )
    smtp_tls: Literal["starttls", "tls", "none"] = Field(
        default="starttls",
        description="How the connection to the mail server is encrypted: after a greeting, from its beginning, or not at all.",
    )
    smtp_user: Annotated[Text, Option("NAME")] = Field(
        default="", description="The user at the mail server, if it wants one."
    )
    smtp_password: SecretStr | None = Field(default=None, description="The password of this user.")
    smtp_sender: Annotated[Text, Option("ADDRESS")] = Field(
        default="",
        description="The address that e-mail comes from; by default `terracrew@` and the host of the public URL.",
    )
    runner_offline_minutes: float = Field(
        default=5,
        ge=1,
        description="After how many minutes without any instance people are told that a runner is offline.",
    )
    forge_poll_seconds: float = Field(
        default=50,
        ge=5,
        le=86_400,
        description="How often each repository of a forge is asked about, so that what no hook has delivered is found all the same.",
    )
    worker_token_days: float = Field(
        default=90,
        ge=7,
        le=36_500,
        description="How many days after its last use the worker token of a runner ends.",
    )
    leftovers_days: float = Field(
        default=30, ge=1, description="How many days old instances, expired tokens and idempotency keys are kept."
    )
    max_connections: int = Field(default=20_000, ge=1, description="How many connections may be open.")
    max_connections_per_address: int = Field(
        default=2_000, ge=1, description="How many HTTP connections one address (IPv6: one /64) may have open."
    )
    max_queued_jobs_per_organization: int = Field(
        default=20_000,
        ge=0,
        description="How many jobs of one organization may be queued; further ones are refused. 0: any number.",
    )
    max_archive_megabytes_per_organization: int = Field(
        default=20_000,
        ge=0,
        description="How many megabytes the archives of one organization may have; further ones are refused. 0: any number.",
    )
    max_log_megabytes_per_organization: int = Field(
        default=50_000,
        ge=0,
        description="How many megabytes the stored logs of one organization may have. New jobs are refused above it; those that "
        "run continue. 0: any number.",
    )
    max_log_megabytes_per_attempt: int = Field(
        default=0,
        ge=0,
        description="How many megabytes of the log of one attempt are stored. The rest is not, and the log says so; the job "
        "continues. 0: any number.",
    )
    disk_reserve_megabytes: int = Field(
        default=1_000,
        ge=0,
        description="How many megabytes of the disk with the data directory stay free, at most a twentieth of it. At this "
        "reserve, deliveries of jobs wait on the runners, and uploads are refused. 0: none.",
    )
    retain_states_count: int = Field(
        default=10, ge=1, description="How many of a module's newest states are kept, however old they are."
    )
    retain_plans_days: float = Field(
        default=0, ge=0, description="How many days saved plans are kept after no attempt can need them."
    )
    retain_audit_days: Days | None = Field(
        default=None, description="How many days entries of the audit log are kept; by default forever."
    )
    retain_archives_days: Days | None = Field(
        default=None, description="How many days archives that only ended jobs refer to are kept; by default forever."
    )
    retain_states_days: Days | None = Field(
        default=None, description="How many days states that are no longer current are kept; by default forever."
    )
    retain_logs_days: Days | None = Field(
        default=None, description="How many days logs of ended jobs are kept; by default forever."
    )
    object_deletion_delay_hours: float = Field(
        default=24,
        ge=0,
        description="How many hours objects are kept after the last reference to them was deleted, for backups.",
    )
    external: External = Field(default_factory=External)
    shared_runners: SharedRunners | None = Field(
        default=None,
        description="The runners that serve every organization, by their names. This is the only place that declares them: a "
        "start of the server creates, changes and retires them. Without this key, a server declares none, and `built-in` runs "
        "where it is asked for (`terracrew up`, `--with-runner`).",
    )

    _file: Path | None = PrivateAttr(default=None)
    _external: ExternalFacts = PrivateAttr(default=ExternalFacts())

    def __repr__(self) -> str:
        return f"ServerSettings({self.directory}, {self.host}:{self.port})"  # the others may hold secrets

    __str__ = __repr__

    def read_from(self, file: Path | None, external: ExternalFacts) -> Self:
        """Return the same settings with what is known about where they were read from."""
        made = self.model_copy()
        made._file, made._external = file and file.expanduser().absolute(), external
        return made

    @property
    def file(self) -> Path | None:
        """The settings file, if there is one."""
        return self._file

    @property
    def external_facts(self) -> ExternalFacts:
        """The files and variables with secrets, and when the settings must be read again."""
        return self._external

    @property
    def directory(self) -> Path:
        return self.data_directory.expanduser().absolute()

    @property
    def worker_token_seconds(self) -> float:
        return self.worker_token_days * 24 * 3600.0

    @property
    def private_paths(self) -> list[Path]:
        """What no module may read."""
        runners = (self.shared_runners or {}).values()
        tokens = [each.worker_token_file for each in runners if isinstance(each, RemoteRunner)]
        named = (self.master_key_file, self.file, *tokens, *self._external.private_files)
        return [self.directory, *[Path(path) for path in named if path is not None]]

    @property
    def database(self) -> str:
        """The address of the database, with its password; that of an SQLite file in the data directory by default."""
        given = self.database_url.get_secret_value() if self.database_url else ""
        return given or str(self.directory / "terracrew.db")

    @property
    def key(self) -> str | None:
        """The master key itself, where it is not in a file."""
        return self.master_key.get_secret_value() if self.master_key else None

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


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a settings file."""
    made = ServerSettings.model_json_schema()
    made["properties"]["$schema"] = {"type": "string", "description": "Where this schema is."}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, **made}
