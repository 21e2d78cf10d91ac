"""Who may do what: people, service accounts, roles, tokens, and the policies that trust tokens of other issuers."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from terracrew.api.fields import Field
from terracrew.api.groups import Name, Organization

Days = Annotated[int, msgspec.Meta(ge=1, le=3650)]


class Link(msgspec.Struct, frozen=True):
    link: str
    replaces_earlier_link: bool = False
    """Whether a link that was made before, and not used yet, has ended with this one."""

    def __repr__(self) -> str:
        return "Link(…)"


class NewPassword(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    new_password: str
    current_password: str | None = None
    """A user who logged in with a link and has no password yet does not need it."""

    def __repr__(self) -> str:
        return "NewPassword(…)"


class NewServiceAccount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Name
    group: str = ""


class CreatedSecret(msgspec.Struct, frozen=True):
    id: str
    client_id: str
    expires_at: datetime | None
    client_secret: str
    """Shown this once."""


class RunnerReference(msgspec.Struct, frozen=True):
    """A runner that uses what was asked about."""

    id: str
    path: str


class CreatedToken(msgspec.Struct, frozen=True):
    id: str
    name: str
    expires_at: datetime | None
    token: str
    """Shown this once."""


class NewUser(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Name
    is_system_admin: Annotated[bool, Field(option="--admin")] = False
    """Whether the user is an administrator, who may do everything on this server."""


class Ended(msgspec.Struct, frozen=True):
    ended: int


class ServiceAccount(msgspec.Struct, frozen=True):
    id: str
    organization_id: str
    group_id: str
    group: str
    """Path of its group; empty for the organization itself."""
    name: str
    created_by: str
    created_at: datetime
    is_disabled: bool = False
    """Whether its secrets are refused. Its roles and secrets are kept."""

    @property
    def path(self) -> str:
        """The name that no other account of the organization has."""
        return f"{self.group}/{self.name}" if self.group else self.name


class ClientSecret(msgspec.Struct, frozen=True):
    id: str
    service_account_id: str
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


class AccountChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to change; what is left out stays."""

    name: Annotated[str | UnsetType, Field(metavar="NAME")] = UNSET
    """A new name."""
    is_disabled: Annotated[bool | UnsetType, Field(option="--disable/--enable")] = UNSET
    """Refuse its secrets and end its tokens, or accept them again."""


class UserChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to change; what is left out stays."""

    name: Annotated[str | UnsetType, Field(metavar="NAME")] = UNSET
    """A new name, with which the user logs in."""
    is_disabled: bool | UnsetType = UNSET
    is_system_admin: Annotated[bool | UnsetType, Field(option="--admin")] = UNSET
    """Whether the user is an administrator, who may do everything on this server."""


class TrustPolicy(msgspec.Struct, frozen=True):
    id: str
    organization_id: str
    service_account_id: str
    issuer: str
    """The `iss` of the tokens, compared exactly. The issuer's keys are found below this address."""
    audience: str
    """The value or the pattern that `aud` must be or contain."""
    claims: dict[str, str]
    """Further claims and the values or patterns that they must have. A name that begins with `/` is a JSON pointer."""
    is_reusable: bool
    """Whether one token may be exchanged several times before it expires."""
    created_by: str
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None


class NewPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    issuer: str
    claims: dict[str, str] = {}
    """May be empty, or only have `aud`, if an audience bounds the tokens and the issuer does not serve everybody."""
    audience: Annotated[str, Field(metavar="TEXT")] = ""
    """The `aud` of the tokens; empty for the claim `aud`, or for the address of this server. Without claims, it alone must match."""
    is_reusable: Annotated[bool, Field(option="--reusable")] = False
    """Whether a token is accepted more than once until it expires."""
    expires_in_days: Annotated[Days | None, Field(metavar="N")] = None
    """After how many days the policy ends; by default never."""


class PasswordChanged(msgspec.Struct, frozen=True):
    """What a change of password has ended."""

    sessions_ended: int
    tokens_revoked: int


class User(msgspec.Struct, frozen=True):
    id: str
    organization_id: str
    name: str
    is_system_admin: bool
    is_disabled: bool
    created_at: datetime
    last_login_at: datetime | None = None


class CreatedUser(msgspec.Struct, frozen=True):
    user: User
    link: str | None
    """The link with which the user logs in once and sets a password. It is shown only once. Null if the user was created with an API
    token or a client secret: whoever has the link controls the account, so only a person who is logged in gets one."""


class UserListed(User, frozen=True):
    """A user as a list shows them."""

    has_password: bool = False
    """False for somebody who was invited or reset and has not set a password yet."""
    is_invited: bool = False
    """Whether there is a link with which the user can log in and that has not expired."""


class OpenSession(msgspec.Struct, frozen=True):
    """A session as people see it in a list."""

    id: str
    created_at: datetime
    seen_at: datetime
    expires_at: datetime
    address: str | None
    """The address that it was started from."""


class ApiToken(msgspec.Struct, frozen=True):
    id: str
    name: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    is_local: bool = False
    """Whether the server has left it in its data directory, for the command line on its own machine."""
    is_engine_login: bool = False
    """Whether `tofu login` or `terraform login` has got it."""
    is_cli_login: bool = False
    """Whether `terracrew login` has got it in a browser."""


PrincipalKind = Literal["user", "service_account", "runner", "executor", "engine", "publisher", "system", "anonymous"]


class Role(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    OWNER = "owner"


class RoleBinding(msgspec.Struct, frozen=True):
    id: str
    organization_id: str
    principal_kind: Literal["user", "service_account"]
    principal_id: str
    role: Role
    place_kind: Literal["group", "module"]
    path: str
    created_by: str
    """The id of the principal that granted the role."""
    created_at: datetime
    expires_at: datetime | None = None
    """When the role ends by itself; None if it does not."""
    source: str = ""
    """The identity provider whose rules give the role, and take it away; empty if a person has granted it."""
    source_rule: str = ""
    """The rule of the provider from which the role follows."""


class RoleListed(RoleBinding, frozen=True):
    """A role with the names of the principals that it mentions."""

    principal_name: str = ""
    created_by_name: str = ""
    """Who granted the role; empty for the server itself and for principals that were deleted."""


class Me(msgspec.Struct, frozen=True):
    kind: PrincipalKind
    id: str
    name: str
    organization_id: str | None
    is_system_admin: bool
    roles: list[RoleListed]
    organizations: list[Organization]
    """The organizations that you may act in, up to 200. `organization_id` is the one that this request is about."""


class ServiceAccountDetails(ServiceAccount, frozen=True):
    """A service account with its roles, and the runners that use it and that the reader may see."""

    roles: tuple[RoleListed, ...] = ()
    runners: tuple[RunnerReference, ...] = ()


class PlaceStep(msgspec.Struct, frozen=True):
    """A place on the way from the organization to the place that was asked about."""

    kind: Literal["organization", "group", "module"]
    path: str
    role: RoleListed | None = None
    """The role that the principal has at exactly this place."""
    is_deciding: bool = False
    """Whether this role is the one that allows it."""


class UserDetails(UserListed, frozen=True):
    """A user with their roles in the reader's organization."""

    roles: tuple[RoleListed, ...] = ()
    sessions: int | None = None
    """In how many browsers the user is logged in. Only the user's own organization knows this and the next number."""
    tokens: int | None = None


class Verb(StrEnum):
    """What a principal may do at a place, if one of its roles includes it."""

    TREE_READ = "tree.read"
    TREE_WRITE = "tree.write"
    JOB_READ = "job.read"
    JOB_RUN = "job.run"
    JOB_CANCEL = "job.cancel"
    JOB_APPROVE = "job.approve"
    STATE_READ = "state.read"
    STATE_WRITE = "state.write"
    SECRET_USE = "secret.use"  # noqa: S105
    SECRET_SET = "secret.set"  # noqa: S105
    RUNNER_READ = "runner.read"
    RUNNER_WRITE = "runner.write"
    ACCESS_READ = "access.read"
    ACCESS_WRITE = "access.write"
    AUDIT_READ = "audit.read"
    SERVER_ADMIN = "server.admin"
    HUB_CONNECT = "hub.connect"
    ATTEMPT_REPORT = "attempt.report"
    ATTEMPT_READ = "attempt.read"


Reason = Literal[
    "system", "administrator", "attempt", "role", "machine_only", "server", "unseen", "no_role", "lesser_role"
]
"""Why something is allowed (the first four) or refused: it is for machines only, it is about the whole server, the place is
hidden, the principal has no role there, or its roles do not include the verb."""


class Explanation(msgspec.Struct, frozen=True):
    """Whether a principal may use a verb at a place, by which role, and otherwise what is missing."""

    principal_kind: Literal["user", "service_account"]
    principal_id: str
    principal_name: str
    verb: Verb
    action: str
    """The verb in words, as they follow "may"."""
    kind: Literal["organization", "group", "module"]
    path: str
    is_allowed: bool
    reason: Reason | Literal["disabled"]
    sentence: str
    steps: list[PlaceStep]
    deciding: RoleListed | None = None
    sufficient_roles: list[Role] = []
    """If it is refused: the roles that would allow it, the least one first."""
    can_be_granted_by: list[str] = []
    """If it is refused: the names of some who can grant such a role here. Administrators of the server always can."""
    limits: list[str] = []
    """What limits it although a role allows it."""


class NewRole(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    principal: Name
    """Name or id of a user, or id or path of a service account."""
    role: Role
    path: str = ""
    kind: Literal["group", "module"] = "group"
    expires_in_days: Annotated[Days | None, Field(metavar="N")] = None
    """After how many days the role ends; by default never."""


class NewSecret(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    expires_in_days: Annotated[Days | None, Field(metavar="N")] = None
    """After how many days it expires; by default never."""


class NewToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Name
    expires_in_days: Annotated[Days | UnsetType | None, Field(metavar="N")] = UNSET
    """After how many days it ends. If this is left out: after 90 days, or with the token that it is made with before. Null: never."""
