"""What the APIs of GitHub and Gitea have in common, because Gitea's is made after GitHub's: the JSON that is read, and what it means."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from terracrew.forges import values
from terracrew.forges.contract import ForgeRefused
from terracrew.forges.model import (
    BranchMoved,
    Comment,
    CommentWritten,
    ForgeEvent,
    PullRequest,
    PullRequestChanged,
    PullRequestState,
    Repository,
)
from terracrew.source_rules import git


class Account(msgspec.Struct):
    login: str
    id: int


class HeadRepository(msgspec.Struct):
    id: int


class PullRequestSide(msgspec.Struct):
    ref: str
    sha: str
    repo: HeadRepository | None = None


class PullRequestAnswer(msgspec.Struct):
    number: int
    title: str
    html_url: str
    state: str
    user: Account | None
    head: PullRequestSide
    base: PullRequestSide
    draft: bool = False
    merged_at: datetime | None = None
    merge_commit_sha: str | None = None
    merged_by: Account | None = None
    updated_at: datetime | None = None


class RepositoryAnswer(msgspec.Struct):
    full_name: str
    html_url: str
    default_branch: str = ""
    permissions: dict[str, bool] | None = {}
    allow_merge_commit: bool | None = None
    allow_squash_merge: bool | None = None
    allow_rebase_merge: bool | None = None
    default_merge_style: str = ""


class CommentAnswer(msgspec.Struct):
    id: int
    html_url: str
    body: str | None
    user: Account | None
    created_at: datetime
    updated_at: datetime | None = None
    performed_via_github_app: HeadRepository | None = None


class ReviewAnswer(msgspec.Struct):
    state: str
    user: Account | None = None
    commit_id: str | None = None
    author_association: str = "MEMBER"
    dismissed: bool = False
    official: bool = True


class HookAnswer(msgspec.Struct):
    id: int
    active: bool = True
    config: dict[str, Any] = {}


class WithId(msgspec.Struct):
    id: int


class _NamedRepository(msgspec.Struct):
    full_name: str


class _Numbered(msgspec.Struct):
    number: int
    pull_request: Any = None


class DeliveredPullRequest(msgspec.Struct):
    repository: _NamedRepository
    number: int | None = None
    pull_request: _Numbered | None = None


class DeliveredComment(msgspec.Struct):
    action: str
    repository: _NamedRepository
    issue: _Numbered
    comment: CommentAnswer
    is_pull: bool = False


class DeliveredPush(msgspec.Struct):
    repository: _NamedRepository
    ref: str
    after: str


def as_repository(answer: RepositoryAnswer, base_url: str) -> Repository:
    name = values.name(answer.full_name)
    return Repository(
        name=name,
        clone_url=values.clone_url(base_url, name),
        default_branch=values.branch(answer.default_branch or "main"),
        url=values.link(answer.html_url, base_url),
    )


def as_pull_request(answer: PullRequestAnswer, base_url: str) -> PullRequest:
    state: PullRequestState = "open" if answer.state == "open" else "closed"
    if answer.merged_at is not None:
        state = "merged"
    head, base = answer.head, answer.base
    by = answer.merged_by if state == "merged" else None
    return PullRequest(
        number=number(answer.number),
        title=values.line(answer.title),
        url=values.link(answer.html_url, base_url),
        state=state,
        author=login(answer.user),
        author_id=account_id(answer.user),
        head_commit=values.commit(head.sha),
        head_branch=values.head_branch(head.ref),
        base_branch=values.branch(base.ref),
        head_ref=f"refs/pull/{answer.number}/head",
        is_fork=head.repo is None or base.repo is None or head.repo.id != base.repo.id,
        is_draft=answer.draft,
        merge_commit=values.commit_or_nothing(answer.merge_commit_sha) if state == "merged" else "",
        merged_by=login(by),
        merged_by_id=account_id(by),
        updated_at=answer.updated_at,
    )


def as_comment(answer: CommentAnswer, pull_request: int, base_url: str) -> Comment:
    return Comment(
        id=values.identity(answer.id),
        number=number(pull_request),
        author=login(answer.user),
        author_id=account_id(answer.user),
        body=values.body(answer.body),
        url=values.link(answer.html_url, base_url),
        created_at=answer.created_at,
    )


def comments_of_pull_requests(answers: Iterable[CommentAnswer], pages: str, base_url: str) -> list[Comment]:
    """Return the comments of pull requests that nobody has edited. `pages` is what the addresses of pull requests begin with."""
    found: list[Comment] = []
    for answer in answers:
        is_one = answer.html_url.lower().startswith(pages.lower())
        digits = answer.html_url[len(pages) :].partition("#")[0].partition("/")[0]
        if is_one and digits.isascii() and digits.isdigit() and not is_edited(answer.created_at, answer.updated_at):
            found.append(as_comment(answer, int(digits), base_url))
    return sorted(found, key=lambda each: each.created_at)


def is_edited(created_at: datetime, updated_at: datetime | None) -> bool:
    """Return whether a comment was changed after it was written. Whoever may write to a repository may edit comments of others."""
    return updated_at is not None and updated_at > created_at


def delivered(event: str, body: bytes, base_url: str) -> Sequence[ForgeEvent]:
    """Return what a delivery is a reason to ask about. An event that nothing here listens to is a reason for nothing."""
    if event.startswith("pull_request") and event != "pull_request_review_comment":
        about = _read(DeliveredPullRequest, body)
        numbered = about.number if about.number is not None else about.pull_request and about.pull_request.number
        return (
            [] if numbered is None else [PullRequestChanged(values.name(about.repository.full_name), number(numbered))]
        )
    if event == "issue_comment":
        written = _read(DeliveredComment, body)
        if written.action != "created" or not (written.is_pull or written.issue.pull_request is not None):
            return []
        comment = as_comment(written.comment, written.issue.number, base_url)
        return [CommentWritten(values.name(written.repository.full_name), comment)]
    if event == "push":
        push = _read(DeliveredPush, body)
        return moved(values.name(push.repository.full_name), push.ref, push.after)
    return []


def moved(repository: str, ref: str, after: str) -> Sequence[ForgeEvent]:
    """Return what a push to a ref is a reason to ask about: a branch or a tag that was not deleted."""
    kind, _, name = ref.removeprefix("refs/").partition("/")
    if not set(after) - {"0"}:
        return []
    if kind == "heads":
        return [BranchMoved(repository, values.branch(name), values.commit(after))]
    if kind == "tags" and name and not git.ref_problem(name):
        return [BranchMoved(repository, name, values.commit(after), is_tag=True)]
    return []


def number(value: int) -> int:
    if not 0 < value < 1 << 31:
        raise ForgeRefused(f"the forge has answered {value} where the number of a pull request should be")
    return value


def login(account: Account | None) -> str:
    """Return a name for people. An account that was deleted has none."""
    return "" if account is None else values.line(account.login, values.MAX_NAME_CHARACTERS)


def account_id(account: Account | None) -> str:
    return "" if account is None else values.identity(account.id)


def newest_reviews(reviews: Iterable[ReviewAnswer], states: Mapping[str, bool]) -> list[ReviewAnswer]:
    """Return the last review of each person that says yes or no, if it says yes. `states` says which ones do which."""
    last: dict[int, ReviewAnswer] = {}
    for each in reviews:
        if each.user is not None and each.state in states:
            last[each.user.id] = each
    return [each for each in last.values() if states[each.state] and not each.dismissed]


def _read(kind: type[Any], body: bytes) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ForgeRefused(f"the delivery is not what this forge sends: {values.line(str(error), 200)}") from None
