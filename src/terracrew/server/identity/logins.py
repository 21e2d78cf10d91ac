"""Logging in by password, logging out, and changing one's password."""

import re
import time

from terracrew.errors import Forbidden, RateLimited, Unauthenticated, Unavailable
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.identity import authorize, credentials, devices, limits, passwords, sessions, store
from terracrew.server.identity.context import Identity
from terracrew.server.identity.model import Principal, Session, User
from terracrew.server.transport.addresses import limit_key

NAME = re.compile(r"(?!usr_)[a-z0-9][a-z0-9._@+-]{0,99}\Z")
"""Names of users."""
WRONG_LOGIN = "the name or the password is wrong"


async def login(identity: Identity, name: str, password: str, address: str, device: str | None = None) -> Session:
    """Check a password and start a session. `device` is the cookie of a browser that somebody has logged in with before.

    Wrong passwords are counted for this name from this address, and for the address as a whole. A browser that this
    person has used before is counted by itself: nobody else can use its limit up.
    """
    name = name[:200].strip().lower()
    try:
        attempt = identity.limits.attempt(*_limit_keys(identity, name, address, device))
    except RateLimited:
        identity.failures.note_login(address, name, is_limited=True)
        raise
    found = await identity.db.read(lambda tx: store.password_of(tx, name)) if NAME.match(name) else None
    try:
        is_right = await passwords.matches(password, found[1] if found else None)
    except Unavailable:
        attempt.refund()  # nothing was evaluated
        raise
    if not is_right:
        identity.failures.note_login(address, name, found[0] if found else None)
        raise Unauthenticated(WRONG_LOGIN)
    attempt.refund()

    async def work(tx: Tx) -> Session:
        user = await store.password_of(tx, name)
        if user is None or user != found:  # disabled, or another password, since
            raise Unauthenticated(WRONG_LOGIN)
        return await start_session(tx, user[0], "password", address)

    return await identity.db.write(work)


def _limit_keys(identity: Identity, name: str, address: str, device: str | None) -> list[limits.Key]:
    if known := devices.known_id(identity.keys, device, name, time.time()):
        return [limits.GUESSES.of(f"device:{known}")]
    network = limit_key(address)
    return [limits.GUESSES.of(f"login:{network}:{name}"), limits.ADDRESS.of(f"login:{network}")]


async def start_session(tx: Tx, user: User, by: str, address: str) -> Session:
    session = await sessions.start(tx, user, address)
    who = sessions.person(user, session.id, address)
    await audit.record(tx, who, "session.start", "session", session.id, {"by": by})
    return session


async def logout(db: Database, session_token: str, address: str | None = None) -> None:
    """End this session; others of the same person go on."""

    async def work(tx: Tx) -> None:
        ended = await store.delete_session(tx, credentials.digest(session_token))
        if ended is not None:
            who = sessions.person(await store.user(tx, ended["user_id"]), ended["id"], address)
            await audit.record(tx, who, "session.end", "session", ended["id"])
            tx.wake("access", who.id)

    await db.write(work)


async def set_password(identity: Identity, who: Principal, password: str, current: str | None) -> None:
    """Change one's own password; all sessions end. Whoever has none yet needs no current one."""
    authorize.require_person(who)
    attempt = identity.limits.attempt(limits.GUESSES.of(f"password:{who.id}"))
    found = await identity.db.read(lambda tx: store.password_of(tx, who.id))
    if found is None:
        raise Unauthenticated(WRONG_LOGIN)
    if found[1] is not None and not await passwords.matches(current or "", found[1]):
        raise Forbidden("the current password is wrong")
    attempt.refund()
    password_hash = await passwords.hashed(password)
    await identity.db.write(lambda tx: store_password(tx, found[0], password_hash))


async def store_password(tx: Tx, user: User, password_hash: str) -> None:
    await store.set_password(tx, user.id, password_hash)
    await store.delete_sessions_of(tx, user.id)
    await audit.record(tx, sessions.person(user, None), "user.password", "user", user.id)
    tx.wake("access", user.id)
