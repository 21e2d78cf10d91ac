"""The rows of this package, and the credential of a connection."""

import hashlib
from datetime import datetime

import msgspec

from terracrew.api.forges import Finding, ForgeKind, HookStatus
from terracrew.forges.model import ForgeEvent, PullRequest


class ForgeCredential(msgspec.Struct, frozen=True):
    """What a connection authenticates with. It is stored encrypted, and shown to nobody."""

    token: str = ""
    private_key: str = ""
    """The key of an application of GitHub, as PEM."""
    hook_secret: str = ""
    """What the deliveries of the forge are signed with."""

    def __repr__(self) -> str:
        return "ForgeCredential(…)"


class ForgeConnection(msgspec.Struct, frozen=True, kw_only=True):
    """A connection of a group to a forge. It serves the modules of the group and of those below it, and no others."""

    id: str
    organization_id: str
    group_id: str
    group: str
    """The path of its group; empty for the whole organization."""
    name: str
    description: str
    kind: ForgeKind
    base_url: str
    owner: str
    """Only repositories below this owner or group of the forge belong to it; empty for all."""
    app_id: str
    username: str
    makes_hooks: bool
    merges: bool
    sealed: bytes
    """A `ForgeCredential`, encrypted."""
    credential_version: int
    contacted_at: datetime | None = None
    problem: str = ""
    """What is wrong with the last contact and what to do, in words; empty if it was good."""
    failures: int = 0
    away_until: datetime | None = None
    """Nothing is asked before this time, because the forge is away or wants it so."""
    delivered_at: datetime | None = None
    wrong_delivery_at: datetime | None = None
    """When something last arrived that was not signed with the secret of its hooks."""
    tested_at: datetime | None = None
    findings: list[Finding] = []
    """What the last test has found out."""
    created_by: str
    created_at: datetime

    @property
    def path(self) -> str:
        return f"{self.group}/{self.name}" if self.group else self.name


class ForgeRepository(msgspec.Struct, frozen=True, kw_only=True):
    """A repository that a connection watches."""

    id: str
    connection_id: str
    name: str
    name_key: str
    clone_url: str = ""
    """Empty until the forge has told it."""
    url: str = ""
    default_branch: str = ""
    default_commit: str = ""
    """The newest known commit of the default branch."""
    default_commit_at: datetime | None = None
    """When it became known."""
    is_added: bool = False
    is_watched: bool = True
    etag: str = ""
    branch_etag: str = ""
    question: int = 0
    """The number of the last question about it. See `fact_store`."""
    default_question: int = 0
    """The number of the question whose answer the default branch is from."""
    list_question: int = 0
    """The number of the question whose answer was the last list of its open pull requests."""
    polled_at: datetime | None = None
    poll_at: datetime
    lease_holder: str | None = None
    """The server that asks the forge about it at this moment."""
    lease_until: datetime | None = None
    comments_since: datetime
    """Comments are asked for from this time on, by the clock of the forge."""
    comments_asked_at: datetime | None = None
    hook_id: str = ""
    hook_status: HookStatus = "unknown"
    hook_message: str = ""
    checked_at: datetime | None = None
    """When its names and its hook were last looked at."""
    problem: str = ""
    failures: int = 0
    created_at: datetime

    @property
    def mirror_key(self) -> str:
        """The key of its mirror. Another address has another mirror."""
        return f"{self.id}-{hashlib.sha256(self.clone_url.encode()).hexdigest()[:12]}"


class ForgeDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """What a forge has delivered: which questions it is a reason for."""

    id: str
    connection_id: str
    delivery_id: str
    event: str
    """What the forge calls it, such as `pull_request`."""
    events: list[ForgeEvent]
    received_at: datetime
    handled_at: datetime | None = None
    problem: str = ""
    tries: int = 0
    try_at: datetime | None = None


class ForgePullRequest(PullRequest, frozen=True, kw_only=True):
    """A pull request, as the forge told it last."""

    id: str
    repository_id: str
    revision: int
    """It increases with every change of the facts."""
    question: int
    """The number of the question whose answer this is."""
    first_seen_at: datetime
    changed_at: datetime

    @property
    def is_open(self) -> bool:
        return self.state == "open"


class ForgeComment(msgspec.Struct, frozen=True, kw_only=True):
    """A comment that is a command, with the text in which it was first seen."""

    id: str
    repository_id: str
    comment_id: str
    """What the forge knows it by."""
    number: int
    """The number of the pull request."""
    author: str
    author_id: str
    body: str
    url: str
    created_at: datetime
    seen_at: datetime
    is_handled: bool = False


FACTS = PullRequest.__struct_fields__
"""The fields of a pull request that the forge tells."""


def facts_of(found: ForgePullRequest) -> PullRequest:
    """Return what the forge has told of a pull request, without what is kept beside it."""
    return PullRequest(**{name: getattr(found, name) for name in FACTS})


def is_command(body: str) -> bool:
    """Return whether a comment begins with the name of this product, so that it is a command."""
    first = body.lstrip("\ufeff").split("\n", 1)[0].strip().casefold()
    return first == "terracrew" or first.startswith("terracrew ")
