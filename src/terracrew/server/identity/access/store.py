"""The rows of service accounts, their secrets, roles, and what an attempt's credentials lead to."""

from datetime import UTC, datetime
from typing import LiteralString

from terracrew import ids
from terracrew.errors import NotFound
from terracrew.server.db.seam import Param, Row, Tx
from terracrew.server.db.statements.mapping import row_to, rows_to, to_params
from terracrew.server.db.statements.table import Table
from terracrew.server.groups import reads as groups
from terracrew.server.identity.access.model import ClientSecret, RoleBinding, ServiceAccount
from terracrew.server.principals import visibility
from terracrew.server.principals.authorize import Visible
from terracrew.server.principals.model import AttemptScope

ACCOUNTS = Table("service_accounts", ServiceAccount, without=("group",))
SECRETS = Table("service_account_secrets", ClientSecret)
ROLES = Table("role_bindings", RoleBinding)
_INSERT_SECRET = SECRETS.insert("secret_sha256")
_BIND_ROLE = (
    ROLES.insert("group_id", "module_id")
    + f""" ON CONFLICT (principal_id, organization_id, place_kind, path) DO UPDATE SET role = excluded.role
    RETURNING {ROLES.columns}"""
)

# Service accounts


async def insert_account(tx: Tx, organization_id: str, group: str, name: str, created_by: str) -> ServiceAccount:
    group_id = await _group_id(tx, organization_id, group)
    made = ServiceAccount(ids.new("sac"), organization_id, group_id, group, name, created_by, _moment(tx.now))
    await tx.run(ACCOUNTS.insert(), **to_params(made, *ACCOUNTS.fields))
    return made


async def account(tx: Tx, account_id: str) -> ServiceAccount:
    row = await tx.one(
        'SELECT a.*, groups.path AS "group" FROM service_accounts AS a JOIN groups ON groups.id = a.group_id'
        " WHERE a.id = :id",
        id=account_id,
    )
    if row is None:
        raise no_account(account_id)
    return row_to(ServiceAccount, row)


def no_account(account_id: str) -> NotFound:
    return NotFound(f"there is no service account {account_id}")


async def accounts(tx: Tx, organization_id: str, group: str, after: str, limit: int) -> list[ServiceAccount]:
    """Return those of a group and of everything below it."""
    rows = await tx.all(
        'SELECT a.*, groups.path AS "group" FROM service_accounts AS a JOIN groups ON groups.id = a.group_id'
        " WHERE a.organization_id = :organization_id AND a.id > :after AND (CAST(:path AS text) = '' OR"
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


async def delete_account(tx: Tx, account_id: str) -> None:
    """Remove it, its secrets, its roles and its place with runners."""
    await tx.run("UPDATE runners SET service_account_id = NULL WHERE service_account_id = :id", id=account_id)
    await tx.run("DELETE FROM role_bindings WHERE principal_id = :id", id=account_id)
    await tx.run("DELETE FROM service_accounts WHERE id = :id", id=account_id)


async def insert_secret(
    tx: Tx, account_id: str, secret_sha256: str, created_by: str, expires_at: float | None
) -> ClientSecret:
    ends_at = None if expires_at is None else _moment(expires_at)
    made = ClientSecret(ids.new("sec"), account_id, created_by, _moment(tx.now), ends_at, last_used_at=None)
    await tx.run(_INSERT_SECRET, **to_params(made), secret_sha256=secret_sha256)
    return made


async def secrets(tx: Tx, account_id: str) -> list[ClientSecret]:
    rows = await tx.all(
        "SELECT * FROM service_account_secrets WHERE service_account_id = :id ORDER BY id", id=account_id
    )
    return rows_to(ClientSecret, rows)


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
    return await tx.run(
        """DELETE FROM service_account_secrets WHERE id IN (
            SELECT id FROM service_account_secrets WHERE expires_at < :before LIMIT :count)""",
        before=before,
        count=count,
    )


async def account_by_secret(tx: Tx, secret_sha256: str) -> Row | None:
    return await tx.one(
        "SELECT a.id, a.name, a.organization_id, s.id AS secret_id, s.expires_at AS ends_at"
        " FROM service_account_secrets AS s JOIN service_accounts AS a ON a.id = s.service_account_id"
        " WHERE s.secret_sha256 = :sha256 AND (s.expires_at IS NULL OR s.expires_at > :now)",
        sha256=secret_sha256,
        now=tx.now,
    )


async def account_of_secret(tx: Tx, account_id: str, secret_id: str) -> Row | None:
    return await tx.one(
        "SELECT a.id, a.name, a.organization_id, s.expires_at AS ends_at FROM service_account_secrets AS s"
        " JOIN service_accounts AS a ON a.id = s.service_account_id"
        " WHERE s.id = :secret_id AND a.id = :id AND (s.expires_at IS NULL OR s.expires_at > :now)",
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


# Runners and attempts, as far as their credentials go


async def runner_by_worker_token(tx: Tx, token_sha256: str) -> Row | None:
    """Return the runner with this token, or with this one as the next, which then counts as its token."""
    return await tx.one(
        "SELECT id, name, organization_id, worker_token_sha256, false AS is_next FROM runners"
        " WHERE worker_token_sha256 = :sha256",
        sha256=token_sha256,
    ) or await tx.one(
        "SELECT id, name, organization_id, next_worker_token_sha256 AS worker_token_sha256, true AS is_next FROM runners"
        " WHERE next_worker_token_sha256 = :sha256",
        sha256=token_sha256,
    )


async def offer_worker_token(tx: Tx, token_sha256: str, next_sha256: str) -> bool:
    """Let another token follow the runner's one. Processes that share a token could not learn of it, so theirs stays."""
    return bool(
        await tx.run(
            "UPDATE runners SET next_worker_token_sha256 = :next"
            " WHERE worker_token_sha256 = :sha256 AND NOT allow_multiple_instances AND organization_id IS NOT NULL",
            sha256=token_sha256,
            next=next_sha256,
        )
    )


async def replace_worker_token(tx: Tx, next_sha256: str) -> bool:
    """The next token was used: from now on it is the only one."""
    return bool(
        await tx.run(
            "UPDATE runners SET worker_token_sha256 = next_worker_token_sha256, next_worker_token_sha256 = NULL"
            " WHERE next_worker_token_sha256 = :next",
            next=next_sha256,
        )
    )


async def runner_with_worker_token(tx: Tx, runner_id: str) -> Row | None:
    return await tx.one(
        "SELECT id, name, organization_id, worker_token_sha256 FROM runners"
        " WHERE id = :id AND worker_token_sha256 IS NOT NULL",
        id=runner_id,
    )


async def client(tx: Tx, client_id: str) -> tuple[str, str | None]:
    """Return the kind and the organization of a service account or runner; an empty kind if there is none."""
    if client_id.isprintable() and client_id.startswith("sac_"):
        row = await tx.one("SELECT organization_id FROM service_accounts WHERE id = :id", id=client_id)
        return ("service_account", row["organization_id"]) if row else ("", None)
    if client_id.isprintable() and client_id.startswith("rnr_"):
        row = await tx.one("SELECT organization_id FROM runners WHERE id = :id", id=client_id)
        return ("runner", row["organization_id"]) if row else ("", None)
    return "", None


async def is_removed(tx: Tx, token_sha256: str) -> bool:
    """Return whether this was the worker token of a runner that has been removed."""
    row = await tx.one("SELECT id FROM removed WHERE worker_token_sha256 = :sha256 LIMIT 1", sha256=token_sha256)
    return row is not None


_ATTEMPT = """
SELECT a.job_id, a.number AS attempt, a.runner_id, jobs.organization_id, jobs.module_id, modules.path AS module_path
FROM attempts AS a JOIN jobs ON jobs.id = a.job_id JOIN modules ON modules.id = jobs.module_id
"""


async def attempt_by_hub_credential(tx: Tx, sha256: str) -> AttemptScope | None:
    row = await tx.one(_ATTEMPT + "WHERE a.hub_sha256 = :sha256", sha256=sha256)
    return None if row is None else row_to(AttemptScope, row)


async def live_attempt_by_api_credential(tx: Tx, sha256: str) -> AttemptScope | None:
    row = await tx.one(
        _ATTEMPT + "WHERE a.api_sha256 = :sha256 AND a.ended_at IS NULL AND jobs.attempt = a.number", sha256=sha256
    )
    return None if row is None else row_to(AttemptScope, row)


# Roles


async def bind_role(
    tx: Tx, organization_id: str, kind: str, principal_id: str, role: str, place_kind: str, path: str, created_by: str
) -> RoleBinding:
    """Give a role at a place; it replaces the one that the same principal had just there."""
    group_id = await _group_id(tx, organization_id, path) if place_kind == "group" else None
    module_id = await _module_id(tx, organization_id, path) if place_kind == "module" else None
    wanted: dict[str, Param] = {
        "id": ids.new("rol"),
        "organization_id": organization_id,
        "principal_kind": kind,
        "principal_id": principal_id,
        "role": role,
        "place_kind": place_kind,
        "path": path,
        "created_by": created_by,
        "created_at": tx.now,
    }
    row = await tx.one(_BIND_ROLE, **wanted, group_id=group_id, module_id=module_id)
    return row_to(RoleBinding, row or {})


async def role(tx: Tx, binding_id: str) -> RoleBinding:
    row = await tx.one("SELECT * FROM role_bindings WHERE id = :id", id=binding_id)
    if row is None:
        raise no_role(binding_id)
    return row_to(RoleBinding, row)


def no_role(binding_id: str) -> NotFound:
    return NotFound(f"there is no role binding {binding_id}")


_ROLES_OF_READER: LiteralString = (
    visibility.SEEN_MODULES
    + """ SELECT role_bindings.* FROM role_bindings
    WHERE organization_id = :organization_id AND role_bindings.id > :after
        AND (group_id IN (SELECT id FROM seen_groups) OR module_id IN (SELECT id FROM seen_modules))
    ORDER BY role_bindings.id LIMIT :limit"""
)


async def roles(tx: Tx, seen: Visible, organization_id: str, after: str, limit: int) -> list[RoleBinding]:
    """Return those at the places that the reader may see."""
    if seen.is_nothing:
        return []
    if not seen.is_everything(organization_id):
        given = visibility.params(seen)
        rows = await tx.all(_ROLES_OF_READER, organization_id=organization_id, after=after, limit=limit, **given)
        return rows_to(RoleBinding, rows)
    rows = await tx.all(
        "SELECT * FROM role_bindings WHERE organization_id = :organization_id AND id > :after ORDER BY id LIMIT :limit",
        organization_id=organization_id,
        after=after,
        limit=limit,
    )
    return rows_to(RoleBinding, rows)


async def roles_of(tx: Tx, principal_id: str) -> list[RoleBinding]:
    return rows_to(
        RoleBinding, await tx.all("SELECT * FROM role_bindings WHERE principal_id = :id ORDER BY path", id=principal_id)
    )


async def unbind_role(tx: Tx, binding_id: str) -> None:
    await tx.run("DELETE FROM role_bindings WHERE id = :id", id=binding_id)


async def delete_roles_of_module(tx: Tx, module_id: str) -> None:
    await tx.run("DELETE FROM role_bindings WHERE module_id = :id", id=module_id)


async def _group_id(tx: Tx, organization_id: str, path: str) -> str:
    found = await groups.id_at(tx, organization_id, path)
    if found is None:
        raise NotFound(f"there is no group `{path}`")
    return found


async def _module_id(tx: Tx, organization_id: str, path: str) -> str:
    row = await tx.one(
        "SELECT id FROM modules WHERE organization_id = :organization_id AND path = :path",
        organization_id=organization_id,
        path=path,
    )
    if row is None:
        raise NotFound(f"there is no module `{path}`")
    return row["id"]


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
