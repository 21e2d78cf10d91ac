"""Gitea and Forgejo as a forge: what is asked of their API and what their deliveries say."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import ClassVar

import msgspec

from terracrew.api.forges import Finding
from terracrew.forges import shared_api, signatures, values
from terracrew.forges.contract import ForgeAway, ForgeLimits, ForgeRefused, Send
from terracrew.forges.gitea import permissions
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
from terracrew.forges.rest import Rest
from terracrew.forges.shared_api import (
    Account,
    CommentAnswer,
    HookAnswer,
    PullRequestAnswer,
    RepositoryAnswer,
    ReviewAnswer,
    WithId,
)

PAGE_ITEMS = 50
"""Servers of Gitea give at most 50 items, unless their operator has set something else."""
CHECK_SECONDS = 5.0
"""How long Gitea usually needs to find out whether a pull request can be merged, after something was pushed."""
EVENTS = ["push", "pull_request", "pull_request_sync", "pull_request_review", "pull_request_comment", "issue_comment"]
_REVIEWS = {"APPROVED": True, "REQUEST_CHANGES": False}


class CommitAnswer(msgspec.Struct):
    id: str


class BranchAnswer(msgspec.Struct):
    commit: CommitAnswer | None


class GiteaForge:
    """A connection to a server of Gitea or Forgejo."""

    limits: ClassVar[ForgeLimits] = ForgeLimits(
        comment_characters=100_000, description_characters=250, writes_per_minute=120
    )

    def __init__(self, send: Send, base_url: str, token: str) -> None:
        self._base_url, self._token = base_url, token
        remedy = ". Make a new token and set it with `terracrew forge update NAME --token-file FILE`"
        headers = {"Accept": "application/json", "Authorization": f"token {token}"}
        self._rest = Rest(send, f"{base_url}/api/v1", headers, remedy=remedy)
        self._own: Account | None = None

    async def check(self, repository: str) -> list[Finding]:
        return await permissions.check(self._rest, repository)

    async def repository(self, name: str) -> Repository:
        return shared_api.as_repository(await self._rest.get(RepositoryAnswer, _repository(name)), self._base_url)

    async def open_pull_requests(self, repository: str, etag: str) -> PullRequestPage:
        """Return all of them each time, with a tag of our own: Gitea has none, so that nothing is saved but the work with the answer."""
        answers = await self._rest.pages(PullRequestAnswer, _pulls(repository), PAGE_ITEMS, state="open", sort="oldest")
        found = [shared_api.as_pull_request(each, self._base_url) for each in answers]
        tag = hashlib.sha256(msgspec.json.encode(found)).hexdigest()
        return PullRequestPage(None if tag == etag else found, tag)

    async def branch(self, repository: str, name: str, etag: str) -> BranchHead:  # noqa: ARG002
        wanted = name or (await self.repository(repository)).default_branch
        path = f"{_repository(repository)}/branches/{values.segment(wanted)}"
        answer = await self._rest.get(BranchAnswer, path)
        if answer.commit is None:
            raise ForgeRefused(f"the branch {wanted} of {repository} has no commit yet")
        return BranchHead(values.commit(answer.commit.id))

    async def pull_request(self, repository: str, number: int) -> PullRequest:
        answer = await self._rest.get(PullRequestAnswer, f"{_pulls(repository)}/{number}")
        return shared_api.as_pull_request(answer, self._base_url)

    async def comments(self, repository: str, since: datetime) -> list[Comment]:
        moment = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        path = f"{_repository(repository)}/issues/comments"
        answers = await self._rest.pages(CommentAnswer, path, PAGE_ITEMS, since=moment)
        pages = f"{self._base_url}/{repository}/pulls/"
        found = shared_api.comments_of_pull_requests(answers, pages, self._base_url)
        return [each for each in found if each.created_at >= since]

    async def approvals(self, repository: str, number: int) -> list[ForgeApproval]:
        reviews = await self._rest.pages(ReviewAnswer, f"{_pulls(repository)}/{number}/reviews", PAGE_ITEMS)
        return [
            ForgeApproval(
                user=shared_api.login(each.user),
                user_id=shared_api.account_id(each.user),
                commit=values.commit_or_nothing(each.commit_id),
            )
            for each in shared_api.newest_reviews(reviews, _REVIEWS)
            if each.official
        ]

    async def set_status(self, repository: str, commit: str, status: Status) -> None:
        body = {
            "state": status.state,
            "context": status.context,
            "description": status.description[: self.limits.description_characters],
            "target_url": status.url,
        }
        await self._rest.ask("POST", f"{_repository(repository)}/statuses/{values.commit(commit)}", body=body)

    async def write_comment(self, repository: str, number: int, body: str, comment_id: str) -> str:
        issues = f"{_repository(repository)}/issues"
        if comment_id:
            path = f"{issues}/comments/{values.segment(comment_id)}"
            return str((await self._rest.send(WithId, "PATCH", path, {"body": body})).id)
        return str((await self._rest.send(WithId, "POST", f"{issues}/{number}/comments", {"body": body})).id)

    async def find_comment(self, repository: str, number: int, marker: str) -> str:
        path = f"{_repository(repository)}/issues/{number}/comments"
        for each in await self._rest.get(list[CommentAnswer], path):
            if marker in (each.body or "") and await self._is_own(each):
                return str(each.id)
        return ""

    async def merge(self, repository: str, number: int, head_commit: str) -> str:
        style = (await self._rest.get(RepositoryAnswer, _repository(repository))).default_merge_style or "merge"
        path = f"{_pulls(repository)}/{number}/merge"
        try:
            await self._rest.ask("POST", path, body={"Do": style, "head_commit_id": head_commit})
        except ForgeRefused as error:
            if error.answer_status == 405 and "try again later" in error.message:
                raise ForgeAway("Gitea has not found out yet whether this can be merged", CHECK_SECONDS) from None
            raise
        return (await self.pull_request(repository, number)).merge_commit

    async def set_hook(self, repository: str, url: str, secret: str) -> ForgeHook:
        path = f"{_repository(repository)}/hooks"
        config = {"url": url, "content_type": "json", "secret": secret}
        wanted = {"active": True, "events": EVENTS, "config": config}
        for each in await self._rest.pages(HookAnswer, path, PAGE_ITEMS):
            if each.config.get("url") == url:
                await self._rest.send(WithId, "PATCH", f"{path}/{each.id}", wanted)
                message = "" if each.active else "somebody had disabled it; it was enabled again"
                return ForgeHook(id=str(each.id), is_enabled=True, message=message)
        made = await self._rest.send(WithId, "POST", path, {"type": "gitea", **wanted})
        return ForgeHook(id=str(made.id), is_enabled=True)

    async def queued_merges(self, repository: str) -> list[str]:  # noqa: ARG002
        return []

    async def git_credential(self, repository: str) -> GitCredential | None:  # noqa: ARG002
        return GitCredential("git", self._token)

    def events(self, headers: Mapping[str, str], body: bytes, secret: str, now: datetime) -> Sequence[ForgeEvent]:  # noqa: ARG002
        signatures.require_hmac(
            secret, body, headers.get("x-gitea-signature") or headers.get("x-hub-signature-256", "")
        )
        event = headers.get("x-gitea-event") or headers.get("x-forgejo-event") or headers.get("x-github-event", "")
        return shared_api.delivered(event, body, self._base_url)

    def delivery_id(self, headers: Mapping[str, str], body: bytes) -> str:  # noqa: ARG002
        given = headers.get("x-gitea-delivery") or headers.get("x-forgejo-delivery") or headers.get("x-github-delivery")
        return values.line(given, 200)

    async def _is_own(self, comment: CommentAnswer) -> bool:
        """Return whether this connection has written a comment: a marker alone can be copied by everybody."""
        if self._own is None:
            self._own = await self._rest.get(Account, "/user")
        return comment.user is not None and comment.user.id == self._own.id


def _repository(name: str) -> str:
    if problem := values.name_problem(name):
        raise ForgeRefused(f"{values.line(name, 100)!r} cannot be the name of a repository: {problem}", 404)
    return f"/repos/{values.path(name)}"


def _pulls(repository: str) -> str:
    return f"{_repository(repository)}/pulls"
