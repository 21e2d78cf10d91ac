"""Lets a command line act for a person: the person allows it, and the command line exchanges the code that it gets for an API token."""

from collections.abc import Sequence

from terracrew.api.access import ApiToken
from terracrew.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated
from terracrew.server.addresses import limit_key
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.identity import limits
from terracrew.server.identity.engine_logins import model, store
from terracrew.server.identity.engine_logins.model import EngineLogin, LoginRequest
from terracrew.server.identity.limits import LoginGuard
from terracrew.server.identity.people import service as people
from terracrew.server.identity.people import sessions
from terracrew.server.identity.people import store as people_store
from terracrew.server.principals import authorize
from terracrew.server.principals.model import Principal
from terracrew.server.secrets import credentials

REFUSED = "this code is used up, expired or wrong: run `tofu login` or `terraform login` again"


def require_session(who: Principal) -> None:
    """Refuse everything but a person in a browser: a token must not make another one that outlives it."""
    authorize.require_person(who)
    if who.credential != "session":
        raise Forbidden("only a person who is logged in to the dashboard can allow this: open the address in a browser")


async def token_names(tx: Tx, who: Principal) -> Sequence[ApiToken]:
    """Return the tokens of a person, whose names a new one cannot have."""
    require_session(who)
    return await people_store.tokens(tx, who.id, "", people.MAX_TOKENS)


async def allow(db: Database, who: Principal, request: LoginRequest, name: str, days: int | None) -> str:
    """Make a code with which the command line that sent this request gets an API token of this person."""
    require_session(who)
    code = credentials.new("tca")

    async def work(tx: Tx) -> None:
        tokens = await people_store.tokens(tx, who.id, "", people.MAX_TOKENS)
        same = next((each for each in tokens if each.name == name), None)
        if same is not None and not same.is_engine_login:
            raise Conflict(
                f"you have a token named {name!r} already, which is not of a command line: choose another name"
            )
        if same is None and len(tokens) >= people.MAX_TOKENS:
            raise Conflict(people.TOO_MANY_TOKENS)
        expires_at = tx.now + model.CODE_LIFETIME_SECONDS
        session = who.credential_id or ""
        await store.insert(tx, code.sha256, who.id, session, request, name, days, expires_at)
        await _record(tx, who, "token.allow", {"name": name, "port": request.port})

    await db.write(work)
    return code.text


async def deny(db: Database, who: Principal, request: LoginRequest) -> None:
    require_session(who)
    await db.write(lambda tx: _record(tx, who, "token.deny", {"port": request.port}))


async def redeem(
    guard: LoginGuard, code: str, verifier: str, redirect_uri: str, client_id: str, address: str
) -> tuple[ApiToken, credentials.Secret]:
    """Exchange a code for an API token, as the process that asked for it.

    The first attempt uses the code up, whatever comes of it. A second one revokes the token that the first one has got, because
    one of the two has copied the code.
    """
    sha256 = credentials.digest(code)
    if await guard.db.read(lambda tx: store.find(tx, sha256)) is None:
        raise _failed(guard, address)
    secret = credentials.new("tcu")

    async def work(tx: Tx) -> ApiToken | None:
        is_first = await store.take(tx, sha256)
        found = await store.find(tx, sha256)
        if found is None:
            return None
        if not is_first:
            await _revoke(tx, found, address)
            return None
        is_right = found.redirect_uri == redirect_uri and client_id == model.CLIENT_ID and found.expires_at > tx.now
        if not is_right or not model.is_verifier(verifier, found.challenge):
            return None
        return await _make_token(tx, found, sha256, secret, address)

    made = await guard.db.write(work)
    if made is None:
        raise _failed(guard, address)
    return made, secret


async def _make_token(
    tx: Tx, login: EngineLogin, code_sha256: str, secret: credentials.Secret, address: str
) -> ApiToken | None:
    """Make the token, unless the person can no longer log in or has ended the session that allowed it."""
    seen_after = tx.now - sessions.IDLE_SECONDS
    user = await people_store.find_user(tx, login.user_id)
    if user is None or not await people_store.is_session_open(tx, user.id, login.session_id, seen_after):
        return None
    who = sessions.person(user, login.session_id, address)
    for each in await people_store.tokens(tx, user.id, "", people.MAX_TOKENS):
        if each.name == login.name and each.is_engine_login:
            await people.revoke_token(tx, who, each.id)
    try:
        token = await people.make_token(tx, who, login.name, login.days, secret, is_engine_login=True)
    except Conflict as error:
        raise Invalid(error.message) from None
    await store.note_token(tx, code_sha256, token.id)
    return token


async def _revoke(tx: Tx, login: EngineLogin, address: str) -> None:
    """Revoke the token that was made with a code which is used again."""
    user = await people_store.find_user(tx, login.user_id)
    if user is None or login.token_id is None:
        return
    try:
        name = await people_store.delete_token(tx, user.id, login.token_id)
    except NotFound:  # it was revoked before
        return
    who = Principal("anonymous", "", "somebody with a used code", None, address=address)
    details = {"name": name, "user": user.name, "reason": "the code that it was made with was used again"}
    await audit.record(tx, who, "token.revoke", "token", login.token_id, details, organization_id=user.organization_id)
    tx.wake("access", user.id)


def _failed(guard: LoginGuard, address: str) -> Unauthenticated:
    """Count a failure, and return the error to answer with."""
    key = limits.ADDRESS.of(f"engine_login:{limit_key(address)}")
    guard.failures.note("engine_login.fail", address)
    guard.limits.attempt(key)
    return Unauthenticated(REFUSED)


async def _record(tx: Tx, who: Principal, action: str, details: dict[str, object]) -> None:
    home = (await people_store.user(tx, who.id)).organization_id
    await audit.record(tx, who, action, "user", who.id, details, organization_id=home)
