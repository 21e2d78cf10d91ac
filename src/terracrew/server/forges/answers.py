"""Writes what a forge has answered about a repository: lists, single pull requests, the default branch, and commands in comments.

A question gets its number before the forge is asked. `decide` says why.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from terracrew.errors import NotFound
from terracrew.forges.model import BranchHead, Comment, PullRequest, PullRequestPage
from terracrew.server.db.seam import Database, Tx
from terracrew.server.forges import contact, decide, fact_store, repository_store
from terracrew.server.forges.clients import Forges
from terracrew.server.forges.model import ForgeConnection, ForgePullRequest, ForgeRepository

_SHOWN = ("name", "default_commit", "hook_status", "hook_message", "problem", "clone_url")


async def refresh(
    db: Database, forges: Forges, connection: ForgeConnection, repository: ForgeRepository, number: int
) -> ForgePullRequest:
    """Ask the forge about one pull request, write what it answers, and return what is known of it then.

    Raises ForgeAway or ForgeRefused if it does not tell.
    """
    question = await db.write(lambda tx: repository_store.ask(tx, repository.id))
    answer = await forges.of(connection).pull_request(repository.name, number)

    async def work(tx: Tx) -> ForgePullRequest:
        found = await save_one(tx, repository.id, answer, question)
        await contact.good(tx, connection)
        return found

    return await db.write(work)


async def save_one(tx: Tx, repository_id: str, answer: PullRequest, question: int) -> ForgePullRequest:
    before = await repository_store.hold(tx, repository_id)
    if before is None:
        raise NotFound("the repository is not watched any more")
    if question > before.list_question or await fact_store.numbered(tx, repository_id, answer.number) is None:
        changed = await fact_store.save_answers(tx, repository_id, [answer], question)
        if changed:
            # The next list is read as a whole. Its tag could say that nothing has changed since a list before this answer.
            await repository_store.save(tx, before, replace(before, etag=""))
    found = await fact_store.numbered(tx, repository_id, answer.number)
    if found is None:
        raise NotFound(f"pull request {answer.number} is not known")
    return found


async def save_list(
    tx: Tx, repository: ForgeRepository, items: Sequence[PullRequest] | None, question: int
) -> list[ForgePullRequest]:
    """Write a list of all open pull requests, and return those that are known as open and are not in it.

    The transaction holds the repository. An older list than the last one changes nothing.
    """
    if items is None or question <= repository.list_question:
        return []
    await fact_store.save_answers(tx, repository.id, items, question)
    return decide.vanished(await fact_store.open_of(tx, repository.id), items, question)


async def usable_tag(tx: Tx, repository: ForgeRepository, page: PullRequestPage, question: int) -> str:
    """Return the tag of a list, if the list says what is known.

    If a newer question was answered meanwhile, or a pull request is missing in the list that is known as open, the next list is
    read as a whole.
    """
    if page.items is None:
        return repository.etag
    known = await fact_store.open_of(tx, repository.id)
    numbers = {each.number for each in page.items}
    is_same = all(each.question <= question and each.number in numbers for each in known)
    return page.etag if is_same and len(known) == len(numbers) else ""


def with_head(repository: ForgeRepository, head: BranchHead, question: int, now: datetime) -> ForgeRepository:
    """Return the repository with the newest commit of its default branch, unless a newer question has told it."""
    if question <= repository.default_question:
        return repository
    if head.commit is None or head.commit == repository.default_commit:
        return replace(repository, default_question=question, branch_etag=head.etag)
    return replace(
        repository,
        default_commit=head.commit,
        default_commit_at=now,
        default_question=question,
        branch_etag=head.etag,
    )


async def refresh_branch(
    db: Database, forges: Forges, connection: ForgeConnection, repository: ForgeRepository
) -> None:
    """Ask for the newest commit of the default branch."""
    question = await db.write(lambda tx: repository_store.ask(tx, repository.id))
    head = await forges.of(connection).branch(repository.name, repository.default_branch, "")

    async def work(tx: Tx) -> None:
        before = await repository_store.hold(tx, repository.id)
        if before is None or before.default_branch != repository.default_branch:
            return
        after = replace(with_head(before, head, question, tx.moment), branch_etag="")
        await repository_store.save(tx, before, after)
        await contact.good(tx, connection)
        if after.default_commit != before.default_commit:
            tx.wake("forge_branches", repository.id)
            tx.wake("forges", connection.id)

    await db.write(work)


async def save_comments(tx: Tx, repository_id: str, comments: Sequence[Comment]) -> None:
    """Write commands that were not seen before, and wake those who carry them out."""
    for each in await fact_store.save_comments(tx, repository_id, comments):
        known = await fact_store.numbered(tx, repository_id, each.number)
        if known is not None:
            tx.wake("pull_requests", known.id)


def is_shown_differently(before: ForgeRepository, after: ForgeRepository) -> bool:
    return any(getattr(before, name) != getattr(after, name) for name in _SHOWN)
