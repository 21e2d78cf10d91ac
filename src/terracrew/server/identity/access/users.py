"""Manages users: lists and shows them, renames, disables, resets and deletes them, and makes administrators."""

import msgspec
from msgspec import UNSET

from terracrew.api.access import User, UserChange, UserDetails, UserListed
from terracrew.api.pages import Page
from terracrew.errors import Conflict, Forbidden
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.identity.access import role_reads, role_store, roles, subjects
from terracrew.server.identity.people import (
    acting,
    local_administrators,
    oversight,
    service,
    sessions,
    store,
    user_reads,
)
from terracrew.server.paging import page, start
from terracrew.server.principals import authorize, delegation
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.secrets import credentials


async def listing(tx: Tx, who: Principal, after: str | None, limit: int, search: str | None = None) -> Page[UserListed]:
    """Return the users of the caller's organization, also those of other organizations who have a role in it."""
    await authorize.require(tx, who, Verb.ACCESS_READ, authorize.organization(who.organization_id))
    return page(await user_reads.listing(tx, who.organization_id or "", search, start(after), limit + 1), limit)


async def show(tx: Tx, who: Principal, reference: str) -> UserDetails:
    """Return a user with their roles in the caller's organization. Everybody may see themselves."""
    organization_id = who.organization_id or ""
    is_own = who.kind == "user" and reference in (oversight.ME, who.id, who.name)
    if not is_own:
        await authorize.require(tx, who, Verb.ACCESS_READ, authorize.organization(who.organization_id))
    found = await store.find_user(tx, who.id if is_own else reference) if reference.isprintable() else None
    is_here = found is not None and (is_own or await subjects.is_of(tx, found, organization_id))
    listed = await user_reads.of_id(tx, found.id) if found is not None and is_here else None
    if listed is None:
        raise store.no_user(reference)
    held = await role_reads.of_principal(tx, listed.id, organization_id)
    open_sessions, tokens = None, None
    if is_own or listed.organization_id == organization_id:
        open_sessions, tokens = await user_reads.credential_counts(tx, listed.id, tx.now - sessions.IDLE_SECONDS)
    return UserDetails(**msgspec.structs.asdict(listed), roles=tuple(held), sessions=open_sessions, tokens=tokens)


async def change(db: Database, who: Principal, reference: str, wanted: UserChange) -> User:
    """Rename, disable or enable a user, or change whether they are an administrator."""
    if wanted.name is not UNSET:
        service.check_name(wanted.name)
    if wanted.is_system_admin is not UNSET:
        delegation.require_login(who, "decide who is an administrator")

    async def work(tx: Tx) -> User:
        user = await _managed(tx, who, reference)
        if wanted.is_system_admin is not UNSET and wanted.is_system_admin != user.is_system_admin:
            await _set_system_admin(tx, who, user, wanted.is_system_admin)
        if wanted.is_disabled is not UNSET:
            await _set_disabled(tx, who, user, wanted.is_disabled)
        if wanted.name is not UNSET and wanted.name != user.name:
            await service.check_name_in(tx, user.organization_id, wanted.name)
            await store.rename(tx, user.id, wanted.name)
            await _record(tx, who, user, "user.rename", {"name": wanted.name, "before": user.name})
        return await store.user(tx, user.id)

    try:
        return await db.write(work)
    except Conflict as error:
        if error.details.get("constraint") != "users_name":
            raise
        raise Conflict(f"there is a user {wanted.name!r} already") from None


async def set_disabled(tx: Tx, who: Principal, reference: str, is_disabled: bool) -> User:
    """Disable or enable a user. All sessions end. API tokens are kept, but are not accepted while the user is disabled."""
    user = await _managed(tx, who, reference)
    await _set_disabled(tx, who, user, is_disabled)
    return await store.user(tx, user.id)


async def _set_disabled(tx: Tx, who: Principal, user: User, is_disabled: bool) -> None:
    if user.id == who.id:
        raise Conflict("you would lock yourself out: ask another administrator")
    if is_disabled:
        await _keep_an_administrator(tx, user)
    async with local_administrators.kept(tx, user.organization_id):
        await store.set_disabled(tx, user.id, is_disabled)
    await store.delete_sessions_of(tx, user.id)
    await _record(tx, who, user, "user.disable" if is_disabled else "user.enable", {"name": user.name})


async def _set_system_admin(tx: Tx, who: Principal, user: User, is_system_admin: bool) -> None:
    await authorize.require(tx, who, Verb.SERVER_ADMIN, authorize.SERVER)
    if not is_system_admin:
        await _keep_an_administrator(tx, user)
    async with local_administrators.kept(tx, user.organization_id):
        await store.set_system_admin(tx, user.id, is_system_admin)
    action = "user.make_administrator" if is_system_admin else "user.unmake_administrator"
    await _record(tx, who, user, action, {"name": user.name})
    await acting.end_uncovered_logins(tx, user.id)
    tx.wake("roles", user.id)


async def _keep_an_administrator(tx: Tx, user: User) -> None:
    """Refuse to take away the last administrator. The rows are locked, so two administrators cannot remove each other at once."""
    if user.is_system_admin and await store.hold_administrators(tx) in ([], [user.id]):
        raise Conflict(f"{user.name} is the last administrator: make somebody else an administrator first")


async def reset(db: Database, who: Principal, reference: str) -> tuple[User, str]:
    """End everything with which a user can log in, and return the user and the token of a new link.

    Whoever has the link controls the account, also when the credential that made it has ended. So nobody can reset a user with an API
    token, only an administrator can reset an administrator, or a user who has roles in
    other organizations, and nobody whose own role ends can reset anybody.
    """
    delegation.require_login(who, "reset a user, because the link that this gives is a login")
    link = credentials.new("tcl")

    async def work(tx: Tx) -> User:
        user = await _managed(tx, who, reference)
        if user.id == who.id:
            raise Conflict("you would lock yourself out: change your password, or use `terracrew login --link`")
        place = authorize.organization(user.organization_id)
        if await roles.right_ends_at(tx, who, place) is not None:
            raise Forbidden("your own role ends, and the login that the link gives would outlive it: ask another owner")
        if await user_reads.is_member_elsewhere(tx, user.id, user.organization_id):
            await authorize.require(tx, who, Verb.SERVER_ADMIN, authorize.SERVER)
        async with local_administrators.kept(tx, user.organization_id):
            await store.clear_password(tx, user.id)
        ended = await store.delete_sessions_of(tx, user.id)
        revoked = await store.delete_tokens_of(tx, user.id)
        await _record(tx, who, user, "user.reset", {"name": user.name, "sessions": ended, "tokens": revoked})
        await service.link_user(tx, user, link, who, service.INVITATION_LIFETIME_SECONDS)
        return user

    return await db.write(work), link.text


async def delete(tx: Tx, who: Principal, reference: str) -> None:
    """Delete a user with their sessions, tokens and roles. The audit log keeps their name."""
    user = await _managed(tx, who, reference)
    if user.id == who.id:
        raise Conflict("you cannot delete yourself: ask another administrator")
    await _keep_an_administrator(tx, user)
    async with local_administrators.kept(tx, user.organization_id):
        await role_store.delete_roles_of(tx, user.id)
        await store.delete_user(tx, user.id)
    await _record(tx, who, user, "user.delete", {"name": user.name})
    tx.wake("roles", user.id)


async def _managed(tx: Tx, who: Principal, reference: str) -> User:
    """Find a user whom the caller may manage: one of an organization whose access the caller may change."""
    return await oversight.person(tx, who, reference, Verb.ACCESS_WRITE, is_self_enough=False)


async def _record(tx: Tx, who: Principal, user: User, action: str, details: dict[str, object]) -> None:
    await audit.record(tx, who, action, "user", user.id, details, organization_id=user.organization_id)
    tx.wake("access", user.id)
