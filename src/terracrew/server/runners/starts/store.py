"""Rows of starts. Whether one is given away is decided by a single statement, so that of two requests only one gets it."""

import msgspec

from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import row_to, to_params
from terracrew.server.db.statements.table import Table


class HeldStart(msgspec.Struct, frozen=True):
    job_id: str
    attempt: int
    ticket_sha256: str | None
    """None if the ticket was revoked before a start was stored."""
    content: bytes | None
    """The start, encrypted; None if nobody needs it any more."""
    claim_sha256: str | None
    """The hash of the claim that fetched the start; None if nobody has."""
    expires_at: float
    fetched_at: float | None = None
    revoked_at: float | None = None
    reported_at: float | None = None
    """When a second use of the ticket was recorded in the audit log."""


STARTS = Table("executor_starts", HeldStart)


async def put(tx: Tx, start: HeldStart) -> bool:
    """Store the start of an attempt. Returns False if its start was fetched or its ticket was revoked."""
    found = await tx.run(
        STARTS.insert()
        + """ ON CONFLICT (job_id, attempt) DO UPDATE SET ticket_sha256 = excluded.ticket_sha256, content = excluded.content,
            expires_at = excluded.expires_at
        WHERE executor_starts.fetched_at IS NULL AND executor_starts.revoked_at IS NULL""",
        **to_params(start),
    )
    return bool(found)


async def find(tx: Tx, ticket_sha256: str) -> HeldStart | None:
    return await STARTS.find(tx, ticket_sha256=ticket_sha256)


async def claim(tx: Tx, ticket_sha256: str, claim_sha256: str) -> HeldStart | None:
    """Give the start to this claim, if no other one has it. Returns None if the ticket is not valid for the claim."""
    row = await tx.one(
        f"""UPDATE executor_starts SET claim_sha256 = :claim, fetched_at = coalesce(fetched_at, :now)
        WHERE ticket_sha256 = :ticket AND content IS NOT NULL AND expires_at > :now
            AND (claim_sha256 IS NULL OR claim_sha256 = :claim)
        RETURNING {STARTS.columns}""",
        ticket=ticket_sha256,
        claim=claim_sha256,
        now=tx.now,
    )
    return None if row is None else row_to(HeldStart, row)


async def report(tx: Tx, ticket_sha256: str) -> bool:
    """Note that a second use of the ticket is recorded. Returns False if an earlier one was."""
    found = await tx.run(
        "UPDATE executor_starts SET reported_at = :now WHERE ticket_sha256 = :ticket AND reported_at IS NULL",
        ticket=ticket_sha256,
        now=tx.now,
    )
    return bool(found)


async def revoke(tx: Tx, job_id: str, attempt: int) -> bool:
    """Remove the start of an attempt for good, also one that would arrive later. Returns whether it was fetched before."""
    row = await tx.one(
        STARTS.insert()
        + """ ON CONFLICT (job_id, attempt) DO UPDATE SET content = NULL,
            revoked_at = coalesce(executor_starts.revoked_at, excluded.revoked_at)
        RETURNING executor_starts.fetched_at""",
        **to_params(HeldStart(job_id, attempt, None, None, None, expires_at=tx.now, revoked_at=tx.now)),
    )
    return row is not None and row["fetched_at"] is not None


async def prune(tx: Tx, before: float, count: int) -> int:
    """Remove the content of starts that expired before this time, and the rows of attempts that ended before it."""
    expired = await tx.run(
        """UPDATE executor_starts SET content = NULL WHERE (job_id, attempt) IN (
            SELECT job_id, attempt FROM executor_starts WHERE expires_at < :before AND content IS NOT NULL LIMIT :count)""",
        before=before,
        count=count,
    )
    ended = await tx.run(
        """DELETE FROM executor_starts WHERE (job_id, attempt) IN (
            SELECT job_id, attempt FROM executor_starts WHERE EXISTS (
                SELECT 1 FROM attempts WHERE attempts.job_id = executor_starts.job_id
                    AND attempts.number = executor_starts.attempt AND attempts.ended_at < :before) LIMIT :count)""",
        before=before,
        count=count,
    )
    return max(expired, ended)
