"""GitHub as a forge: what is asked of its API and what its deliveries say."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import ClassVar

import msgspec

from terracrew.api.forges import Finding
from terracrew.forges import shared_api, signatures, values
from terracrew.forges.contract import ForgeAnswer, ForgeLimits, ForgeRefused
from terracrew.forges.github import permissions
from terracrew.forges.github.api import AppAccess, TokenAccess
from terracrew.forges.model import (
    BranchHead,
    Comment,
    ForgeApproval,
    ForgeEvent,
    ForgeHook,
    GitCredential,
    PullRequest,
    PullRequestPage,
    Repository,
    Status,
)
from terracrew.forges.rest import MAX_PAGES, Rest, decoded, too_many
from terracrew.forges.shared_api import (
    Account,
    CommentAnswer,
    HookAnswer,
    PullRequestAnswer,
    RepositoryAnswer,
    ReviewAnswer,
    WithId,
)

PAGE_ITEMS = 100
EVENTS = ["push", "pull_request", "pull_request_review", "issue_comment"]
_REVIEWS = {"APPROVED": True, "CHANGES_REQUESTED": False, "DISMISSED": False}
_REVIEWERS = {"OWNER", "MEMBER", "COLLABORATOR"}
"""Everybody can review in a public repository. These belong to it."""
_MERGE_METHODS = (("allow_merge_commit", "merge"), ("allow_squash_merge", "squash"), ("allow_rebase_merge", "rebase"))


_QUEUE = "heads/gh-readonly-queue/"
"""What the names of the branches begin with in which a merge queue tries what it is going to merge."""


class GitObject(msgspec.Struct):
    sha: str


class RefAnswer(msgspec.Struct):
    object: GitObject


class MergeAnswer(msgspec.Struct):
    sha: str


class HookSettings(msgspec.Struct):
    url: str = ""


class GitHubForge:
    """A connection to github.com or to an Enterprise Server."""

    limits: ClassVar[ForgeLimits] = ForgeLimits(
        comment_characters=65_536, description_characters=140, writes_per_minute=40
    )

    def __init__(self, base_url: str, access: AppAccess | TokenAccess) -> None:
        self._base_url, self._access = base_url, access
        self._own: Account | None = None

    async def check(self, repository: str) -> list[Finding]:
        return await permissions.check(self._access, repository)

    async def repository(self, name: str) -> Repository:
        rest = await self._access.of(name)
        return shared_api.as_repository(await rest.get(RepositoryAnswer, _repository(name)), self._base_url)

    async def open_pull_requests(self, repository: str, etag: str) -> PullRequestPage:
        rest = await self._access.of(repository)
        if etag and await _is_unchanged(rest, repository, etag.split(" ")):
            return PullRequestPage(None, etag)
        found: list[PullRequest] = []
        tags: list[str] = []
        for number in range(1, MAX_PAGES + 1):
            answer = await _ask_page(rest, repository, number, "")
            page = decoded(list[PullRequestAnswer], answer, _pulls(repository))
            found += [shared_api.as_pull_request(each, self._base_url) for each in page]
            tags.append(values.etag(answer.headers.get("etag")))
            if len(page) < PAGE_ITEMS:
                return PullRequestPage(found, " ".join(tags) if all(tags) else "")
        raise too_many(_pulls(repository), MAX_PAGES * PAGE_ITEMS)

    async def branch(self, repository: str, name: str, etag: str) -> BranchHead:
        rest = await self._access.of(repository)
        path = f"{_repository(repository)}/commits/{values.path(f'heads/{name}' if name else 'HEAD')}"
        headers = {"Accept": "application/vnd.github.sha", **_condition(etag)}
        answer = await rest.ask("GET", path, headers=headers)
        tag = values.etag(answer.headers.get("etag"))
        if answer.status == 304:
            return BranchHead(None, etag)
        return BranchHead(values.commit(answer.body[:100].decode("ascii", "replace").strip()), tag)

    async def pull_request(self, repository: str, number: int) -> PullRequest:
        rest = await self._access.of(repository)
        answer = await rest.get(PullRequestAnswer, f"{_pulls(repository)}/{number}")
        return shared_api.as_pull_request(answer, self._base_url)

    async def comments(self, repository: str, since: datetime) -> list[Comment]:
        rest = await self._access.of(repository)
        answers = await rest.pages(
            CommentAnswer,
            f"{_repository(repository)}/issues/comments",
            PAGE_ITEMS,
            since=since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            sort="created",
            direction="asc",
        )
        pages = f"{self._base_url}/{repository}/pull/"
        found = shared_api.comments_of_pull_requests(answers, pages, self._base_url)
        return [each for each in found if each.created_at >= since]

    async def approvals(self, repository: str, number: int) -> list[ForgeApproval]:
        rest = await self._access.of(repository)
        reviews = await rest.pages(ReviewAnswer, f"{_pulls(repository)}/{number}/reviews", PAGE_ITEMS)
        known = [each for each in reviews if each.author_association in _REVIEWERS]
        return [
            ForgeApproval(
                user=shared_api.login(each.user),
                user_id=shared_api.account_id(each.user),
                commit=values.commit_or_nothing(each.commit_id),
            )
            for each in shared_api.newest_reviews(known, _REVIEWS)
        ]

    async def set_status(self, repository: str, commit: str, status: Status) -> None:
        rest = await self._access.of(repository)
        body = {
            "state": status.state,
            "context": status.context,
            "description": status.description[: self.limits.description_characters],
            **({"target_url": status.url} if status.url else {}),
        }
        await rest.ask("POST", f"{_repository(repository)}/statuses/{values.commit(commit)}", body=body)

    async def write_comment(self, repository: str, number: int, body: str, comment_id: str) -> str:
        rest = await self._access.of(repository)
        issues = f"{_repository(repository)}/issues"
        if comment_id:
            path = f"{issues}/comments/{values.segment(comment_id)}"
            return str((await rest.send(WithId, "PATCH", path, {"body": body})).id)
        return str((await rest.send(WithId, "POST", f"{issues}/{number}/comments", {"body": body})).id)

    async def find_comment(self, repository: str, number: int, marker: str) -> str:
        rest = await self._access.of(repository)
        path = f"{_repository(repository)}/issues/{number}/comments"
        for each in await rest.pages(CommentAnswer, path, PAGE_ITEMS):
            if marker in (each.body or "") and await self._is_own(each):
                return str(each.id)
        return ""

    async def merge(self, repository: str, number: int, head_commit: str) -> str:
        rest = await self._access.of(repository)
        allowed = await rest.get(RepositoryAnswer, _repository(repository))
        method = next((name for field, name in _MERGE_METHODS if getattr(allowed, field) is not False), "merge")
        path = f"{_pulls(repository)}/{number}/merge"
        merged = await rest.send(MergeAnswer, "PUT", path, {"sha": head_commit, "merge_method": method})
        return values.commit(merged.sha)

    async def set_hook(self, repository: str, url: str, secret: str) -> ForgeHook:
        config = {"url": url, "content_type": "json", "secret": secret, "insecure_ssl": "0"}
        if isinstance(self._access, AppAccess):
            await self._access.rest.send(HookSettings, "PATCH", "/app/hook/config", config)
            return ForgeHook(id="app", is_enabled=True)
        rest = await self._access.of(repository)
        path = f"{_repository(repository)}/hooks"
        wanted = {"active": True, "events": EVENTS, "config": config}
        for each in await rest.pages(HookAnswer, path, PAGE_ITEMS):
            if each.config.get("url") == url:
                await rest.send(WithId, "PATCH", f"{path}/{each.id}", wanted)
                message = "" if each.active else "somebody had disabled it; it was enabled again"
                return ForgeHook(id=str(each.id), is_enabled=True, message=message)
        made = await rest.send(WithId, "POST", path, {"name": "web", **wanted})
        return ForgeHook(id=str(made.id), is_enabled=True)

    async def queued_merges(self, repository: str) -> list[str]:
        rest = await self._access.of(repository)
        found = await rest.get(list[RefAnswer], f"{_repository(repository)}/git/matching-refs/{_QUEUE}")
        return [values.commit(each.object.sha) for each in found[:PAGE_ITEMS]]

    async def git_credential(self, repository: str) -> GitCredential | None:
        return GitCredential("x-access-token", await self._access.git_token(repository))

    def events(self, headers: Mapping[str, str], body: bytes, secret: str, now: datetime) -> Sequence[ForgeEvent]:  # noqa: ARG002
        signatures.require_hmac(secret, body, headers.get("x-hub-signature-256", ""))
        return shared_api.delivered(headers.get("x-github-event", ""), body, self._base_url)

    def delivery_id(self, headers: Mapping[str, str], body: bytes) -> str:  # noqa: ARG002
        return values.line(headers.get("x-github-delivery"), 200)

    async def _is_own(self, comment: CommentAnswer) -> bool:
        """Return whether this connection has written a comment: a marker alone can be copied by everybody."""
        if isinstance(self._access, AppAccess):
            by = comment.performed_via_github_app
            return by is not None and str(by.id) == self._access.app_id
        if self._own is None:
            self._own = await self._access.rest.get(Account, "/user")
        return comment.user is not None and comment.user.id == self._own.id


async def _is_unchanged(rest: Rest, repository: str, tags: Sequence[str]) -> bool:
    """Return whether no page of the list has changed. Each page has a tag of its own."""
    for number, tag in enumerate(tags, start=1):
        if (await _ask_page(rest, repository, number, tag)).status != 304:
            return False
    return True


async def _ask_page(rest: Rest, repository: str, number: int, tag: str) -> ForgeAnswer:
    query = {"state": "open", "sort": "created", "direction": "asc", "page": number, "per_page": PAGE_ITEMS}
    return await rest.ask("GET", _pulls(repository), query=query, headers=_condition(tag))


def _condition(tag: str) -> dict[str, str]:
    return {"If-None-Match": tag} if tag else {}


def _repository(name: str) -> str:
    if problem := values.name_problem(name):
        raise ForgeRefused(f"{values.line(name, 100)!r} cannot be the name of a repository: {problem}", 404)
    return f"/repos/{values.path(name)}"


def _pulls(repository: str) -> str:
    return f"{_repository(repository)}/pulls"
