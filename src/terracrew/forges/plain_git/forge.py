"""A git repository over https as a forge without pull requests. What would be written there refuses, and says why."""

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import ClassVar

from terracrew.api.forges import Finding
from terracrew.forges import rest, values
from terracrew.forges.contract import ForgeLimits, ForgeRefused, ForgeRequest, Send, WrongSignature
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
from terracrew.forges.plain_git import refs
from terracrew.forges.plain_git.refs import Refs

_SERVICE = "git-upload-pack"


class PlainGitForge:
    """Repositories below one address. Callers look at `limits.has_pull_requests` before they write anything."""

    limits: ClassVar[ForgeLimits] = ForgeLimits(
        comment_characters=0, description_characters=0, writes_per_minute=0, has_pull_requests=False
    )

    def __init__(self, send: Send, base_url: str, username: str, token: str) -> None:
        self._send, self._base_url = send, base_url
        self._username, self._token = username or "git", token

    async def check(self, repository: str) -> list[Finding]:
        if not repository:
            return []
        try:
            found = await self._refs(repository, "")
        except ForgeRefused as error:
            return [Finding(name="read the code", is_good=False, message=error.message)]
        message = f"the default branch is {found.head}" if found.head else ""
        return [Finding(name="read the code", is_good=True, message=message)]

    async def repository(self, name: str) -> Repository:
        head = (await self._refs(name, "")).head
        address = f"{self._base_url}/{values.name(name)}"
        return Repository(name=name, clone_url=address, default_branch=values.branch(head or "main"), url=address)

    async def open_pull_requests(self, repository: str, etag: str) -> PullRequestPage:  # noqa: ARG002
        return PullRequestPage([])

    async def branch(self, repository: str, name: str, etag: str) -> BranchHead:  # noqa: ARG002
        found = await self._refs(repository, name)
        wanted = f"refs/heads/{name}" if name else "HEAD"
        if wanted not in found.commits:
            raise ForgeRefused(f"{repository} has no branch {name or 'that HEAD stands for'}", 404)
        return BranchHead(found.commits[wanted])

    async def pull_request(self, repository: str, number: int) -> PullRequest:
        raise _nothing(f"{repository} has no pull request {number}")

    async def comments(self, repository: str, since: datetime) -> list[Comment]:  # noqa: ARG002
        return []

    async def approvals(self, repository: str, number: int) -> list[ForgeApproval]:  # noqa: ARG002
        return []

    async def set_status(self, repository: str, commit: str, status: Status) -> None:  # noqa: ARG002
        raise _nothing(f"no status can be written beside a commit of {repository}")

    async def write_comment(self, repository: str, number: int, body: str, comment_id: str) -> str:  # noqa: ARG002
        raise _nothing(f"no comment can be written in {repository}")

    async def find_comment(self, repository: str, number: int, marker: str) -> str:  # noqa: ARG002
        return ""

    async def merge(self, repository: str, number: int, head_commit: str) -> str:  # noqa: ARG002
        raise _nothing(f"pull request {number} of {repository} cannot be merged")

    async def set_hook(self, repository: str, url: str, secret: str) -> ForgeHook:  # noqa: ARG002
        raise _nothing(f"no hook can be made in {repository}")

    async def queued_merges(self, repository: str) -> list[str]:  # noqa: ARG002
        return []

    async def git_credential(self, repository: str) -> GitCredential | None:  # noqa: ARG002
        return GitCredential(self._username, self._token) if self._token else None

    def events(self, headers: Mapping[str, str], body: bytes, secret: str, now: datetime) -> Sequence[ForgeEvent]:  # noqa: ARG002
        raise WrongSignature("a plain git repository delivers nothing: it is polled")

    def delivery_id(self, headers: Mapping[str, str], body: bytes) -> str:  # noqa: ARG002
        return ""

    async def _refs(self, repository: str, branch: str) -> Refs:
        """Return HEAD and the branch; of an older server, all refs."""
        if problem := values.name_problem(repository):
            raise ForgeRefused(f"{values.line(repository, 100)!r} cannot be the name of a repository: {problem}", 404)
        address = f"{self._base_url}/{repository}"
        body = await self._ask("GET", f"{address}/info/refs?service={_SERVICE}", b"")
        if not refs.is_version_2(body):
            return refs.answer_0(body)
        return refs.answer_2(await self._ask("POST", f"{address}/{_SERVICE}", refs.question(branch)))

    async def _ask(self, method: str, url: str, body: bytes) -> bytes:
        headers = {"Git-Protocol": "version=2"}
        if body:
            headers |= {
                "Content-Type": f"application/x-{_SERVICE}-request",
                "Accept": f"application/x-{_SERVICE}-result",
            }
        if self._token:
            login = base64.b64encode(f"{self._username}:{self._token}".encode()).decode()
            headers["Authorization"] = f"Basic {login}"
        answer = await self._send(ForgeRequest(method, url, headers, body))
        if answer.status != 200:
            remedy = ". Set another one with `terracrew forge update NAME --token-file FILE`"
            raise rest.refusal(answer, url.removeprefix(self._base_url).partition("?")[0], 0.0, remedy)
        return answer.body


def _nothing(words: str) -> ForgeRefused:
    return ForgeRefused(f"{words}: a plain git repository has nothing but branches")
