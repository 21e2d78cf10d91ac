"""Rows of service accounts and their secrets."""

from datetime import UTC, datetime
from typing import LiteralString

from terracrew import ids
from terracrew.api.access import ClientSecret, ServiceAccount
from terracrew.errors import NotFound
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.fragments import delete_some
from terracrew.server.db.statements.mapping import row_to, rows_to, to_params
from terracrew.server.db.statements.table import Table
from terracrew.server.identity.access import role_store

ACCOUNTS = Table("service_accounts", ServiceAccount, without=("group",))
SECRETS = Table("service_account_secrets", ClientSecret)
_SELECT: LiteralString = """SELECT a.*, groups.path AS "group"
FROM service_accounts AS a JOIN groups ON groups.id = a.group_id"""
_INSERT_SECRET = SECRETS.insert("secret_sha256")


async def insert_account(tx: Tx, organization_id: str, group: str, name: str, created_by: str) -> ServiceAccount:
    group_id = await role_store.require_group(tx, organization_id, group)
    made = ServiceAccount(ids.new("sac"), organization_id, group_id, group, name, created_by, tx.moment)
    await tx.run(ACCOUNTS.insert(), **to_params(made, *ACCOUNTS.fields))
    return made


async def account(tx: Tx, account_id: str) -> ServiceAccount:
    found = await find_account(tx, account_id)
    if found is None:
        raise no_account(account_id)
    return found


async def find_account(tx: Tx, account_id: str) -> ServiceAccount | None:
    row = await tx.one(
        _SELECT + " WHERE a.id = :id",
        id=account_id,
    )
    return None if row is None else row_to(ServiceAccount, row)


async def account_at(tx: Tx, organization_id: str, group: str, name: str) -> ServiceAccount | None:
    """Return the service account of this name in the group with this path."""
    row = await tx.one(
        _SELECT + " WHERE groups.organization_id = :organization_id AND groups.path = :path AND a.name = :name",
        organization_id=organization_id,
        path=group,
        name=name,
    )
    return None if row is None else row_to(ServiceAccount, row)


def no_account(account_id: str) -> NotFound:
    return NotFound(f"there is no service account {account_id}")


async def accounts(tx: Tx, organization_id: str, group: str, after: str, limit: int) -> list[ServiceAccount]:
    """Return the service accounts in and below a group."""
    rows = await tx.all(
        _SELECT + " WHERE a.organization_id = :organization_id AND a.id > :after AND (CAST(:path AS text) = '' OR"
        " groups.path = :path OR substr(groups.path, 1, CAST(:length AS integer)) = :below)"
        " ORDER BY a.id LIMIT :limit",
        organization_id=organization_id,
        after=after,
        path=group,
        below=f"{group}/",
        length=len(group) + 1,
        limit=limit,
    )
    return rows_to(ServiceAccount, rows)


async def rename_account(tx: Tx, account_id: str, name: str) -> None:
    await tx.run("UPDATE service_accounts SET name = :name WHERE id = :id", name=name, id=account_id)


async def set_account_disabled(tx: Tx, account_id: str, is_disabled: bool) -> None:
    await tx.run(
        "UPDATE service_accounts SET is_disabled = :is_disabled WHERE id = :id", is_disabled=is_disabled, id=account_id
    )


async def delete_account(tx: Tx, account_id: str) -> None:
    """Remove a service account, its secrets and its roles. Runners that named it name no service account any more."""
    await tx.run("UPDATE runners SET service_account_id = NULL WHERE service_account_id = :id", id=account_id)
    await role_store.delete_roles_of(tx, account_id)
    await tx.run("DELETE FROM service_accounts WHERE id = :id", id=account_id)


async def provisions(tx: Tx, account_id: str) -> bool:
    """Return whether a service account provisions the people of its organization."""
    row = await tx.one(
        "SELECT service_accounts.id FROM service_accounts JOIN provisioners ON provisioners.service_account_id = service_accounts.id"
        " WHERE service_accounts.id = :id",
        id=account_id,
    )
    return row is not None


async def insert_secret(
    tx: Tx, account_id: str, secret_sha256: str, created_by: str, expires_at: float | None
) -> ClientSecret:
    ends_at = None if expires_at is None else datetime.fromtimestamp(expires_at, UTC)
    made = ClientSecret(ids.new("sec"), account_id, created_by, tx.moment, ends_at, last_used_at=None)
    await tx.run(_INSERT_SECRET, **to_params(made), secret_sha256=secret_sha256)
    return made


async def secrets(tx: Tx, account_id: str) -> list[ClientSecret]:
    return await SECRETS.all(
        tx, "FROM service_account_secrets WHERE service_account_id = :id ORDER BY id", id=account_id
    )


async def ending_secrets(tx: Tx, organization_id: str, until: float, count: int) -> list[Row]:
    """Return the secrets that end next, before a time, with the name of their account and the path of its group."""
    return await tx.all(
        """SELECT secrets.expires_at, secrets.service_account_id, accounts.name, groups.path
        FROM service_accounts AS accounts JOIN groups ON groups.id = accounts.group_id
        JOIN service_account_secrets AS secrets ON secrets.service_account_id = accounts.id
        WHERE accounts.organization_id = :organization_id AND NOT accounts.is_disabled
            AND secrets.expires_at > :now AND secrets.expires_at <= :until
        ORDER BY secrets.expires_at, secrets.id LIMIT :count""",
        organization_id=organization_id,
        now=tx.now,
        until=until,
        count=count,
    )


async def delete_secret(tx: Tx, account_id: str, secret_id: str) -> None:
    gone = await tx.run(
        "DELETE FROM service_account_secrets WHERE id = :id AND service_account_id = :account_id",
        id=secret_id,
        account_id=account_id,
    )
    if not gone:
        raise NotFound(f"this service account has no secret {secret_id}")


async def prune_secrets(tx: Tx, before: float, count: int) -> int:
    """Remove secrets of service accounts that expired before this time."""
    return await delete_some(tx, "service_account_secrets", "expires_at < :before", before, count)


async def account_by_secret(tx: Tx, secret_sha256: str) -> Row | None:
    return await tx.one(
        'SELECT a.id, a.name, a.organization_id, groups.path AS "group", s.id AS secret_id, s.expires_at AS ends_at'
        " FROM service_account_secrets AS s JOIN service_accounts AS a ON a.id = s.service_account_id"
        " JOIN groups ON groups.id = a.group_id"
        " WHERE s.secret_sha256 = :sha256 AND (s.expires_at IS NULL OR s.expires_at > :now) AND a.is_disabled = :no",
        sha256=secret_sha256,
        no=False,
        now=tx.now,
    )


async def account_of_secret(tx: Tx, account_id: str, secret_id: str) -> Row | None:
    return await tx.one(
        "SELECT a.id, a.name, a.organization_id, s.expires_at AS ends_at FROM service_account_secrets AS s"
        " JOIN service_accounts AS a ON a.id = s.service_account_id"
        " WHERE s.id = :secret_id AND a.id = :id AND (s.expires_at IS NULL OR s.expires_at > :now)"
        " AND a.is_disabled = :no",
        no=False,
        secret_id=secret_id,
        id=account_id,
        now=tx.now,
    )


async def is_use_noted(tx: Tx, secret_id: str, since: float) -> bool:
    row = await tx.one(
        "SELECT id FROM service_account_secrets WHERE id = :id AND last_used_at > :since", id=secret_id, since=since
    )
    return row is not None


async def note_use(tx: Tx, secret_id: str) -> None:
    await tx.run("UPDATE service_account_secrets SET last_used_at = :now WHERE id = :id", now=tx.now, id=secret_id)


async def add(tx: Tx, account_id: str, holder_id: str, organization_id: str) -> None:
    """Note that somebody has made, and so has seen, a secret of a service account. Nothing removes this but the organization."""
    await tx.run(
        """INSERT INTO service_account_holders (service_account_id, holder_id, organization_id)
        VALUES (:account_id, :holder_id, :organization_id) ON CONFLICT (service_account_id, holder_id) DO NOTHING""",
        account_id=account_id,
        holder_id=holder_id,
        organization_id=organization_id,
    )


async def identities(tx: Tx, actor_id: str) -> frozenset[str]:
    """Return the ids of everybody who may have acted as this user or service account, and its own id.

    A service account may have made the secret of another one, so the holders of the first one are holders of the second, too.
    """
    rows = await tx.all(
        """WITH RECURSIVE held (id) AS (SELECT CAST(:id AS text) UNION
            SELECT service_account_holders.holder_id FROM service_account_holders
            JOIN held ON held.id = service_account_holders.service_account_id)
        SELECT id FROM held""",
        id=actor_id,
    )
    return frozenset(row["id"] for row in rows)
