"""Lets a command line act for a person: the person allows it, and the command line exchanges the code that it gets for an API token."""

from collections.abc import Sequence

from terracrew.api.access import ApiToken
from terracrew.server.db.seam import Database, Tx
from terracrew.server.identity.limits import LoginGuard
from terracrew.server.identity.people import service as people
from terracrew.server.identity.people import store as people_store
from terracrew.server.identity.terminal_logins import model, store, tokens
from terracrew.server.identity.terminal_logins.model import CLIENTS, LoginRequest, TerminalLogin
from terracrew.server.principals.model import Principal
from terracrew.server.secrets import credentials


async def token_names(tx: Tx, who: Principal) -> Sequence[ApiToken]:
    """Return the tokens of a person, whose names a new one cannot have."""
    tokens.require_session(who)
    return await people_store.tokens(tx, who.id, "", people.MAX_TOKENS)


async def allow(db: Database, who: Principal, request: LoginRequest, name: str, days: int | None) -> str:
    """Make a code with which the command line that sent this request gets an API token of this person."""
    tokens.require_session(who)
    code = credentials.new("tca")

    async def work(tx: Tx) -> None:
        await tokens.check_name(tx, who, request.client, name)
        login = TerminalLogin(
            code_sha256=code.sha256,
            client_id=request.client.id,
            user_id=who.id,
            session_id=who.credential_id or "",
            redirect_uri=request.redirect_uri,
            challenge=request.challenge,
            name=name,
            days=days,
            created_at=tx.now,
            expires_at=tx.now + model.CODE_LIFETIME_SECONDS,
        )
        await store.insert(tx, login)
        await tokens.record(tx, who, "token.allow", {"name": name} | _place(request))

    await db.write(work)
    return code.text


async def deny(db: Database, who: Principal, request: LoginRequest) -> None:
    tokens.require_session(who)
    await db.write(lambda tx: tokens.record(tx, who, "token.deny", _place(request)))


async def redeem(
    guard: LoginGuard, code: str, verifier: str, redirect_uri: str, client_id: str, address: str
) -> tuple[ApiToken, credentials.Secret]:
    """Exchange a code for an API token, as the process that asked for it.

    The first attempt uses the code up, whatever comes of it. A second one revokes the token that the first one has got, because
    one of the two has copied the code.
    """
    sha256 = credentials.digest(code)
    if await guard.db.read(lambda tx: store.find(tx, sha256)) is None:
        raise tokens.failed(guard, address)
    secret = credentials.new("tcu")

    async def work(tx: Tx) -> ApiToken | None:
        is_first = await store.take(tx, sha256)
        found = await store.find(tx, sha256)
        if found is None:
            return None
        if not is_first:
            await tokens.revoke_copied(tx, found.user_id, found.token_id, address)
            return None
        is_right = found.redirect_uri == redirect_uri and client_id == found.client_id and found.expires_at > tx.now
        if not is_right or not model.is_verifier(verifier, found.challenge):
            return None
        allowed = tokens.Allowed(CLIENTS[client_id], found.user_id, found.session_id, found.name, found.days)
        made = await tokens.make(tx, allowed, secret, address)
        if made is not None:
            await store.note_token(tx, sha256, made.id)
        return made

    made = await guard.db.write(work)
    if made is None:
        raise tokens.failed(guard, address)
    return made, secret


def _place(request: LoginRequest) -> dict[str, object]:
    """Return where the command line waits, for the audit log."""
    place: dict[str, object] = {"port": request.port}
    return place | {"machine": request.machine} if request.machine else place
