"""People, tokens, service accounts and roles over HTTP."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from litestar import Router, delete, get, patch, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery, JSONBody

from terracrew import ids
from terracrew.server.api.access import connect
from terracrew.server.api.context import ApiCall
from terracrew.server.identity.access import service as access
from terracrew.server.identity.access import store as access_store
from terracrew.server.identity.access.model import ClientSecret, RoleBinding, ServiceAccount
from terracrew.server.identity.people import logins, oversight, service
from terracrew.server.identity.people.model import ApiToken, OpenSession, User
from terracrew.server.paging import After, Limit, Page
from terracrew.server.principals import authorize, delegation
from terracrew.server.principals.model import PrincipalKind, Role

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Days = Annotated[int, msgspec.Meta(ge=1, le=3650)]


class Me(msgspec.Struct, frozen=True):
    kind: PrincipalKind
    id: str
    name: str
    organization_id: str | None
    is_system_admin: bool
    roles: list[RoleBinding]


class NewToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Name
    expires_in_days: Days | None = None


class CreatedToken(msgspec.Struct, frozen=True):
    id: str
    name: str
    expires_at: datetime | None
    token: str
    """Shown this once."""


class NewUser(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Name
    is_system_admin: bool = False


class CreatedUser(msgspec.Struct, frozen=True):
    user: User
    link: str
    """The link with which the new user logs in once and sets a password. It is shown only once."""


class UserChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    is_disabled: bool


class NewServiceAccount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Name
    group: str = ""


class NewSecret(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    expires_in_days: Days | None = None


class CreatedSecret(msgspec.Struct, frozen=True):
    id: str
    client_id: str
    expires_at: datetime | None
    client_secret: str
    """Shown this once."""


class NewRole(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    principal: Name
    """Name or id of a user, or id of a service account."""
    role: Role
    path: str = ""
    kind: Literal["group", "module"] = "group"


@get("/me", summary="Show who you are")
async def me(request: ApiCall) -> Me:
    """Show the person or service account that this request acts for, with its roles."""
    who = request.user
    roles = await request.context.db.read(lambda tx: access_store.roles_of(tx, who.id))
    return Me(who.kind, who.id, who.name, who.organization_id, who.is_system_admin, roles)


class Link(msgspec.Struct, frozen=True):
    link: str
    replaces_earlier_link: bool = False
    """Whether a link that was made before, and not used yet, has ended with this one."""

    def __repr__(self) -> str:
        return "Link(…)"


@post("/me/link", summary="Make a link that logs you in, once")
async def my_link(request: ApiCall) -> Link:
    """For a person who has a token and wants the dashboard."""
    who = request.user
    authorize.require_person(who)
    delegation.require_login(who, "make a link that logs you in")
    token, is_replaced = await service.replace_link(request.context.db, who.id, who)
    return Link(service.link_url(request.context.settings.url, token), is_replaced)


@get("/tokens", summary="List your API tokens")
async def list_tokens(request: ApiCall, after: After = None, limit: Limit = 50) -> Page[ApiToken]:
    """List your tokens. The tokens themselves are stored nowhere and cannot be shown again."""
    who = request.user
    return await request.context.db.read_in_background(lambda tx: service.tokens(tx, who, after, limit))


@post("/tokens", summary="Create an API token")
async def create_token(request: ApiCall, data: JSONBody[NewToken]) -> CreatedToken:
    """Create a token that may do what you may do. The answer shows it once."""
    token, secret = await service.create_token(request.context.db, request.user, data.name, data.expires_in_days)
    return CreatedToken(token.id, token.name, token.expires_at, secret.text)


@delete("/tokens/{token_id:str}", summary="Revoke an API token")
async def revoke_token(request: ApiCall, token_id: FromPath[str]) -> None:
    """Revoke a token. Requests with it are refused from now on."""
    who, it = request.user, ids.parse("tok", token_id)
    await request.context.db.write(lambda tx: service.revoke_token(tx, who, it))


@get("/users", summary="List users")
async def list_users(request: ApiCall, after: After = None, limit: Limit = 50) -> Page[User]:
    """List the users of your organization."""
    who = request.user
    return await request.context.db.read_in_background(lambda tx: service.users(tx, who, after, limit))


@post("/users", summary="Create a user")
async def create_user(request: ApiCall, data: JSONBody[NewUser]) -> CreatedUser:
    """Create a user without a role. The response has a link with which they log in once and set a password."""
    user, link = await service.create_user(request.context.db, request.user, data.name, data.is_system_admin)
    return CreatedUser(user, service.link_url(request.context.settings.url, link))


@patch("/users/{user_id:str}", summary="Disable or enable a user")
async def change_user(request: ApiCall, user_id: FromPath[str], data: JSONBody[UserChange]) -> User:
    """Disable a user, which ends their sessions and tokens, or enable them again."""
    who, it = request.user, ids.parse("usr", user_id)
    return await request.context.db.write(lambda tx: service.set_disabled(tx, who, it, data.is_disabled))


class NewPassword(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    new_password: str
    current_password: str | None = None
    """A user who logged in with a link and has no password yet does not need it."""

    def __repr__(self) -> str:
        return "NewPassword(…)"


@post("/me/password", summary="Change your password", status_code=200)
async def change_password(request: ApiCall, data: JSONBody[NewPassword]) -> logins.PasswordChanged:
    """Change your password. Your other sessions and all of your API tokens end, the one that you use here included."""
    identity = request.context.identity
    return await logins.set_password(identity, request.user, data.new_password, data.current_password)


class Ended(msgspec.Struct, frozen=True):
    ended: int


@get("/users/{user:str}/sessions", summary="List the sessions of a user")
async def list_sessions(
    request: ApiCall, user: FromPath[str], after: After = None, limit: Limit = 50
) -> Page[OpenSession]:
    """List where a user is logged in. `user` is a name, an id or `me`; for others it takes the right to manage access."""
    who = request.user
    return await request.context.db.read_in_background(lambda tx: oversight.list_sessions(tx, who, user, after, limit))


@delete("/users/{user:str}/sessions", summary="End all sessions of a user", status_code=200)
async def end_sessions(request: ApiCall, user: FromPath[str]) -> Ended:
    """Log a user out everywhere, except that your own current session stays."""
    who = request.user
    return Ended(await request.context.db.write(lambda tx: oversight.end_sessions(tx, who, user)))


@delete("/users/{user:str}/sessions/{session_id:str}", summary="End a session of a user")
async def end_session(request: ApiCall, user: FromPath[str], session_id: FromPath[str]) -> None:
    """End one session. The browser that has it must log in again."""
    who, it = request.user, ids.parse("ses", session_id)
    await request.context.db.write(lambda tx: oversight.end_session(tx, who, user, it))


@get("/users/{user:str}/tokens", summary="List the API tokens of a user")
async def list_tokens_of(
    request: ApiCall, user: FromPath[str], after: After = None, limit: Limit = 50
) -> Page[ApiToken]:
    """List the tokens of a user. `user` is a name, an id or `me`; for others it takes the right to manage access."""
    who = request.user
    return await request.context.db.read_in_background(lambda tx: oversight.list_tokens(tx, who, user, after, limit))


@delete("/users/{user:str}/tokens/{token_id:str}", summary="Revoke an API token of a user")
async def revoke_token_of(request: ApiCall, user: FromPath[str], token_id: FromPath[str]) -> None:
    """Revoke a token of a user. Requests with it are refused from now on."""
    who, it = request.user, ids.parse("tok", token_id)
    await request.context.db.write(lambda tx: oversight.revoke_token(tx, who, user, it))


@get("/service-accounts", summary="List service accounts")
async def list_accounts(
    request: ApiCall, group: FromQuery[str] = "", after: After = None, limit: Limit = 50
) -> Page[ServiceAccount]:
    """List the service accounts of a group and below it."""
    who = request.user
    return await request.context.db.read_in_background(lambda tx: access.accounts(tx, who, group, after, limit))


@post("/service-accounts", summary="Create a service account")
async def create_account(request: ApiCall, data: JSONBody[NewServiceAccount]) -> ServiceAccount:
    """Create an account for programs in a group. It has no role and no secret yet."""
    return await access.create_account(request.context.db, request.user, data.name, data.group)


@delete("/service-accounts/{account_id:str}", summary="Delete a service account")
async def delete_account(request: ApiCall, account_id: FromPath[str]) -> None:
    """Delete a service account with its secrets and roles."""
    who, it = request.user, ids.parse("sac", account_id)
    await request.context.db.write(lambda tx: access.delete_account(tx, who, it))


@get("/service-accounts/{account_id:str}/secrets", summary="List the secrets of a service account")
async def list_secrets(request: ApiCall, account_id: FromPath[str]) -> Page[ClientSecret]:
    """List the secrets of a service account. The secrets themselves cannot be shown again."""
    who, it = request.user, ids.parse("sac", account_id)
    return Page(await request.context.db.read(lambda tx: access.secrets(tx, who, it)))


@post("/service-accounts/{account_id:str}/secrets", summary="Add a secret to a service account")
async def create_secret(
    request: ApiCall, account_id: FromPath[str], data: JSONBody[NewSecret | None] = None
) -> CreatedSecret:
    """Add a secret with which the account gets access tokens at `/connect/token`. The answer shows it once."""
    wanted = data or NewSecret()
    account, stored, secret = await access.create_secret(
        request.context.db, request.user, ids.parse("sac", account_id), wanted.expires_in_days
    )
    return CreatedSecret(stored.id, f"{account.organization_id}:{account.id}", stored.expires_at, secret.text)


@delete("/service-accounts/{account_id:str}/secrets/{secret_id:str}", summary="Revoke a secret")
async def revoke_secret(request: ApiCall, account_id: FromPath[str], secret_id: FromPath[str]) -> None:
    """The tokens and connections that came of it end within seconds."""
    who, account, it = request.user, ids.parse("sac", account_id), ids.parse("sec", secret_id)
    await request.context.db.write(lambda tx: access.revoke_secret(tx, who, account, it))


@get("/roles", summary="List roles")
async def list_roles(request: ApiCall, after: After = None, limit: Limit = 50) -> Page[RoleBinding]:
    """List who has which role at which group or module."""
    who = request.user
    return await request.context.db.read_in_background(lambda tx: access.roles(tx, who, after, limit))


@post("/roles", summary="Give a role at a place of the tree")
async def bind_role(request: ApiCall, data: JSONBody[NewRole]) -> RoleBinding:
    """Give a user or a service account a role at a group, with everything below it, or at a module."""
    who = request.user
    return await request.context.db.write(
        lambda tx: access.bind_role(tx, who, data.principal, data.role, data.path, data.kind)
    )


@delete("/roles/{role_id:str}", summary="Take a role away")
async def unbind_role(request: ApiCall, role_id: FromPath[str]) -> None:
    """Take a role away. It ends at once."""
    who, it = request.user, ids.parse("rol", role_id)
    await request.context.db.write(lambda tx: access.unbind_role(tx, who, it))


_handlers: list[Any] = [
    me,
    my_link,
    list_tokens,
    create_token,
    revoke_token,
    list_users,
    create_user,
    change_user,
    list_accounts,
    create_account,
    change_password,
    list_sessions,
    end_sessions,
    end_session,
    list_tokens_of,
    revoke_token_of,
    delete_account,
    list_secrets,
    create_secret,
    revoke_secret,
    list_roles,
    bind_role,
    unbind_role,
]
router = Router(path="/api/v1", route_handlers=_handlers, tags=["access"])
routers: list[Router | HTTPRouteHandler] = [router, connect.token, connect.jwks, connect.openid_configuration]
