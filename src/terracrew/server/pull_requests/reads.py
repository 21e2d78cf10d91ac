"""Reads which pull requests have something to do, and what they and people need of modules, jobs and plans."""

from typing import LiteralString

import msgspec

from terracrew.server.db.seam import Tx
from terracrew.server.forges import reads as forge_reads
from terracrew.server.pull_requests import store
from terracrew.server.pull_requests.model import PullRequestSubject, TrackedPullRequest

_HAS_REASON: LiteralString = """(forge_pull_requests.revision <> pull_requests.seen_revision
    OR (forge_pull_requests.state = 'open' AND forge_pull_requests.base_branch = forge_repositories.default_branch
        AND forge_repositories.default_commit <> pull_requests.seen_base)
    OR EXISTS (SELECT 1 FROM forge_comments WHERE forge_comments.repository_id = forge_pull_requests.repository_id
        AND forge_comments.number = forge_pull_requests.number AND NOT forge_comments.is_handled)
    OR EXISTS (SELECT 1 FROM pull_request_modules JOIN jobs ON jobs.id = pull_request_modules.plan_job_id
        WHERE pull_request_modules.pull_request_id = pull_requests.id AND jobs.status <> pull_request_modules.plan_status)
    OR EXISTS (SELECT 1 FROM pull_request_modules JOIN jobs ON jobs.id = pull_request_modules.apply_job_id
        WHERE pull_request_modules.pull_request_id = pull_requests.id AND jobs.status <> pull_request_modules.apply_status)
    OR EXISTS (SELECT 1 FROM pull_request_modules JOIN modules ON modules.id = pull_request_modules.module_id
        WHERE pull_request_modules.pull_request_id = pull_requests.id AND pull_request_modules.state IN ('changes', 'no_changes')
            AND pull_request_modules.plan_job_id IS NOT NULL AND modules.state_version <> pull_request_modules.state_version))"""
_WITH_FACTS: LiteralString = """JOIN forge_pull_requests ON forge_pull_requests.id = pull_requests.id
    JOIN forge_repositories ON forge_repositories.id = forge_pull_requests.repository_id
    JOIN forge_connections ON forge_connections.id = forge_repositories.connection_id"""
_DUE: LiteralString = f"""SELECT pull_requests.id FROM pull_requests {_WITH_FACTS}
WHERE pull_requests.is_active AND (pull_requests.lease_until IS NULL OR pull_requests.lease_until <= :now)
    AND (pull_requests.due_at <= :now OR (pull_requests.failures = 0 AND {_HAS_REASON}))
    AND (forge_connections.away_until IS NULL OR forge_connections.away_until <= :now)
ORDER BY pull_requests.id LIMIT :count"""
_NEW: LiteralString = """SELECT forge_pull_requests.id, forge_connections.organization_id FROM forge_pull_requests
    JOIN forge_repositories ON forge_repositories.id = forge_pull_requests.repository_id AND forge_repositories.is_watched
    JOIN forge_connections ON forge_connections.id = forge_repositories.connection_id
    LEFT JOIN pull_requests ON pull_requests.id = forge_pull_requests.id
WHERE forge_pull_requests.state = 'open' AND (pull_requests.id IS NULL OR NOT pull_requests.is_active)
ORDER BY forge_pull_requests.id LIMIT :count"""
_NEXT: LiteralString = """SELECT min(CASE WHEN lease_until IS NULL THEN due_at ELSE lease_until END) AS next
    FROM pull_requests WHERE is_active"""


class NewPullRequest(msgspec.Struct, frozen=True):
    id: str
    organization_id: str


async def new(tx: Tx, count: int) -> list[NewPullRequest]:
    """Return open pull requests about which nothing was done yet, or not since they were closed."""
    return [NewPullRequest(row["id"], row["organization_id"]) for row in await tx.all(_NEW, count=count)]


async def due(tx: Tx, count: int) -> list[str]:
    """Return the pull requests for which there is something to do now, and that no server works on."""
    return [row["id"] for row in await tx.all(_DUE, now=tx.now, count=count)]


async def next_due(tx: Tx) -> float | None:
    return await tx.value(_NEXT)


async def subject(tx: Tx, row: TrackedPullRequest) -> PullRequestSubject | None:
    """Return a pull request with its facts; None if its connection was deleted."""
    found = await forge_reads.with_repository(tx, row.id)
    return None if found is None else PullRequestSubject(row, *found)


async def linked_user(tx: Tx, connection_id: str, forge_user_id: str) -> str:
    """Return the id of the user who is this user of the forge; '' if nobody said so."""
    found = await store.linked(tx, connection_id, forge_user_id) if forge_user_id else None
    return "" if found is None else found.user_id
