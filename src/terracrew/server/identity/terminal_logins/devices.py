"""Lets a command line log in on a machine without a browser (RFC 8628): a person types its code into a page on any other machine.

The command line has the device code, with which it asks again and again, and shows the person the user code. A user code is short,
so guesses are limited, and what a right guess gives is only the question whether that terminal may act as the one who guessed.
"""

import re
import secrets
from typing import Literal

import msgspec

from terracrew.api.access import ApiToken
from terracrew.errors import Conflict, NotFound, RateLimited
from terracrew.server.addresses import limit_key
from terracrew.server.db.seam import Database, Tx
from terracrew.server.identity import limits
from terracrew.server.identity.limits import LoginGuard
from terracrew.server.identity.terminal_logins import model, store, tokens
from terracrew.server.identity.terminal_logins.model import DeviceLogin
from terracrew.server.principals.model import Principal
from terracrew.server.secrets import credentials

LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
"""The letters of user codes: no vowels, so that they spell nothing, and none that is read as another one (RFC 8628, 6.1)."""
CODE_CHARACTERS = 8
LIFETIME_SECONDS = 600.0
INTERVAL_SECONDS = 5.0
"""How long a command line waits between two requests, and how much longer after each that comes too early."""
EARLY_SECONDS = 0.5
"""A request that comes this much too early is in time: networks are not equally fast each time."""
MAX_WAITING = 10_000
"""How many logins may wait for a person at once, on the whole server."""
RETRY_AFTER_SECONDS = 60
_SEPARATORS = re.compile(r"[\s-]+")
NO_SUCH_CODE = "no terminal waits with this code: it is mistyped, has expired, or was answered before"
Pending = Literal["authorization_pending", "slow_down", "access_denied", "expired_token"]


class NewDevice(msgspec.Struct, frozen=True):
    """What a command line gets when it begins a login."""

    device_code: credentials.Secret
    user_code: str


async def begin(guard: LoginGuard, machine: str, address: str) -> NewDevice:
    """Begin a login for anybody who asks. It is worth nothing until a person answers it."""
    guard.limits.attempt(limits.ADDRESS.of(f"device_begin:{limit_key(address)}"))
    made = NewDevice(credentials.new("tca"), "".join(secrets.choice(LETTERS) for _ in range(CODE_CHARACTERS)))

    async def work(tx: Tx) -> None:
        if await store.count_waiting(tx) >= MAX_WAITING:
            raise RateLimited(
                f"{MAX_WAITING:,} terminals wait for a login already: try again in a minute",
                retry_after=RETRY_AFTER_SECONDS,
            )
        login = DeviceLogin(
            device_code_sha256=made.device_code.sha256,
            user_code_sha256=_digest(made.user_code),
            machine=machine,
            address=limit_key(address),
            interval_seconds=INTERVAL_SECONDS,
            created_at=tx.now,
            expires_at=tx.now + LIFETIME_SECONDS,
        )
        await store.insert_device(tx, login)

    await guard.db.write(work)
    return made


def format_code(user_code: str) -> str:
    """Return a user code as people read it: in two groups."""
    return f"{user_code[: CODE_CHARACTERS // 2]}-{user_code[CODE_CHARACTERS // 2 :]}"


async def find(guard: LoginGuard, who: Principal, typed: str, address: str) -> DeviceLogin:
    """Return the login that waits with this user code. Wrong codes are counted against the person and the address."""
    tokens.require_session(who)
    keys = limits.GUESSES.of(f"device:{who.id}"), limits.ADDRESS.of(f"device:{limit_key(address)}")
    try:
        attempt = guard.limits.attempt(*keys)
    except RateLimited:
        guard.failures.note("terminal_login.fail", address, "user", who.id, who.organization_id, is_limited=True)
        raise
    found = await guard.db.read(lambda tx: store.find_waiting(tx, _digest(_normal(typed))))
    if found is None:
        guard.failures.note("terminal_login.fail", address, "user", who.id, who.organization_id)
        raise NotFound(NO_SUCH_CODE)
    attempt.refund()
    return found


async def answer(
    db: Database, who: Principal, waiting: DeviceLogin, name: str, days: int | None, *, is_allowed: bool
) -> None:
    """Store the person's answer. Only the first answer to a login counts, and only before it expires."""
    tokens.require_session(who)

    async def work(tx: Tx) -> None:
        if is_allowed:
            await tokens.check_name(tx, who, model.TERRACREW, name)
        session = who.credential_id or ""
        if not await store.answer(tx, waiting.device_code_sha256, who.id, session, name, days, is_allowed=is_allowed):
            raise Conflict(NO_SUCH_CODE)
        details: dict[str, object] = {"name": name} if is_allowed else {}
        details |= {"machine": waiting.machine, "waits_at": waiting.address}
        await tokens.record(tx, who, "token.allow" if is_allowed else "token.deny", details)

    await db.write(work)


async def redeem(
    guard: LoginGuard, device_code: str, client_id: str, address: str
) -> Pending | tuple[ApiToken, credentials.Secret]:
    """Exchange a device code for an API token once a person has allowed it, or say why there is none yet.

    Invariant: a device code gives one token at most. The first request after the answer takes it; a later one revokes it, because
    then either somebody else has the code, or the token got lost on its way and nobody has it.
    """
    sha256 = credentials.digest(device_code)
    found = await guard.db.read(lambda tx: store.find_device(tx, sha256))
    if found is None or client_id != model.TERRACREW.id:
        raise tokens.failed(guard, address)
    secret = credentials.new("tcu")

    async def work(tx: Tx) -> Pending | ApiToken | None:
        login = await store.hold_device(tx, sha256)
        if login is None:
            return None
        if login.used_at is not None:
            await tokens.revoke_copied(tx, login.user_id, login.token_id, address)
            return None
        if login.expires_at <= tx.now:
            return "expired_token"
        if login.is_allowed is False:
            return "access_denied"
        if login.is_allowed is None:
            return await _wait(tx, login)
        await store.take_device(tx, sha256)
        allowed = tokens.Allowed(
            model.TERRACREW, login.user_id or "", login.session_id or "", login.name or "", login.days
        )
        made = await tokens.make(tx, allowed, secret, address)
        if made is not None:
            await store.note_device_token(tx, sha256, made.id)
        return made

    made = await guard.db.write(work)
    if made is None:
        raise tokens.failed(guard, address)
    return (made, secret) if isinstance(made, ApiToken) else made


async def _wait(tx: Tx, login: DeviceLogin) -> Pending:
    is_early = login.polled_at is not None and tx.now - login.polled_at < login.interval_seconds - EARLY_SECONDS
    interval = login.interval_seconds + (INTERVAL_SECONDS if is_early else 0.0)
    await store.note_poll(tx, login.device_code_sha256, interval)
    return "slow_down" if is_early else "authorization_pending"


def _normal(typed: str) -> str:
    return _SEPARATORS.sub("", typed).upper()


def _digest(user_code: str) -> str:
    return credentials.digest(f"device {user_code}")
