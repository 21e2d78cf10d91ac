"""Manages service accounts and their secrets."""

import msgspec
from msgspec import UNSET

from terracrew import ids
from terracrew.api.access import AccountChange, ClientSecret, ServiceAccount
from terracrew.api.pages import Page
from terracrew.errors import Conflict
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.identity.access import roles, store
from terracrew.server.identity.access import store as access_store
from terracrew.server.paging import page, start
from terracrew.server.principals import authorize, delegation
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.secrets import credentials
from terracrew.server.tree.groups import tree_path as paths

MAX_SECRETS = 10
MAX_REFERENCE_CHARACTERS = 2000


async def create_account(db: Database, who: Principal, name: str, group: str) -> ServiceAccount:
    paths.name(name)
    paths.parse(group)

    async def work(tx: Tx) -> ServiceAccount:
        organization_id = who.organization_id or ""
        await authorize.require(tx, who, Verb.ACCESS_WRITE, authorize.group(organization_id, group))
        account = await access_store.insert_account(tx, organization_id, group, name, who.id)
        await audit.record(tx, who, "service_account.create", "service_account", account.id, _named(account))
        return account

    try:
        return await db.write(work)
    except Conflict as error:
        raise _explained(error, name) from None


def _explained(error: Conflict, name: str) -> Conflict:
    if error.details.get("constraint") != "service_accounts_name":
        return error
    return Conflict(f"there is a service account {name!r} in that group already")


async def change_account(db: Database, who: Principal, reference: str, wanted: AccountChange) -> ServiceAccount:
    """Rename, disable or enable a service account. While it is disabled, its secrets are refused and its tokens have ended."""
    if wanted.name is not UNSET:
        paths.name(wanted.name)

    async def work(tx: Tx) -> ServiceAccount:
        before = await find(tx, who, reference, Verb.ACCESS_WRITE)
        name = before.name if wanted.name is UNSET else wanted.name
        is_disabled = before.is_disabled if wanted.is_disabled is UNSET else wanted.is_disabled
        after = msgspec.structs.replace(before, name=name, is_disabled=is_disabled)
        # Only what is asked for is written: a rename must not enable an account that is disabled at the same time.
        if name != before.name:
            await access_store.rename_account(tx, after.id, name)
            await _record(tx, who, after, "service_account.rename", {"before": before.name})
        if wanted.is_disabled is not UNSET:
            await access_store.set_account_disabled(tx, after.id, is_disabled)
        if is_disabled != before.is_disabled:
            await _record(tx, who, after, "service_account.disable" if is_disabled else "service_account.enable")
        tx.wake("access", after.id)
        return after

    try:
        return await db.write(work)
    except Conflict as error:
        raise _explained(error, str(wanted.name)) from None


async def find(tx: Tx, who: Principal, reference: str, verb: Verb = Verb.ACCESS_READ) -> ServiceAccount:
    """Find a service account by its id or its path (`group/name`), if the caller has the right to do `verb` in its group."""
    if ids.is_id("sac", reference):
        return await _account(tx, who, ids.parse("sac", reference), verb)
    group, name = paths.split(reference)
    organization_id = who.organization_id or ""
    unseen = access_store.no_account(reference)
    is_path = reference.isprintable() and len(reference) <= MAX_REFERENCE_CHARACTERS
    await authorize.require(tx, who, verb, authorize.group(organization_id, group if is_path else ""), unseen)
    account = await access_store.account_at(tx, organization_id, group, name) if is_path else None
    if account is None:
        raise unseen
    return account


async def accounts(tx: Tx, who: Principal, group: str, after: str | None, limit: int) -> Page[ServiceAccount]:
    """Return the service accounts in and below a group."""
    organization_id = who.organization_id or ""
    await authorize.require(tx, who, Verb.ACCESS_READ, authorize.group(organization_id, paths.parse(group)))
    return page(await access_store.accounts(tx, organization_id, group, start(after), limit + 1), limit)


async def show(tx: Tx, who: Principal, account_id: str, verb: Verb = Verb.ACCESS_READ) -> ServiceAccount:
    """Find a service account by its id. The caller must have the right to do `verb` in its group."""
    return await _account(tx, who, account_id, verb)


async def delete_account(tx: Tx, who: Principal, account_id: str) -> None:
    account = await _account(tx, who, account_id, Verb.ACCESS_WRITE)
    await access_store.delete_account(tx, account.id)
    await audit.record(
        tx,
        who,
        "service_account.delete",
        "service_account",
        account.id,
        _named(account),
        organization_id=account.organization_id,
    )
    tx.wake("access", account.id)


async def secrets(tx: Tx, who: Principal, account_id: str) -> list[ClientSecret]:
    account = await _account(tx, who, account_id, Verb.ACCESS_READ)
    return await access_store.secrets(tx, account.id)


async def create_secret(
    db: Database, who: Principal, account_id: str, expires_in_days: int | None
) -> tuple[ServiceAccount, ClientSecret, credentials.Secret]:
    """Add a secret to an account: the new one can be put in place before the old one is revoked."""
    secret = credentials.new("tcs")

    async def work(tx: Tx) -> tuple[ServiceAccount, ClientSecret]:
        account = await _account(tx, who, account_id, Verb.ACCESS_WRITE)
        if len(await access_store.secrets(tx, account.id)) >= MAX_SECRETS:
            raise Conflict(f"{account.name} has {MAX_SECRETS} secrets: revoke one that is no longer used")
        await require_login_for_provisioner(tx, who, account)
        place = authorize.group(account.organization_id, account.group)
        expires_at = await roles.expiry(tx, who, place, expires_in_days)
        stored = await access_store.insert_secret(tx, account.id, secret.sha256, who.id, expires_at)
        await store.add(tx, account.id, who.id, account.organization_id)
        await _record(tx, who, account, "service_account.add_secret", {"secret": stored.id})
        return account, stored

    account, stored = await db.write(work)
    return account, stored, secret


async def revoke_secret(tx: Tx, who: Principal, account_id: str, secret_id: str) -> None:
    """Revoke a secret. The access tokens that were issued for it end, and so do the connections that were opened with them."""
    account = await _account(tx, who, account_id, Verb.ACCESS_WRITE)
    await access_store.delete_secret(tx, account.id, secret_id)
    await _record(tx, who, account, "service_account.revoke_secret", {"secret": secret_id})
    tx.wake("access", account.id)


async def require_login_for_provisioner(tx: Tx, who: Principal, account: ServiceAccount) -> None:
    """Refuse an API token that lets somebody act as the account which provisions people: whom it creates outlives the token."""
    if delegation.is_bound(who) and await access_store.provisions(tx, account.id):
        delegation.require_login(who, "let somebody act as the service account that provisions people")


async def _account(tx: Tx, who: Principal, account_id: str, verb: Verb) -> ServiceAccount:
    account = await access_store.account(tx, account_id)
    place, unseen = authorize.group(account.organization_id, account.group), access_store.no_account(account_id)
    await authorize.require(tx, who, verb, place, unseen)
    return account


async def _record(
    tx: Tx, who: Principal, account: ServiceAccount, action: str, details: dict[str, str] | None = None
) -> None:
    facts, organization_id = _named(account) | (details or {}), account.organization_id
    await audit.record(tx, who, action, "service_account", account.id, facts, organization_id=organization_id)


def _named(account: ServiceAccount) -> dict[str, str]:
    return {"name": account.name, "group": account.group}
