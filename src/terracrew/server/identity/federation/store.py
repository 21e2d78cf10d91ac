"""Rows of trust policies, and of the tokens that were exchanged and have not expired yet."""

from collections.abc import Sequence
from typing import LiteralString

import msgspec

from terracrew.api.access import TrustPolicy
from terracrew.errors import NotFound
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.fragments import delete_some
from terracrew.server.db.statements.mapping import row_to, to_params
from terracrew.server.db.statements.table import Table
from terracrew.server.identity.federation.model import TrustedAccount

POLICIES = Table("trust_policies", TrustPolicy)
_INSERT: LiteralString = POLICIES.insert("slot")


class ExchangedToken(msgspec.Struct, frozen=True):
    """A token that is being exchanged by a policy, and until when it is remembered."""

    organization_id: str
    sha256: str
    policy_id: str
    expires_at: float


async def insert(tx: Tx, policy: TrustPolicy, slot: int) -> None:
    await tx.run(_INSERT, **to_params(policy), slot=slot)


async def policies(tx: Tx, account_id: str) -> list[TrustPolicy]:
    return await POLICIES.all(tx, "FROM trust_policies WHERE service_account_id = :id ORDER BY id", id=account_id)


async def ending(tx: Tx, organization_id: str, until: float, count: int) -> list[Row]:
    """Return the policies that end next, before a time, with the name of their account and the path of its group."""
    return await tx.all(
        """SELECT trust_policies.expires_at, trust_policies.service_account_id, trust_policies.issuer, accounts.name, groups.path
        FROM trust_policies JOIN service_accounts AS accounts ON accounts.id = trust_policies.service_account_id
        JOIN groups ON groups.id = accounts.group_id
        WHERE trust_policies.organization_id = :organization_id AND accounts.organization_id = :organization_id
            AND NOT accounts.is_disabled AND trust_policies.expires_at > :now AND trust_policies.expires_at <= :until
        ORDER BY trust_policies.expires_at, trust_policies.id LIMIT :count""",
        organization_id=organization_id,
        now=tx.now,
        until=until,
        count=count,
    )


async def slots(tx: Tx, account_id: str) -> set[int]:
    """Return the numbers that the policies of an account have. A unique index keeps two of them from having the same."""
    rows = await tx.all("SELECT slot FROM trust_policies WHERE service_account_id = :id", id=account_id)
    return {row["slot"] for row in rows}


async def delete(tx: Tx, account_id: str, policy_id: str) -> None:
    gone = await tx.run(
        "DELETE FROM trust_policies WHERE id = :id AND service_account_id = :account_id",
        id=policy_id,
        account_id=account_id,
    )
    if not gone:
        raise NotFound(f"this service account has no trust policy {policy_id}")


_TRUSTED: LiteralString = """
SELECT trust_policies.*, accounts.name AS account_name FROM service_accounts AS accounts
JOIN trust_policies ON trust_policies.service_account_id = accounts.id
JOIN groups ON groups.id = accounts.group_id
WHERE accounts.organization_id = :organization_id AND accounts.is_disabled = :no
    AND (trust_policies.expires_at IS NULL OR trust_policies.expires_at > :now)
"""


async def trusted_account(tx: Tx, organization_id: str, account_id: str) -> TrustedAccount | None:
    """Return an enabled account that has trust policies, by its id."""
    rows = await tx.all(
        _TRUSTED + "AND accounts.id = :id ORDER BY trust_policies.id",
        organization_id=organization_id,
        id=account_id,
        no=False,
        now=tx.now,
    )
    return _account(rows)


async def trusted_account_at(tx: Tx, organization_id: str, group: str, name: str) -> TrustedAccount | None:
    rows = await tx.all(
        _TRUSTED + "AND groups.path = :path AND accounts.name = :name ORDER BY trust_policies.id",
        organization_id=organization_id,
        path=group,
        name=name,
        no=False,
        now=tx.now,
    )
    return _account(rows)


def _account(rows: list[Row]) -> TrustedAccount | None:
    if not rows:
        return None
    first = rows[0]
    found = tuple(row_to(TrustPolicy, row) for row in rows)
    return TrustedAccount(first["service_account_id"], first["account_name"], first["organization_id"], found)


async def account_of_policy(tx: Tx, account_id: str, policy_id: str) -> Row | None:
    """Return the account, if it is enabled and has this policy."""
    return await tx.one(
        "SELECT a.id, a.name, a.organization_id, p.expires_at AS ends_at FROM trust_policies AS p"
        " JOIN service_accounts AS a ON a.id = p.service_account_id"
        " WHERE p.id = :policy_id AND a.id = :id AND a.is_disabled = :no"
        " AND (p.expires_at IS NULL OR p.expires_at > :now)",
        policy_id=policy_id,
        id=account_id,
        now=tx.now,
        no=False,
    )


async def remember(tx: Tx, tokens: Sequence[ExchangedToken]) -> list[bool]:
    """Remember tokens. Returns for each whether it is new and its policy still applies: the account is enabled."""
    ordered = sorted({(each.organization_id, each.sha256, each.policy_id, each.expires_at) for each in tokens})
    rows = await tx.each(
        """INSERT INTO exchanged_tokens (organization_id, sha256, expires_at)
        SELECT batch.organization_id, batch.sha256, batch.expires_at FROM batch
        WHERE EXISTS (SELECT 1 FROM trust_policies AS p JOIN service_accounts AS a ON a.id = p.service_account_id
            WHERE p.id = batch.policy_id AND NOT a.is_disabled)
        ON CONFLICT (organization_id, sha256) DO NOTHING RETURNING organization_id, sha256""",
        {"organization_id": "text", "sha256": "text", "policy_id": "text", "expires_at": "double precision"},
        ordered,
    )
    made = {(row["organization_id"], row["sha256"]) for row in rows}
    answers: list[bool] = []
    for each in tokens:
        key = (each.organization_id, each.sha256)
        answers.append(key in made)
        made.discard(key)  # the same token twice in one batch: only the first one is new
    return answers


async def count_remembered(tx: Tx, organization_id: str, limit: int) -> int:
    return await tx.value(
        "SELECT count(*) AS tokens FROM (SELECT 1 AS one FROM exchanged_tokens"
        " WHERE organization_id = :id AND expires_at > :now LIMIT :limit) AS found",
        id=organization_id,
        now=tx.now,
        limit=limit,
    )


async def note_use(tx: Tx, policy_id: str) -> None:
    await tx.run("UPDATE trust_policies SET last_used_at = :now WHERE id = :id", now=tx.now, id=policy_id)


async def prune_exchanged(tx: Tx, before: float, count: int) -> int:
    """Forget tokens that expired before this time."""
    return await delete_some(
        tx, "exchanged_tokens", "expires_at < :before", before, count, key="organization_id, sha256"
    )


async def prune_policies(tx: Tx, before: float, count: int) -> int:
    """Remove trust policies that expired before this time."""
    return await delete_some(tx, "trust_policies", "expires_at < :before", before, count)
