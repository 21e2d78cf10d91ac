"""Makes the API token of a login at a terminal, and revokes it when its code turns out to have been copied."""

import msgspec

from terracrew.api.access import ApiToken
from terracrew.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated
from terracrew.server.addresses import limit_key
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.identity import limits
from terracrew.server.identity.limits import LoginGuard
from terracrew.server.identity.people import service as people
from terracrew.server.identity.people import sessions
from terracrew.server.identity.people import store as people_store
from terracrew.server.identity.terminal_logins.model import Client
from terracrew.server.principals import authorize
from terracrew.server.principals.model import Principal
from terracrew.server.secrets import credentials

REFUSED = "this code is used up, expired or wrong: log in again"


class Allowed(msgspec.Struct, frozen=True):
    """What a person has allowed a command line."""

    client: Client
    user_id: str
    session_id: str
    name: str
    days: int | None


def require_session(who: Principal) -> None:
    """Refuse everything but a person in a browser: a token must not make another one that outlives it."""
    authorize.require_person(who)
    if who.credential != "session":
        raise Forbidden("only a person who is logged in to the dashboard can allow this: open the address in a browser")


async def check_name(tx: Tx, who: Principal, client: Client, name: str) -> None:
    """Refuse a name that belongs to a token which no login with this command line has got, and a token too many."""
    tokens = await people_store.tokens(tx, who.id, "", people.MAX_TOKENS)
    same = next((each for each in tokens if each.name == name), None)
    if same is not None and not client.has_made(same):
        raise Conflict(f"you have a token named {name!r} already, which is not of a command line: choose another name")
    if same is None and len(tokens) >= people.MAX_TOKENS:
        raise Conflict(people.TOO_MANY_TOKENS)


async def make(tx: Tx, allowed: Allowed, secret: credentials.Secret, address: str) -> ApiToken | None:
    """Make the token, unless the person can no longer log in or has ended the session that allowed it.

    It replaces the token of this name that an earlier login with the same command line has got.
    """
    seen_after = tx.now - sessions.IDLE_SECONDS
    known = await people_store.find_user(tx, allowed.user_id)
    user = None if known is None else await people_store.hold_user(tx, known.id)  # before its session is looked at
    if user is None or not await people_store.is_session_open(tx, user.id, allowed.session_id, seen_after):
        return None
    who = sessions.person(user, allowed.session_id, address)
    for each in await people_store.tokens(tx, user.id, "", people.MAX_TOKENS):
        if each.name == allowed.name and allowed.client.has_made(each):
            await people.revoke_token(tx, who, each.id)
    by = allowed.client.commands[0]
    is_engine = allowed.client.is_engine
    try:
        return await people.make_token(
            tx, who, allowed.name, allowed.days, secret, by=by, is_engine_login=is_engine, is_cli_login=not is_engine
        )
    except Conflict as error:
        raise Invalid(error.message) from None


async def revoke_copied(tx: Tx, user_id: str | None, token_id: str | None, address: str) -> None:
    """Revoke the token that was made with a code which is used again."""
    user = await people_store.find_user(tx, user_id or "")
    if user is None or token_id is None:
        return
    try:
        name = await people_store.delete_token(tx, user.id, token_id)
    except NotFound:  # it was revoked before
        return
    who = Principal("anonymous", "", "somebody with a used code", None, address=address)
    details = {"name": name, "user": user.name, "reason": "the code that it was made with was used again"}
    await audit.record(tx, who, "token.revoke", "token", token_id, details, organization_id=user.organization_id)
    tx.wake("access", user.id)


async def record(tx: Tx, who: Principal, action: str, details: dict[str, object]) -> None:
    home = (await people_store.user(tx, who.id)).organization_id
    await audit.record(tx, who, action, "user", who.id, details, organization_id=home)


def failed(guard: LoginGuard, address: str) -> Unauthenticated:
    """Count a failure, and return the error to answer with."""
    key = limits.ADDRESS.of(f"terminal_login:{limit_key(address)}")
    guard.failures.note("terminal_login.fail", address)
    guard.limits.attempt(key)
    return Unauthenticated(REFUSED)
