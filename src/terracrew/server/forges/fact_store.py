"""Rows of the facts that forges have told: pull requests, and comments that are commands."""

from collections.abc import Sequence
from typing import LiteralString

from terracrew import ids
from terracrew.forges.model import Comment, PullRequest
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.db.statements.table import Table, batch_assignments, values
from terracrew.server.forges import decide
from terracrew.server.forges.decide import FactChange
from terracrew.server.forges.model import ForgeComment, ForgePullRequest, is_command

PULL_REQUESTS = Table("forge_pull_requests", ForgePullRequest)
COMMENTS = Table("forge_comments", ForgeComment)
MAX_BODY_CHARACTERS = 2_000
"""How much of a command is kept. Nothing that a command means is longer."""
_FIXED = ("id", "repository_id", "number", "first_seen_at")
_CHANGEABLE: tuple[LiteralString, ...] = tuple(field for field in PULL_REQUESTS.fields if field not in _FIXED)


async def save_answers(
    tx: Tx, repository_id: str, answers: Sequence[PullRequest], question: int
) -> list[ForgePullRequest]:
    """Write what the forge has answered to a question, unless a newer one was answered, and return what has changed.

    The transaction holds the repository.
    """
    stored = await _stored(tx, repository_id, [each.number for each in answers])
    changes = decide.changes(repository_id, stored, answers, question, tx.moment)
    made = [each.after for each in changes if each.is_new]
    await tx.each(
        PULL_REQUESTS.insert_batch(*PULL_REQUESTS.fields), PULL_REQUESTS.types, [values(each) for each in made]
    )
    await _update(tx, [each for each in changes if not each.is_new])
    changed = [each.after for each in changes if each.is_changed]
    for each in changed:
        tx.wake("pull_requests", each.id)
    return changed


async def get(tx: Tx, pull_request_id: str) -> ForgePullRequest | None:
    return await PULL_REQUESTS.find(tx, id=pull_request_id)


async def numbered(tx: Tx, repository_id: str, number: int) -> ForgePullRequest | None:
    return await PULL_REQUESTS.find(tx, repository_id=repository_id, number=number)


async def open_of(tx: Tx, repository_id: str) -> list[ForgePullRequest]:
    """Return the pull requests of a repository that are open as far as is known, ordered by number."""
    return await PULL_REQUESTS.all(
        tx, "FROM forge_pull_requests WHERE repository_id = :id AND state = 'open' ORDER BY number", id=repository_id
    )


async def save_comments(tx: Tx, repository_id: str, comments: Sequence[Comment]) -> list[ForgeComment]:
    """Write the comments that are commands and were not seen before, and return them."""
    made = [
        ForgeComment(
            id=ids.new("fcm"),
            repository_id=repository_id,
            comment_id=each.id,
            number=each.number,
            author=each.author,
            author_id=each.author_id,
            body=each.body[:MAX_BODY_CHARACTERS],
            url=each.url,
            created_at=each.created_at,
            seen_at=tx.moment,
        )
        for each in comments
        if is_command(each.body)
    ]
    rows = await tx.each(
        COMMENTS.insert_batch(*COMMENTS.fields)
        + " ON CONFLICT (repository_id, comment_id) DO NOTHING RETURNING forge_comments.id",
        COMMENTS.types,
        [values(each) for each in made],
    )
    new = {row["id"] for row in rows}
    return [each for each in made if each.id in new]


async def waiting_comments(tx: Tx, repository_id: str, number: int) -> list[ForgeComment]:
    """Return the commands for a pull request that were not handled yet, the oldest first."""
    return await COMMENTS.all(
        tx,
        "FROM forge_comments WHERE repository_id = :id AND number = :number AND NOT is_handled ORDER BY id",
        id=repository_id,
        number=number,
    )


async def handled(tx: Tx, comment_id: str) -> bool:
    """Write that a command was handled. Returns False if that has happened before: a command is carried out once.

    Its row stays for that, without its text, which anybody may have written.
    """
    changed = await tx.run(
        "UPDATE forge_comments SET is_handled = true, body = '' WHERE id = :id AND NOT is_handled", id=comment_id
    )
    return changed > 0


async def _stored(tx: Tx, repository_id: str, numbers: Sequence[int]) -> dict[int, ForgePullRequest]:
    rows = await tx.each(
        f"""SELECT {PULL_REQUESTS.columns} FROM batch JOIN forge_pull_requests
            ON forge_pull_requests.repository_id = batch.repository_id AND forge_pull_requests.number = batch.number""",
        {"repository_id": "text", "number": "bigint"},
        [(repository_id, number) for number in sorted(set(numbers))],
    )
    return {each.number: each for each in rows_to(ForgePullRequest, rows)}


async def _update(tx: Tx, changes: Sequence[FactChange]) -> None:
    if changes:
        await tx.each(
            f"UPDATE forge_pull_requests SET {batch_assignments(*_CHANGEABLE)} FROM batch"
            " WHERE forge_pull_requests.id = batch.id AND forge_pull_requests.question < batch.question",
            PULL_REQUESTS.types_of("id", *_CHANGEABLE),
            [values(each.after, "id", *_CHANGEABLE) for each in sorted(changes, key=lambda each: each.after.id)],
        )
