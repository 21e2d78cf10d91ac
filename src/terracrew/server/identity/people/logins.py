"""Logs people in by password, logs them out, and changes their passwords."""

import re
import time

from terracrew.api.access import PasswordChanged, User
from terracrew.errors import Forbidden, RateLimited, Unauthenticated, Unavailable
from terracrew.server.addresses import UNKNOWN, limit_key
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.identity import limits
from terracrew.server.identity.limits import LoginGuard
from terracrew.server.identity.people import devices, passwords, sessions, store, user_reads
from terracrew.server.identity.people.sessions import Session
from terracrew.server.principals import authorize, delegation
from terracrew.server.principals.model import Principal
from terracrew.server.secrets import credentials

NAME = re.compile(r"(?!usr_)[a-z0-9][a-z0-9._@+-]{0,99}\Z")
"""The pattern of a user's name."""
WRONG_LOGIN = "the name or the password is wrong"


async def login(guard: LoginGuard, name: str, password: str, address: str, device: str | None = None) -> Session:
    """Check a password and start a session. `device` is the cookie of a browser that somebody has logged in with before.

    Wrong passwords are counted for this name from this address, and for the address as a whole. A browser that this
    person has used before has its own count, so nobody else can use up its limit.
    """
    name = name[:200].strip().lower()
    try:
        attempt = guard.limits.attempt(*_limit_keys(guard, name, address, device))
    except RateLimited:
        guard.failures.note_login(address, name, is_limited=True)
        raise
    found = await guard.db.read(lambda tx: store.password_of(tx, name)) if NAME.match(name) else None
    if not await _matches(attempt, password, found[1] if found else None):
        guard.failures.note_login(address, name, found[0] if found else None)
        raise Unauthenticated(WRONG_LOGIN)

    async def work(tx: Tx) -> Session:
        user = await store.password_of(tx, name)
        if user is None or user != found:  # the user was disabled or got another password in the meantime
            raise Unauthenticated(WRONG_LOGIN)
        await require_local_login(tx, user[0])
        return await start_session(tx, user[0], "password", address)

    return await guard.db.write(work)


async def _matches(attempt: limits.LoginAttempt, password: str, password_hash: str | None) -> bool:
    """Compare a password with its hash. The attempt is refunded unless the password was found to be wrong."""
    try:
        is_right = await passwords.matches(password, password_hash)
    except Unavailable:  # nothing was evaluated
        attempt.refund()
        raise
    if is_right:
        attempt.refund()
    return is_right


def _limit_keys(guard: LoginGuard, name: str, address: str, device: str | None) -> list[limits.Key]:
    if known := devices.known_id(guard.keys, device, name, time.time()):
        return [limits.GUESSES.of(f"device:{known}")]
    network = limit_key(address)
    return [limits.GUESSES.of(f"login:{network}:{name}"), limits.ADDRESS.of(f"login:{network}")]


async def require_local_login(tx: Tx, user: User) -> None:
    """Refuse passwords and links of users whose organization wants them to log in by single sign-on."""
    if await user_reads.must_sign_in_at_provider(tx, user.id):
        raise Unauthenticated("people of your organization log in by single sign-on: use its button")


async def start_session(
    tx: Tx, user: User, by: str, address: str, lifetime_seconds: float = sessions.SESSION_SECONDS
) -> Session:
    if not await store.note_login(tx, user.id):
        raise Unauthenticated("this user is disabled, or was deleted")
    session = await sessions.start(tx, user, address, lifetime_seconds)
    who = sessions.person(user, session.id, address)
    await audit.record(tx, who, "session.start", "session", session.id, {"by": by})
    return session


async def logout(db: Database, session_token: str, address: str | None = None) -> None:
    """End this session; other sessions of the same user stay."""

    async def work(tx: Tx) -> None:
        ended = await store.delete_session(tx, credentials.digest(session_token))
        if ended is not None:
            who = sessions.person(await store.user(tx, ended["user_id"]), ended["id"], address)
            await audit.record(tx, who, "session.end", "session", ended["id"])
            tx.wake("access", who.id)

    await db.write(work)


async def set_password(guard: LoginGuard, who: Principal, password: str, current: str | None) -> PasswordChanged:
    """Change the caller's own password. All other sessions and all API tokens end.

    The current password is required, with a session as well as with a token. A user without a password must be logged in.
    """
    authorize.require_person(who)
    passwords.check_strength(password)
    found = await guard.db.read(lambda tx: store.password_of(tx, who.id))
    if found is None:
        raise Unauthenticated(WRONG_LOGIN)
    if found[1] is None:
        delegation.require_login(who, "set the first password of an account")
    else:
        await _check_current(guard, who, current or "", found[1])
    password_hash = await passwords.hashed(password)
    keep = who.credential_id if who.credential == "session" else None
    return await guard.db.write(lambda tx: store_password(tx, found[0], password_hash, who, keep))


async def _check_current(guard: LoginGuard, who: Principal, current: str, password_hash: str) -> None:
    address, key = who.address or UNKNOWN, limits.GUESSES.of(f"password:{who.id}")
    try:
        attempt = guard.limits.attempt(key)
    except RateLimited:
        guard.failures.note("password.fail", address, "user", who.id, who.organization_id, is_limited=True)
        raise
    if not await _matches(attempt, current, password_hash):
        guard.failures.note("password.fail", address, "user", who.id, who.organization_id)
        raise Forbidden("the current password is wrong")


async def store_password(
    tx: Tx, user: User, password_hash: str, who: Principal, keep_session: str | None = None
) -> PasswordChanged:
    """Store a new password. Links that were made before end. A first password revokes no tokens, because nobody can have
    logged in with an old one."""
    await store.hold_user(tx, user.id)  # who disables the user removes this password, or has disabled them before
    before = await store.password_of(tx, user.id)
    if before is None:
        raise Unauthenticated("this user is disabled, or was deleted")
    await store.set_password(tx, user.id, password_hash)
    await store.delete_links_of(tx, user.id)
    ended = await store.delete_sessions_of(tx, user.id, but=keep_session)
    revoked = await store.delete_tokens_of(tx, user.id) if before[1] is not None else 0
    details = {"name": user.name, "sessions": ended, "tokens": revoked}
    await audit.record(tx, who, "user.password", "user", user.id, details, organization_id=user.organization_id)
    tx.wake("access", user.id)
    return PasswordChanged(ended, revoked)
