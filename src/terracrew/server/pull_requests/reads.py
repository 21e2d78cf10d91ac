"""Reads which pull requests have something to do, and what they and people need of modules, jobs and plans."""

from collections.abc import Sequence
from typing import LiteralString

import msgspec

from terracrew.api.pull_requests import PlanState, PullRequestState
from terracrew.server.db.seam import Param, Row, Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.forges import reads as forge_reads
from terracrew.server.principals import visibility
from terracrew.server.principals.authorize import Visible
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
        WHERE pull_request_modules.pull_request_id = pull_requests.id AND pull_request_modules.plan_job_id IS NOT NULL
            AND modules.state_version <> pull_request_modules.state_version
            AND ((pull_request_modules.state = 'changes' AND forge_pull_requests.state <> 'closed')
                OR (pull_request_modules.state = 'no_changes' AND forge_pull_requests.state = 'open'))))"""
_WITH_FACTS: LiteralString = """JOIN forge_pull_requests ON forge_pull_requests.id = pull_requests.id
    JOIN forge_repositories ON forge_repositories.id = forge_pull_requests.repository_id
    JOIN forge_connections ON forge_connections.id = forge_repositories.connection_id"""
_DUE: LiteralString = f"""SELECT pull_requests.id FROM pull_requests {_WITH_FACTS}
WHERE pull_requests.is_active AND (pull_requests.lease_until IS NULL OR pull_requests.lease_until <= :now)
    AND (pull_requests.due_at <= :now OR (pull_requests.failures = 0 AND {_HAS_REASON}))
    AND (forge_connections.away_until IS NULL OR forge_connections.away_until <= :now)
ORDER BY pull_requests.id LIMIT :count"""
_WATCHED: LiteralString = """JOIN forge_repositories
        ON forge_repositories.id = forge_pull_requests.repository_id AND forge_repositories.is_watched
    JOIN forge_connections ON forge_connections.id = forge_repositories.connection_id"""
_NEW: LiteralString = f"""SELECT forge_pull_requests.id, forge_pull_requests.state, forge_connections.organization_id
    FROM forge_pull_requests {_WATCHED} LEFT JOIN pull_requests ON pull_requests.id = forge_pull_requests.id
    WHERE forge_pull_requests.state = 'open' AND (pull_requests.id IS NULL OR NOT pull_requests.is_active)
UNION SELECT forge_pull_requests.id, forge_pull_requests.state, forge_connections.organization_id
    FROM forge_pull_requests {_WATCHED} LEFT JOIN pull_requests ON pull_requests.id = forge_pull_requests.id
    WHERE forge_pull_requests.state = 'merged' AND forge_pull_requests.changed_at > :since AND pull_requests.id IS NULL
UNION SELECT forge_pull_requests.id, forge_pull_requests.state, forge_connections.organization_id
    FROM forge_comments JOIN forge_pull_requests ON forge_pull_requests.repository_id = forge_comments.repository_id
        AND forge_pull_requests.number = forge_comments.number {_WATCHED}
    JOIN pull_requests ON pull_requests.id = forge_pull_requests.id AND NOT pull_requests.is_active
    WHERE NOT forge_comments.is_handled
ORDER BY 1 LIMIT :count"""
_NEXT: LiteralString = """SELECT min(CASE WHEN lease_until IS NULL THEN due_at ELSE lease_until END) AS next
    FROM pull_requests WHERE is_active"""

_LISTED: LiteralString = """pull_requests.id, pull_requests.head_commit AS looked_at, pull_requests.base_commit,
    pull_requests.problem, pull_requests.is_waiting, pull_requests.replies, pull_requests.show_problem, pull_requests.created_at,
    pull_requests.allowed_commit, pull_requests.allowed_branch,
    forge_pull_requests.number, forge_pull_requests.title, forge_pull_requests.url,
    forge_pull_requests.state, forge_pull_requests.author, forge_pull_requests.head_commit, forge_pull_requests.base_branch,
    forge_pull_requests.is_fork, forge_pull_requests.is_draft, forge_pull_requests.merge_commit, forge_pull_requests.merged_by,
    forge_pull_requests.changed_at, forge_repositories.name AS repository, forge_connections.name AS connection,
    groups.path AS connection_group"""
_LISTED_FROM: LiteralString = f"""FROM pull_requests {_WITH_FACTS} JOIN groups ON groups.id = forge_connections.group_id
WHERE pull_requests.organization_id = :organization_id"""
_SEEN: LiteralString = """ AND (forge_connections.group_id IN (SELECT id FROM seen_groups)
    OR EXISTS (SELECT 1 FROM pull_request_modules JOIN seen_modules ON seen_modules.id = pull_request_modules.module_id
        WHERE pull_request_modules.pull_request_id = pull_requests.id))"""
_FILTERED: LiteralString = """ AND (CAST(:state AS text) = 'all' OR forge_pull_requests.state = CAST(:state AS text))
    AND (CAST(:after AS text) = '' OR pull_requests.id < CAST(:after AS text)) ORDER BY pull_requests.id DESC LIMIT :limit"""
_MODULES: LiteralString = f"""SELECT {store.MODULES.columns}, modules.path, plan_jobs.number AS plan_number,
    apply_jobs.number AS apply_number FROM pull_request_modules
JOIN modules ON modules.id = pull_request_modules.module_id AND modules.organization_id = :organization_id
LEFT JOIN jobs AS plan_jobs ON plan_jobs.id = pull_request_modules.plan_job_id
LEFT JOIN jobs AS apply_jobs ON apply_jobs.id = pull_request_modules.apply_job_id
WHERE pull_request_modules.pull_request_id = :id"""


class NewPullRequest(msgspec.Struct, frozen=True):
    id: str
    organization_id: str
    state: PullRequestState


async def new(tx: Tx, count: int, missed_seconds: float) -> list[NewPullRequest]:
    """Return pull requests about which nothing was done yet, or not since they were opened again or got a command.

    `missed_seconds`: how long ago one that is merged may have become known.
    """
    return [row_to(NewPullRequest, row) for row in await tx.all(_NEW, count=count, since=tx.now - missed_seconds)]


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


async def listed(tx: Tx, organization_id: str, seen: Visible, state: str, after: str, limit: int) -> list[Row]:
    """Return the pull requests of an organization that the reader may see, the newest first."""
    if seen.is_nothing:
        return []
    given: dict[str, Param] = {"organization_id": organization_id, "state": state, "after": after, "limit": limit}
    if seen.is_everything(organization_id):
        return await tx.all(f"SELECT {_LISTED} {_LISTED_FROM}{_FILTERED}", **given)
    sql: LiteralString = f"{visibility.SEEN_MODULES} SELECT {_LISTED} {_LISTED_FROM}{_SEEN}{_FILTERED}"
    return await tx.all(sql, **given, **visibility.params(seen))


async def one(tx: Tx, organization_id: str, seen: Visible, pull_request_id: str) -> Row | None:
    """Return a pull request, if the reader may see it."""
    if seen.is_nothing:
        return None
    given: dict[str, Param] = {"organization_id": organization_id, "id": pull_request_id}
    if seen.is_everything(organization_id):
        return await tx.one(f"SELECT {_LISTED} {_LISTED_FROM} AND pull_requests.id = :id", **given)
    sql: LiteralString = f"{visibility.SEEN_MODULES} SELECT {_LISTED} {_LISTED_FROM}{_SEEN} AND pull_requests.id = :id"
    return await tx.one(sql, **given, **visibility.params(seen))


async def count_modules(tx: Tx, pull_request_id: str) -> int:
    """Return how many modules a pull request touches, whoever may see them."""
    return await tx.value("SELECT count(*) FROM pull_request_modules WHERE pull_request_id = :id", id=pull_request_id)


async def named(tx: Tx, organization_id: str, repository: str, number: int) -> list[str]:
    """Return the ids of the pull requests that people call by the name of their repository and this number."""
    rows = await tx.all(
        f"""SELECT pull_requests.id FROM pull_requests {_WITH_FACTS}
        WHERE pull_requests.organization_id = :organization_id AND forge_pull_requests.number = :number
            AND forge_repositories.name_key = :name ORDER BY pull_requests.id""",
        organization_id=organization_id,
        number=number,
        name=repository.lower(),
    )
    return [row["id"] for row in rows]


async def counts(
    tx: Tx, organization_id: str, seen: Visible, pull_request_ids: Sequence[str]
) -> dict[str, dict[PlanState, int]]:
    """Return by pull request how many of its modules are in each state, as far as the reader may see them."""
    found: dict[str, dict[PlanState, int]] = {each: {} for each in pull_request_ids}
    for pull_request_id, known in found.items():
        for row in await modules(tx, organization_id, seen, pull_request_id):
            state: PlanState = row["state"]
            known[state] = known.get(state, 0) + 1
    return found


async def modules(tx: Tx, organization_id: str, seen: Visible, pull_request_id: str) -> list[Row]:
    """Return the modules that a pull request touches, as far as the reader may see them, ordered by path."""
    if seen.is_everything(organization_id):
        return await tx.all(_MODULES + " ORDER BY modules.path", organization_id=organization_id, id=pull_request_id)
    sql: LiteralString = (
        f"{visibility.SEEN_MODULES} {_MODULES} AND modules.id IN (SELECT id FROM seen_modules) ORDER BY modules.path"
    )
    return await tx.all(sql, organization_id=organization_id, id=pull_request_id, **visibility.params(seen))
