"""Rows of once tokens. One statement uses a token up, in the transaction of the claim, so that of two claims only one gets it."""

from typing import LiteralString

import msgspec

from terracrew.api.runners import OnceToken, OnceTokenStatus, OnceTokenView
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.fragments import delete_some
from terracrew.server.db.statements.mapping import row_to, rows_to, to_params
from terracrew.server.db.statements.table import Table

TOKENS = Table("once_tokens", OnceToken)
_INSERT = TOKENS.insert("sha256")
_IS_RUNNING: LiteralString = """EXISTS (SELECT 1 FROM attempts WHERE attempts.job_id = once_tokens.job_id
    AND attempts.number = once_tokens.attempt AND attempts.ended_at IS NULL)"""
_STATUS: LiteralString = f"""CASE WHEN once_tokens.revoked_at IS NOT NULL THEN 'revoked'
    WHEN once_tokens.claimed_at IS NULL AND once_tokens.expires_at > :now THEN 'waiting'
    WHEN once_tokens.claimed_at IS NULL THEN 'expired'
    WHEN {_IS_RUNNING} THEN 'running' ELSE 'used' END"""
_FOUND: LiteralString = f"""
SELECT once_tokens.id AS token_id, once_tokens.instance_id, {_STATUS} AS status,
    runners.id, runners.name, runners.path, runners.organization_id
FROM once_tokens JOIN runners ON runners.id = once_tokens.runner_id"""
VALID: tuple[OnceTokenStatus, ...] = ("waiting", "running")
MAX_WAITING_TOKENS = 1000
"""How many tokens of one runner may wait for a job at once."""
ENDED: dict[OnceTokenStatus, str] = {
    "running": "this token is for one job, and another instance has claimed it",
    "used": "this token was for one job, which has ended",
    "expired": "this token was for one job, and has expired before there was one",
    "revoked": "this token was for one job, and was revoked",
}
"""What the holder of a token is told that is not valid, or not here."""


class FoundToken(msgspec.Struct, frozen=True):
    """A once token with its runner, whose `name`, `path` and `organization_id` these are."""

    token_id: str
    instance_id: str | None
    """The instance that has claimed the job; None as long as no one has."""
    status: OnceTokenStatus
    id: str
    name: str
    path: str
    organization_id: str | None

    def is_valid_for(self, instance_id: str) -> bool:
        """Return whether this instance may be connected with it: it waits for a job, or this instance has the job."""
        return self.status in VALID and self.instance_id in (None, instance_id)


async def insert(tx: Tx, token: OnceToken, sha256: str) -> None:
    await tx.run(_INSERT, **to_params(token), sha256=sha256)


async def by_secret(tx: Tx, sha256: str) -> FoundToken | None:
    row = await tx.one(_FOUND + " WHERE once_tokens.sha256 = :sha256", sha256=sha256, now=tx.now)
    return None if row is None else row_to(FoundToken, row)


async def find(tx: Tx, token_id: str) -> FoundToken | None:
    row = await tx.one(_FOUND + " WHERE once_tokens.id = :id", id=token_id, now=tx.now)
    return None if row is None else row_to(FoundToken, row)


async def use(tx: Tx, token_id: str, job_id: str, attempt: int, instance_id: str) -> Row | None:
    """Use a token up for this attempt, and return the row of its runner; None if it cannot claim a job, or not any more.

    A statement of another transaction that uses the same token waits for this one, and then finds it used.
    """
    used = await tx.run(
        """UPDATE once_tokens SET claimed_at = :now, job_id = :job_id, attempt = :attempt, instance_id = :instance_id
        WHERE id = :id AND claimed_at IS NULL AND revoked_at IS NULL AND expires_at > :now""",
        id=token_id,
        job_id=job_id,
        attempt=attempt,
        instance_id=instance_id,
        now=tx.now,
    )
    if not used:
        return None
    tx.wake("access", token_id)  # other connections with the same token end
    return await tx.one(
        """SELECT runners.id, runners.name, runners.path, runners.organization_id, instances.name AS instance, instances.address
        FROM once_tokens JOIN runners ON runners.id = once_tokens.runner_id
        LEFT JOIN instances ON instances.id = once_tokens.instance_id WHERE once_tokens.id = :id""",
        id=token_id,
    )


async def give_back(tx: Tx, job_id: str, attempt: int) -> Row | None:
    """Let the token that was used up for this attempt claim another job, and return it with its runner; None if there is none."""
    row = await tx.one(
        """SELECT once_tokens.id AS token_id, runners.id, runners.path, runners.organization_id
        FROM once_tokens JOIN runners ON runners.id = once_tokens.runner_id
        WHERE once_tokens.job_id = :job_id AND once_tokens.attempt = :attempt""",
        job_id=job_id,
        attempt=attempt,
    )
    if row is not None:
        await tx.run(
            """UPDATE once_tokens SET claimed_at = NULL, job_id = NULL, attempt = NULL, instance_id = NULL
            WHERE id = :id AND job_id = :job_id AND attempt = :attempt""",
            id=row["token_id"],
            job_id=job_id,
            attempt=attempt,
        )
        tx.wake("access", row["token_id"])
    return row


async def revoke(tx: Tx, runner_id: str, token_id: str) -> bool:
    """Revoke a token of a runner. Returns False if there is no such token, or it was revoked before."""
    found = await tx.run(
        "UPDATE once_tokens SET revoked_at = :now WHERE id = :id AND runner_id = :runner_id AND revoked_at IS NULL",
        id=token_id,
        runner_id=runner_id,
        now=tx.now,
    )
    if found:
        tx.wake("access", token_id)
    return bool(found)


async def count_waiting(tx: Tx, runner_id: str) -> int:
    """Count the tokens of a runner that wait for a job."""
    return await tx.value(
        """SELECT count(*) AS tokens FROM once_tokens WHERE runner_id = :id AND claimed_at IS NULL
        AND revoked_at IS NULL AND expires_at > :now""",
        id=runner_id,
        now=tx.now,
    )


async def shown(tx: Tx, runner_id: str, after: str, count: int) -> list[OnceTokenView]:
    """Return the tokens of a runner that were made before the one with this id, the latest first."""
    rows = await tx.all(
        f"""SELECT {TOKENS.columns}, {_STATUS} AS status, jobs.number AS job_number
        FROM once_tokens LEFT JOIN jobs ON jobs.id = once_tokens.job_id
        WHERE once_tokens.runner_id = :runner_id AND (CAST(:after AS text) = '' OR once_tokens.id < :after)
        ORDER BY once_tokens.id DESC LIMIT :count""",
        runner_id=runner_id,
        after=after,
        count=count,
        now=tx.now,
    )
    return rows_to(OnceTokenView, rows)


async def prune(tx: Tx, before: float, count: int) -> int:
    """Remove the tokens that ended before this time. One whose attempt runs is kept."""
    condition: LiteralString = f"expires_at < :before AND NOT {_IS_RUNNING} ORDER BY expires_at"
    return await delete_some(tx, "once_tokens", condition, before, count)
