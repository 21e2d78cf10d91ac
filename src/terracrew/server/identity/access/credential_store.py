"""Finds the runner of a worker token and the attempt of a credential, and rotates worker tokens."""

from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.principals.model import AttemptScope


async def runner_by_worker_token(tx: Tx, token_sha256: str) -> Row | None:
    """Return the runner that has this token as its current or next one. `worker_token_sha256` is the hash of that token."""
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


async def replace_worker_token(tx: Tx, next_sha256: str) -> bool:
    """Replace the runner's token by its next one, which has just been used for the first time."""
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
