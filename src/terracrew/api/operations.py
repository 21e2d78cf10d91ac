"""The server itself: what it stores, what retention removes, the change of the master key, and holds."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec


class IssuerView(msgspec.Struct, frozen=True, kw_only=True):
    """The issuer of the tokens for clouds, and the two documents that clouds read."""

    issuer: str
    is_separate: bool
    """Whether it is another address than this server's, so that its documents have to be copied there."""
    configuration: dict[str, Any]
    """The document `.well-known/openid-configuration` below the issuer's address."""
    jwks: dict[str, Any]
    """The document `.well-known/jwks.json` below the issuer's address: the keys that sign, that signed, and the next one."""
    signing_key: str
    next_key: str | None = None
    next_signs_from: datetime | None = None
    """When the next key is to sign. Before that, the issuer's address must have it."""
    export_by: datetime | None = None
    """By when the documents have to be exported again, so that no key signs for longer than intended."""
    problem: str = ""
    """What is wrong with the documents at the issuer's address; empty if nothing is, or if nobody has looked yet."""
    looked_at: datetime | None = None


class StartHold(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reason: Annotated[str, msgspec.Meta(max_length=500)] = ""


class ReleaseHold(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    module: str | None = None
    """The path or id of a module; without it, everything is released."""
    is_untouched: bool = False
    """Whether you know that nothing was changed since: the next plans then need no approval because of the hold."""


class RekeyProgress(msgspec.Struct, frozen=True):
    status: Literal["none", "running", "stopped", "incomplete", "finished"] = "none"
    """`incomplete`: some ciphertexts could not be decrypted. `finished`: nothing needs an older key any more."""
    key_id: str = ""
    """The id of the master key under which everything is encrypted."""
    doing: str = ""
    """The kind of data that is being encrypted now."""
    done: int = 0
    """How many items of this kind were checked."""
    encrypted: int = 0
    """How many ciphertexts of all kinds were encrypted again."""
    failed: int = 0
    problem: str = ""
    """Why the first ciphertext that failed could not be encrypted again."""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class RetentionPolicy(msgspec.Struct, frozen=True):
    logs_days: float | None = None
    states_days: float | None = None
    states_count: int = 10
    """The number of newest states of a module that are always kept, regardless of their age."""
    plans_days: float = 0.0
    """How long a saved plan is kept after no attempt can need it any more."""
    archives_days: float | None = None
    """How long an archive is kept to which only ended jobs refer. An archive to which nothing refers is an orphan."""
    audit_days: float | None = None


class Tally(msgspec.Struct, frozen=True):
    count: int = 0
    bytes: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.count + other.count, self.bytes + other.bytes)


class LastRun(msgspec.Struct, frozen=True):
    """When a chore of retention last ended, and what it removed."""

    finished_at: datetime
    removed: dict[str, Tally]


class SurveyProgress(msgspec.Struct, frozen=True):
    """The progress of a survey that is not finished. The client has to ask again."""

    counting: str
    elapsed_seconds: float


class ModuleUsage(msgspec.Struct, frozen=True):
    path: str
    bytes: int
    """The bytes of its logs and states."""


class OrganizationUsage(msgspec.Struct, frozen=True):
    """What an organization has. Each but the states has a quota in the server's settings."""

    name: str
    archive_bytes: int
    log_bytes: int
    state_bytes: int
    queued_jobs: int


class Preview(msgspec.Struct, frozen=True):
    """What the next pass of retention would remove, and the orphans that the next sweep would."""

    policy: RetentionPolicy
    retention: dict[str, Tally]
    orphans: dict[str, Tally]


class Usage(msgspec.Struct, frozen=True):
    database_bytes: int
    kinds: dict[str, Tally]
    largest_modules: list[ModuleUsage]
    organizations: list[OrganizationUsage]
    """The one with the most bytes first."""
    reclaimable: Preview
    last_runs: dict[str, LastRun] = {}
    """When retention (`pass`) and the sweep of orphans (`sweep`) last ran, and what they removed."""
