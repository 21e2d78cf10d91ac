"""Connections to forges (GitHub, GitLab, Gitea, Forgejo, plain git), the repositories that they watch, and what forges deliver."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from terracrew.api import fields
from terracrew.api.fields import UNCHANGED, Field

ForgeKind = Literal["github", "gitlab", "gitea", "git"]
"""`gitea` is Forgejo, too. `git` is any git repository over https: its branches are polled, and it has no pull requests."""
HookStatus = Literal["unknown", "enabled", "disabled", "missing", "none"]
"""`missing`: there should be one, but it could not be made. `none`: the forge has none, or people make it themselves."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A check of a connection: whether the forge lets it do something that it needs."""

    name: str
    """What is needed: `read pull requests`."""
    is_good: bool
    message: str = ""
    """What is missing, and how to give it."""


class ForgeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What people choose about a connection to a forge."""

    description: Annotated[str, Field(metavar="TEXT")] = ""
    """What it is for."""
    owner: Annotated[str, Field(metavar="NAME")] = ""
    """Only repositories of this owner, organization or group of the forge belong to it; empty for all that its credential can read."""
    app_id: Annotated[str, Field(label="App id", metavar="NUMBER")] = ""
    """GitHub: the number of an application, which has a private key in place of a token."""
    username: Annotated[str, Field(metavar="NAME")] = ""
    """Plain git: the user that git logs in as."""
    makes_hooks: Annotated[bool, Field(label="Make hooks", option="--hooks")] = True
    """Whether hooks are made and repaired in the repositories. Without hooks, changes are found by polling."""
    merges: Annotated[bool, Field(label="Merge pull requests")] = False
    """Whether pull requests are merged with its token where modules say `on_command_then_merge`. Whoever may make modules below its group
    can have a pull request merged then, as far as the rules of the branch on the forge let it."""
    token: Annotated[str, Field(metavar="TOKEN", option=None)] = ""
    """The token that it uses; a secret that cannot be read back."""
    private_key: Annotated[str, Field(metavar="-----BEGIN RSA PRIVATE KEY-----…", option=None, is_long=True)] = ""
    """GitHub: the private key of the application, as PEM; a secret that cannot be read back."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"  # the token and the key are secrets


class NewForge(ForgeSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A connection to make."""

    name: str
    kind: ForgeKind
    base_url: Annotated[str, Field(label="Address", metavar="URL")] = ""
    """The address of the forge, or of the folder of plain git repositories; by default https://github.com or https://gitlab.com."""
    group: str = ""
    """The path of the group whose modules it serves, and those of the groups below; empty for the whole organization."""


@fields.change
class ForgeChange(ForgeSettings, frozen=True, kw_only=True):
    """What to change; what is left out stays. An empty `token` or `private_key` stays, too: neither can be shown."""

    name: Annotated[str, Field(metavar="NAME")] = UNCHANGED
    """A new name."""


class ForgeView(msgspec.Struct, frozen=True, kw_only=True):
    """A connection to a forge, without its secrets."""

    id: str
    organization_id: str
    path: str
    """The path of its group and its name."""
    group: str
    name: str
    description: str
    kind: ForgeKind
    base_url: str
    owner: str
    app_id: str
    username: str
    makes_hooks: bool
    merges: bool
    hook_url: str
    """The address that its hooks deliver to."""
    contacted_at: datetime | None
    """When the forge last answered as it should."""
    problem: str
    """What is wrong with the last contact and what to do; empty if it was good."""
    away_until: datetime | None
    """The forge is left alone until then, because it is away or asks to wait."""
    delivered_at: datetime | None
    """When something was last delivered that was signed with the secret of its hooks."""
    wrong_delivery_at: datetime | None
    """When something was last delivered that was not."""
    tested_at: datetime | None
    findings: list[Finding]
    """What the last test has found."""
    created_by: str
    created_at: datetime


class ForgeTestRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to test a connection with."""

    repository: str = ""
    """The name of a repository on the forge, such as acme/network; by default one that the connection watches."""


class ForgeTestResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a test of a connection has found."""

    repository: str
    """The repository that the permissions were tested with; empty if there is none yet."""
    is_good: bool
    findings: list[Finding]


class NewForgeRepository(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A repository to watch that no module has as its source yet."""

    name: str
    """Its name on the forge, such as acme/network."""


class ForgeRepositoryView(msgspec.Struct, frozen=True, kw_only=True):
    """A repository that a connection watches."""

    id: str
    name: str
    url: str
    """Its page; empty until the forge has told it."""
    default_branch: str
    default_commit: str
    """The newest known commit of the default branch."""
    is_added: bool
    """Whether somebody has added it. Otherwise it is watched because modules have it as their source."""
    open_pull_requests: int
    polled_at: datetime | None
    """When it was last asked about."""
    poll_at: datetime
    hook_status: HookStatus
    hook_message: str
    """Why there is no hook, or what was repaired."""
    problem: str
    """Why the forge could not be asked about it; empty if it was asked."""


class ForgeDeliveryView(msgspec.Struct, frozen=True, kw_only=True):
    """What a forge has delivered, and what became of it."""

    id: str
    delivery_id: str
    """What the forge knows it by."""
    event: str
    """What the forge calls it, such as `pull_request`."""
    about: list[str]
    """What it was a reason to ask about, in words."""
    received_at: datetime
    handled_at: datetime | None
    """Null while it waits."""
    problem: str
    """What stood in the way; empty if nothing did."""
    tries: int
    try_at: datetime | None


class ForgeHookSecret(msgspec.Struct, frozen=True, kw_only=True):
    """What a hook that people make by themselves is given."""

    url: str
    secret: str
    """It is shown once."""

    def __repr__(self) -> str:
        return f"ForgeHookSecret({self.url!r})"
