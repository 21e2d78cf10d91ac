"""People: one-time links, by which also the first administrator logs in, users, and the API tokens for their scripts."""

from msgspec import UnsetType

from terracrew.api.access import ApiToken, User
from terracrew.api.pages import Page
from terracrew.errors import Conflict, Invalid, Unauthenticated
from terracrew.server.addresses import limit_key
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Row, Tx
from terracrew.server.identity import limits
from terracrew.server.identity.limits import LoginGuard
from terracrew.server.identity.people import acting, logins, passwords, sessions, store
from terracrew.server.identity.people.sessions import Session
from terracrew.server.paging import page, start
from terracrew.server.principals import authorize, delegation
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import SYSTEM, Principal
from terracrew.server.secrets import credentials
from terracrew.server.tree.groups import organization_store

ADMINISTRATOR = "admin"
"""The name that the first start gives to the administrator, who may be renamed."""
LINK_LIFETIME_SECONDS = 3600.0
"""How long a link for immediate use is valid: the one of the first start, and those that users create for themselves."""
INVITATION_LIFETIME_SECONDS = 24 * 3600.0
"""How long a link that is sent to another person is valid."""
MAX_TOKENS = 200
"""The most API tokens that a user may have, also expired ones that are not removed yet."""
TOO_MANY_TOKENS = f"you have {MAX_TOKENS} API tokens: revoke those that are no longer used"
DEFAULT_TOKEN_DAYS = 90
"""How long an API token is valid, unless its owner says otherwise."""
RESERVED_NAMES = frozenset({"me", "system"})
"""Names that mean something else wherever a user is named: the caller, and the server itself in the audit log."""
WRONG_LINK = "this link is used up, expired or wrong: have a new one made on the server's machine"


# One-time links of the first start, and for people who cannot log in


async def renew_first_link(db: Database) -> str | None:
    """Make a new link if the administrator has not set a password yet, because the earlier link may have expired."""
    link = credentials.new("tcl")

    async def work(tx: Tx) -> str | None:
        found = await store.password_of(tx, (await store.administrator(tx)).id)
        if found is None or found[1] is not None:
            return None
        await link_user(tx, found[0], link, SYSTEM)
        return link.text

    return await db.write(work)


async def make_link(db: Database, user: str | None = None, who: Principal = SYSTEM) -> str:
    """Return the token of a new link for a user, by name or id, or for the administrator. Users do this for themselves, or
    somebody on the server's machine."""
    token, _ = await replace_link(db, user or (await db.read(store.administrator)).id, who)
    return token


async def replace_link(db: Database, user: str, who: Principal) -> tuple[str, bool]:
    """Return the token of a new link, and whether it replaces an earlier link of that user that could still be used."""
    link = credentials.new("tcl")

    async def work(tx: Tx) -> bool:
        return await link_user(tx, await store.user(tx, user), link, who)

    return link.text, await db.write(work)


async def link_user(
    tx: Tx, user: User, link: credentials.Secret, who: Principal, lifetime_seconds: float = LINK_LIFETIME_SECONDS
) -> bool:
    if (await store.hold_user(tx, user.id)).is_disabled:
        raise Conflict(f"{user.name} is disabled: enable the user first")
    is_replaced = await store.insert_link(tx, user.id, link.sha256, tx.now + lifetime_seconds, who.id)
    await audit.record(tx, who, "user.link", "user", user.id, {"name": user.name}, organization_id=user.organization_id)
    return is_replaced


def link_url(url: str, token: str) -> str:
    return f"{url.rstrip('/')}/login/link/{token}"


async def link_owner(guard: LoginGuard, token: str, address: str) -> User:
    """Return the user whom a link would log in, without using the link up, so that a program that previews links does no harm."""
    sha256 = credentials.digest(token)
    user = await guard.db.read(lambda tx: acting.owner(tx, sha256))
    if user is None:
        guard.failures.note("link.fail", address)
        guard.limits.attempt(limits.ADDRESS.of(f"link:{limit_key(address)}"))
        raise Unauthenticated(WRONG_LINK)
    return user


async def redeem_link(guard: LoginGuard, token: str, address: str, password: str | None = None) -> Session:
    """Use a link up: log its owner in, and set the password if one is given."""
    await link_owner(guard, token, address)
    password_hash = None if password is None else await passwords.hashed(password)
    sha256 = credentials.digest(token)

    async def work(tx: Tx) -> Session:
        user = await acting.owner(tx, sha256)
        if user is None or not await store.take_link(tx, sha256):
            raise Unauthenticated(WRONG_LINK)
        await logins.require_local_login(tx, user)
        if password_hash is not None:
            await logins.store_password(tx, user, password_hash, sessions.person(user, None, address))
        return await logins.start_session(tx, user, "link", address)

    return await guard.db.write(work)


# Users


def check_name(name: str) -> None:
    if not logins.NAME.match(name):
        raise Invalid(
            "a user's name must start with a letter or digit and contain only lower-case letters, digits and . _ @ + -"
        )
    if name in RESERVED_NAMES:
        raise Invalid(f"no user can be named {name!r}, because this word means something else: choose another name")


async def check_name_in(tx: Tx, organization_id: str, name: str) -> None:
    """Refuse a name that a user of another organization could have, so that a name that is taken tells nothing about other
    organizations: names are unique on the whole server, because people log in with nothing else.

    The names of the first organization have no `@`, or are addresses of e-mail, whose part after it has a dot. Those of every other
    organization end with `@` and its own name, which has no dot.
    """
    first, own = await organization_store.first(tx), await organization_store.find(tx, organization_id)
    end = name.partition("@")[2]
    if first is None or own is None or first.id == own.id:
        if "@" in name and "." not in end:
            raise Invalid(
                f"a user's name must have no @ in it, or be an address of e-mail: {name!r} is neither", field="name"
            )
    elif end != own.name:
        given = name.partition("@")[0]
        raise Invalid(
            f"the names of users of the organization {own.name} end with @{own.name}, because names are unique on the whole server: "
            f"use `{given}@{own.name}`",
            field="name",
        )


async def create_user(db: Database, who: Principal, name: str, is_system_admin: bool) -> tuple[User, str | None]:
    """Create a user without roles in the caller's organization. Returns the user and the token of a link to log in with.

    Whoever has the link controls the account, also when the credential that made it has ended. So a person who is logged in gets
    one, and an API token or a client secret does not.
    """
    check_name(name)
    link = credentials.new("tcl")
    if is_system_admin:
        delegation.require_login(who, "make an administrator")
    delegation.require_no_end(who, "a user")

    async def work(tx: Tx) -> User:
        await authorize.require(tx, who, Verb.ACCESS_WRITE, authorize.organization(who.organization_id))
        if is_system_admin:
            await authorize.require(tx, who, Verb.SERVER_ADMIN, authorize.SERVER)
        await check_name_in(tx, who.organization_id or "", name)
        user = await store.insert_user(tx, who.organization_id or "", name, is_system_admin=is_system_admin)
        details = {"name": name, "is_system_admin": is_system_admin}
        await audit.record(tx, who, "user.create", "user", user.id, details)
        if not delegation.is_bound(who):
            await link_user(tx, user, link, who, INVITATION_LIFETIME_SECONDS)
        return user

    try:
        return await db.write(work), None if delegation.is_bound(who) else link.text
    except Conflict as error:
        if error.details.get("constraint") != "users_name":
            raise
        raise Conflict(f"there is a user {name!r} already") from None


# API tokens


async def create_token(
    db: Database, who: Principal, name: str, expires_in_days: int | UnsetType | None
) -> tuple[ApiToken, credentials.Secret]:
    """Create a token that acts as its owner. Its text is shown only once. It expires no later than the token it was created with.

    Without a number of days, it expires after `DEFAULT_TOKEN_DAYS`; with None, it does not expire.
    """
    authorize.require_person(who)
    if not name.isprintable():
        raise Invalid.in_field("name", "there are characters that cannot be printed in it")
    secret = credentials.new("tcu")

    try:
        return await db.write(lambda tx: make_token(tx, who, name, expires_in_days, secret)), secret
    except Conflict as error:
        if error.details.get("constraint") != "api_tokens_name":
            raise
        raise Conflict(f"you have a token named {name!r} already") from None


async def make_token(
    tx: Tx,
    who: Principal,
    name: str,
    expires_in_days: int | UnsetType | None,
    secret: credentials.Secret,
    *,
    by: str = "",
    is_engine_login: bool = False,
    is_cli_login: bool = False,
) -> ApiToken:
    """Insert a token that acts as its owner, and record who made it. `by` names the command that it is made for.

    The row of the user is locked: who disables the user revokes this token, or has disabled them before.
    """
    if (await store.hold_user(tx, who.id)).is_disabled:
        raise Unauthenticated("this user is disabled")
    if await store.count_tokens(tx, who.id) >= MAX_TOKENS:
        raise Conflict(TOO_MANY_TOKENS)
    if isinstance(expires_in_days, UnsetType):
        expires_at = delegation.default_expiry(who, tx.now, DEFAULT_TOKEN_DAYS)
    else:
        expires_at = delegation.expiry(who, tx.now, expires_in_days)
    token = await store.insert_token(
        tx, who.id, name, secret.sha256, expires_at, is_engine_login=is_engine_login, is_cli_login=is_cli_login
    )
    home = (await store.user(tx, who.id)).organization_id
    details = {"name": name} | ({"by": by} if by else {})
    await audit.record(tx, who, "token.create", "token", token.id, details, organization_id=home)
    return token


async def create_local_token(db: Database, user: User, name: str, lifetime_seconds: float) -> credentials.Secret:
    """Create a token for the server's own machine. If it is used there, it counts like a login."""
    secret = credentials.new("tcu")

    async def work(tx: Tx) -> None:
        ends_at = tx.now + lifetime_seconds
        token = await store.insert_token(tx, user.id, name, secret.sha256, ends_at, is_local=True)
        details = {"name": name, "is_local": True}
        organization_id = user.organization_id
        await audit.record(tx, SYSTEM, "token.create", "token", token.id, details, organization_id=organization_id)

    await db.write(work)
    return secret


async def tokens(tx: Tx, who: Principal, after: str | None, limit: int) -> Page[ApiToken]:
    authorize.require_person(who)
    return page(await store.tokens(tx, who.id, start(after), limit + 1), limit)


async def ending_tokens(tx: Tx, who: Principal, until: float, count: int) -> list[Row]:
    """Return the caller's own tokens that end next, before a time; none for somebody who is not a person."""
    return await store.ending_tokens(tx, who.id, until, count) if who.kind == "user" else []


async def revoke_token(tx: Tx, who: Principal, token_id: str) -> None:
    authorize.require_person(who)
    name = await store.delete_token(tx, who.id, token_id)
    home = (await store.user(tx, who.id)).organization_id
    await audit.record(tx, who, "token.revoke", "token", token_id, {"name": name}, organization_id=home)
    tx.wake("access", who.id)
