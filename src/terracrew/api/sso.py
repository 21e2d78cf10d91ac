"""Single sign-on: the providers of an organization, the rules that turn claims into roles, and what the last logins brought."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from terracrew.api import fields
from terracrew.api.access import Role
from terracrew.api.fields import UNCHANGED, Field

MAX_PROVIDER_NAME_CHARACTERS = 60
MAX_CLAIM_CHARACTERS = 200
MAX_VALUE_CHARACTERS = 256
MAX_CONFIRM_DAYS = 90
DEFAULT_CONFIRM_DAYS = 14
DEFAULT_SCOPES = "openid profile email"

ProviderName = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_PROVIDER_NAME_CHARACTERS)]
ClientId = Annotated[str, msgspec.Meta(max_length=500)]
ClientSecret = Annotated[str, msgspec.Meta(max_length=2000)]
ClaimName = Annotated[str, msgspec.Meta(max_length=MAX_CLAIM_CHARACTERS)]
ClaimValue = Annotated[str, msgspec.Meta(max_length=MAX_VALUE_CHARACTERS)]
ConfirmDays = Annotated[int, msgspec.Meta(ge=1, le=MAX_CONFIRM_DAYS)]
Outcome = Literal["in", "refused", "failed"]


class ProviderSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What people choose about a provider."""

    client_id: Annotated[ClientId, Field(metavar="ID", label="Client id")] = ""
    """The id of the client that the provider knows this server as. It may follow later, before the provider is enabled."""
    scopes: Annotated[Annotated[str, msgspec.Meta(max_length=500)], Field(metavar="SCOPES")] = DEFAULT_SCOPES
    """What is asked for, separated by spaces. With `offline_access`, most providers give a token by which roles follow each hour."""
    name_claim: Annotated[ClaimName, Field(metavar="CLAIM", label="Claim with the name")] = "preferred_username"
    """The claim from which the name of a new user is made."""
    groups_claim: Annotated[ClaimName, Field(metavar="CLAIM", label="Claim with the groups")] = "groups"
    """The claim that has a person's groups. A name that begins with `/` is a JSON pointer."""
    admit_claim: Annotated[ClaimName, Field(metavar="CLAIM", label="Only people with the claim")] = ""
    """Only people whose claim has the value of the next option are let in; empty for everybody whom the provider lets in."""
    admit_value: Annotated[ClaimValue, Field(metavar="VALUE", label="and its value")] = ""
    """What that claim must be or contain; `*` and `?` stand for other characters."""
    makes_users: Annotated[bool, Field(label="First login makes a user", option="--makes-users")] = True
    """Whether the first login of a person makes a user. Otherwise somebody links the person to a user."""
    reads_userinfo: Annotated[bool, Field(label="Ask the userinfo endpoint", option="--reads-userinfo")] = False
    """Whether claims are also read from the provider's userinfo endpoint."""
    is_trusted: Annotated[bool, Field(label="Trusted", option="--trusted")] = False
    """Whether it may log in administrators of the server and people with roles in other organizations. Only such administrators
    decide this."""
    is_enabled: Annotated[bool, Field(label="Enabled", option="--enabled")] = False
    """Whether people can log in by it."""
    confirm_days: Annotated[ConfirmDays, Field(metavar="DAYS", label="Roles end after days without a login")] = (
        DEFAULT_CONFIRM_DAYS
    )
    """After how many days without a login or a refresh a person loses the roles that the rules gave."""
    ends_session_there: Annotated[bool, Field(label="Log out there, too", option="--ends-session-there")] = True
    """Whether a logout here leads to the provider's own logout, if it has one."""
    returns_after_logout: Annotated[bool, Field(label="Come back after it", option="--returns-after-logout")] = False
    """Whether the provider is asked to lead back to the login page afterwards. Its client has to know that address first."""
    allows_self_link: Annotated[bool, Field(label="People link themselves", option="--self-link")] = False
    """Whether people link their own user to their person at the provider, on their account page."""


class IdentityProvider(ProviderSettings, frozen=True, kw_only=True):
    """A service of an organization by which its people log in: OpenID Connect."""

    id: str
    organization_id: str
    name: str
    """What the button on the login page says."""
    issuer: str
    """The `iss` of its tokens, compared exactly. Everything else is found below this address."""
    created_by: str
    created_at: datetime


class ProviderDetails(IdentityProvider, frozen=True, kw_only=True):
    """A provider with what its own settings need of this server."""

    has_secret: bool = False
    redirect_uri: str = ""
    backchannel_logout_uri: str = ""
    frontchannel_logout_uri: str = ""
    post_logout_redirect_uri: str = ""


class NewProvider(ProviderSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A provider to create."""

    name: ProviderName
    issuer: str
    client_secret: Annotated[ClientSecret, Field(option=None, label="Client secret")] = ""
    """The secret of the client, which cannot be read back; empty for a client without one."""

    def __repr__(self) -> str:
        return f"NewProvider({self.name!r})"


@fields.change
class ProviderChange(ProviderSettings, frozen=True, kw_only=True):
    """What to change; what is left out stays. The issuer stays: another issuer knows other people by the same `sub`."""

    name: Annotated[ProviderName, Field(metavar="NAME")] = UNCHANGED
    """What the button on the login page says."""
    client_secret: Annotated[ClientSecret, Field(option=None, label="Client secret")] = UNCHANGED
    """The secret of the client, which cannot be read back; empty removes it."""

    def __repr__(self) -> str:
        return "ProviderChange(…)"


class MappingRule(msgspec.Struct, frozen=True):
    """Who has this claim has this role at this place."""

    id: str
    claim: str
    """The name of a claim; `groups` are the person's groups, whatever the provider calls them."""
    is_pattern: bool
    """Whether `*` and `?` in the value stand for other characters."""
    value: str
    role: Role
    path: str
    """The group or the module; empty for the whole organization."""
    is_module: bool = False
    created_by: str = ""
    created_at: datetime | None = None


class NewRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    value: ClaimValue
    """What the claim must be or contain."""
    role: Role
    path: str = ""
    """The path of a group or a module; empty for the whole organization."""
    claim: ClaimName = "groups"
    is_pattern: bool = False


class RuleMatch(msgspec.Struct, frozen=True):
    """A rule that applies to a person, and the values of the claim because of which it does."""

    rule_id: str
    values: tuple[str, ...]


class GivenRole(msgspec.Struct, frozen=True):
    """A role that follows from rules; if several rules give roles at one place, the strongest of them."""

    role: Role
    path: str
    is_module: bool
    rule_id: str


class LoginSeen(msgspec.Struct, frozen=True):
    """A login, with the claims that arrived, the rules that match them now, and the roles that follow."""

    id: str
    provider_id: str
    subject: str
    user_id: str | None
    outcome: Outcome
    reason: str
    claims: dict[str, Any]
    address: str | None
    created_at: datetime
    user: str = ""
    matches: tuple[RuleMatch, ...] = ()
    roles: tuple[GivenRole, ...] = ()
    notes: tuple[str, ...] = ()
    """What an administrator should know of these claims, such as groups that the provider left out."""


class DryRunRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What would be if a rule were added, or took the place of another one, or if that one were removed."""

    replaces: str = ""
    """The id of the rule that the new one takes the place of; without a new one, it is removed."""
    rule: NewRule | None = None


class DryRunPerson(msgspec.Struct, frozen=True):
    user_id: str
    user: str
    subject: str
    gained: tuple[GivenRole, ...]
    lost: tuple[GivenRole, ...]
    """With what would be left at the same place among `gained`."""


class DryRun(msgspec.Struct, frozen=True):
    people: tuple[DryRunPerson, ...]
    """The people whose roles would change."""
    examined: int
    """How many people of the provider were looked at: those with the latest logins."""


class LoginPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    is_single_sign_on_required: bool
    """Whether people of the organization log in by its providers only. Its local administrators still have their passwords."""


class LinkIdentity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Links a person of a provider to a user, by the `sub` that the provider knows the person by."""

    subject: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    user: str


class LinkedIdentity(msgspec.Struct, frozen=True):
    id: str
    provider_id: str
    provider: str
    issuer: str
    subject: str
    user_id: str
    user: str
    confirmed_at: datetime
    created_at: datetime
