"""Lists and ends the sessions and API tokens of a person, for that person and for administrators of their organization."""

from terracrew.api.access import ApiToken, OpenSession, User
from terracrew.api.pages import Page
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.identity.people import sessions, store
from terracrew.server.paging import page, start
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal

ME = "me"


async def list_sessions(tx: Tx, who: Principal, user: str, after: str | None, limit: int) -> Page[OpenSession]:
    found = await person(tx, who, user, Verb.ACCESS_READ)
    return page(await store.sessions_of(tx, found.id, tx.now - sessions.IDLE_SECONDS, start(after), limit + 1), limit)


async def end_sessions(tx: Tx, who: Principal, user: str) -> int:
    """End all sessions of a user, except the caller's current one. Returns how many ended."""
    found = await person(tx, who, user, Verb.ACCESS_WRITE)
    ended = await store.delete_sessions_of(tx, found.id, but=who.credential_id if found.id == who.id else None)
    await _record(tx, who, found, "session.revoke", "user", found.id, {"user": found.name, "sessions": ended})
    return ended


async def end_session(tx: Tx, who: Principal, user: str, session_id: str) -> None:
    found = await person(tx, who, user, Verb.ACCESS_WRITE)
    await store.delete_session_of(tx, found.id, session_id)
    await _record(tx, who, found, "session.revoke", "session", session_id, {"user": found.name})


async def list_tokens(tx: Tx, who: Principal, user: str, after: str | None, limit: int) -> Page[ApiToken]:
    found = await person(tx, who, user, Verb.ACCESS_READ)
    return page(await store.tokens(tx, found.id, start(after), limit + 1), limit)


async def revoke_token(tx: Tx, who: Principal, user: str, token_id: str) -> None:
    found = await person(tx, who, user, Verb.ACCESS_WRITE)
    name = await store.delete_token(tx, found.id, token_id)
    await _record(tx, who, found, "token.revoke", "token", token_id, {"name": name, "user": found.name})


async def person(tx: Tx, who: Principal, user: str, verb: Verb, *, is_self_enough: bool = True) -> User:
    """Find the person by id, name or `me`, if the caller may administer them or, with `is_self_enough`, is that person."""
    authorize.require_reader(who)
    unseen = store.no_user(user)
    if not user.isprintable():
        raise unseen
    found = await store.find_user(tx, who.id if user == ME and who.kind == "user" else user)
    if is_self_enough and found is not None and found.id == who.id:
        return found
    # The right is checked before an error reveals whether the user exists, because otherwise a caller could try out names.
    await authorize.require(tx, who, verb, authorize.organization(who.organization_id))
    if found is None:
        raise unseen
    await authorize.require(tx, who, verb, authorize.organization(found.organization_id), unseen)
    if found.is_system_admin:
        await authorize.require(tx, who, Verb.SERVER_ADMIN, authorize.SERVER)
    return found


async def _record(
    tx: Tx, who: Principal, user: User, action: str, kind: str, target: str, details: dict[str, object]
) -> None:
    await audit.record(tx, who, action, kind, target, details, organization_id=user.organization_id)
    tx.wake("access", user.id)
