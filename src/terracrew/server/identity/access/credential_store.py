"""Finds the runner of a worker token and the attempt of a credential, and rotates worker tokens."""

from collections.abc import Iterable
from typing import LiteralString

from terracrew.server.db.seam import Columns, Row, Tx
from terracrew.server.db.statements.fragments import delete_some
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.principals.model import AttemptScope

_RUNNER: LiteralString = "SELECT id, name, path, organization_id, worker_token_expires_at"
_IS_VALID: LiteralString = "(worker_token_expires_at IS NULL OR worker_token_expires_at > :now)"
_IS_VALID_IN_BATCH: LiteralString = "(worker_token_expires_at IS NULL OR worker_token_expires_at > batch.now)"
_DIGEST_TYPES: Columns = {"sha256": "text", "now": "double precision"}
_BY_CURRENT_TOKEN: LiteralString = (
    _RUNNER + ", worker_token_sha256, false AS is_next FROM batch"
    f" JOIN runners ON worker_token_sha256 = batch.sha256 WHERE {_IS_VALID_IN_BATCH}"
)
_BY_NEXT_TOKEN: LiteralString = (
    _RUNNER + ", next_worker_token_sha256 AS worker_token_sha256, true AS is_next FROM batch"
    f" JOIN runners ON next_worker_token_sha256 = batch.sha256 WHERE {_IS_VALID_IN_BATCH}"
)


async def runners_by_worker_tokens(tx: Tx, digests: Iterable[str]) -> dict[str, Row]:
    """Return the runners that have these tokens as their current or next ones and may use them still, by their digests.

    `worker_token_sha256` is the digest of that token.
    """
    wanted = sorted(set(digests))
    found: dict[str, Row] = {}
    for sql in (_BY_CURRENT_TOKEN, _BY_NEXT_TOKEN):
        rows = [(each, tx.now) for each in wanted if each not in found]
        found |= {row["worker_token_sha256"]: row for row in await tx.each(sql, _DIGEST_TYPES, rows)}
    return found


async def runner_by_expired_token(tx: Tx, token_sha256: str) -> Row | None:
    """Return the runner whose worker token this was until it expired."""
    return await tx.one(
        _RUNNER + " FROM runners WHERE worker_token_sha256 = :sha256 AND worker_token_expires_at <= :now",
        sha256=token_sha256,
        now=tx.now,
    )


async def runner_by_ended_token(tx: Tx, token_sha256: str) -> Row | None:
    """Return the runner that replaced this token by itself and has a valid one since.

    A runner whose token has expired, or has been replaced by a person, tries its earlier ones, too: that is no sign of a copy.
    """
    return await tx.one(
        "SELECT runners.id, runners.name, runners.path, runners.organization_id, ended_worker_tokens.ended_at"
        " FROM ended_worker_tokens JOIN runners ON runners.id = ended_worker_tokens.runner_id"
        f" WHERE ended_worker_tokens.sha256 = :sha256 AND runners.is_worker_token_rotated AND {_IS_VALID}",
        sha256=token_sha256,
        now=tx.now,
    )


async def offer_worker_token(tx: Tx, token_sha256: str, next_sha256: str) -> bool:
    """Register the token that follows the runner's current one. Returns False for a token that several processes share, because
    the others could not learn of the new one."""
    return bool(
        await tx.run(
            "UPDATE runners SET next_worker_token_sha256 = :next"
            " WHERE worker_token_sha256 = :sha256 AND NOT allow_multiple_instances AND organization_id IS NOT NULL",
            sha256=token_sha256,
            next=next_sha256,
        )
    )


async def replace_worker_token(tx: Tx, next_sha256: str, expires_at: float) -> bool:
    """Replace the runner's token by its next one, which has just been used for the first time."""
    await tx.run(
        """INSERT INTO ended_worker_tokens (sha256, runner_id, ended_at)
        SELECT worker_token_sha256, id, CAST(:now AS double precision) FROM runners
        WHERE next_worker_token_sha256 = :next AND worker_token_sha256 IS NOT NULL
        ON CONFLICT (sha256) DO NOTHING""",
        next=next_sha256,
        now=tx.now,
    )
    return bool(
        await tx.run(
            "UPDATE runners SET worker_token_sha256 = next_worker_token_sha256, next_worker_token_sha256 = NULL,"
            " worker_token_expires_at = :expires_at, is_worker_token_rotated = true"
            " WHERE next_worker_token_sha256 = :next",
            next=next_sha256,
            expires_at=expires_at,
        )
    )


async def extend_worker_token(tx: Tx, token_sha256: str, expires_at: float) -> None:
    """Let a token that is in use be valid for longer: a runner may have stopped to replace it."""
    await tx.run(
        "UPDATE runners SET worker_token_expires_at = :expires_at"
        " WHERE worker_token_sha256 = :sha256 AND organization_id IS NOT NULL"
        " AND (worker_token_expires_at IS NULL OR worker_token_expires_at < :expires_at)",
        sha256=token_sha256,
        expires_at=expires_at,
    )


async def prune_ended_tokens(tx: Tx, before: float, count: int) -> int:
    """Forget the worker tokens that runners replaced before this time."""
    condition = "ended_at < :before ORDER BY ended_at"
    return await delete_some(tx, "ended_worker_tokens", condition, before, count, key="sha256")


async def runners_with_worker_tokens(tx: Tx, runner_ids: Iterable[str]) -> dict[str, Row]:
    """Return those of these runners that have a valid token, by their ids."""
    rows = [(each, tx.now) for each in sorted(set(runner_ids))]
    found = await tx.each(
        _RUNNER + f", worker_token_sha256 FROM batch JOIN runners ON runners.id = batch.runner_id"
        f" WHERE worker_token_sha256 IS NOT NULL AND {_IS_VALID_IN_BATCH}",
        {"runner_id": "text", "now": "double precision"},
        rows,
    )
    return {row["id"]: row for row in found}


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


async def attempts_by_hub_credentials(tx: Tx, digests: Iterable[str]) -> dict[str, AttemptScope]:
    """Return the attempts of these credentials, by their digests."""
    rows = await tx.each(
        """SELECT a.hub_sha256, a.job_id, a.number AS attempt, a.runner_id, jobs.organization_id, jobs.module_id,
            modules.path AS module_path
        FROM batch JOIN attempts AS a ON a.hub_sha256 = batch.sha256 JOIN jobs ON jobs.id = a.job_id
        JOIN modules ON modules.id = jobs.module_id""",
        {"sha256": "text"},
        [(each,) for each in sorted(set(digests))],
    )
    return {row["hub_sha256"]: row_to(AttemptScope, row) for row in rows}


async def live_attempt_by_api_credential(tx: Tx, sha256: str) -> AttemptScope | None:
    row = await tx.one(
        _ATTEMPT + "WHERE a.api_sha256 = :sha256 AND a.ended_at IS NULL AND jobs.attempt = a.number", sha256=sha256
    )
    return None if row is None else row_to(AttemptScope, row)
