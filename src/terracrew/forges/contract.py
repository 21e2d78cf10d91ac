"""The contract of a forge: what Terracrew asks of it, and how it reads what the forge delivers.

A forge keeps nothing between two calls but tokens that it can get again. It raises ForgeAway if the forge did not answer or asks to wait,
and ForgeRefused if it answers that this is not allowed or not there. `terracrew.testing.forge_contract` tests one.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import ClassVar, Protocol

import msgspec

from terracrew.api.forges import Finding
from terracrew.errors import Conflict, Unauthenticated, Unavailable
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


class ForgeAway(Unavailable):
    """The forge did not answer, answered with an error of its own, or asks to wait: the same request may succeed later."""

    def __init__(self, message: str, retry_after_seconds: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class ForgeRefused(Conflict):
    """The forge answered that the token may not do this, or that there is no such thing. Repeating the request does not help."""

    def __init__(self, message: str, answer_status: int = 0) -> None:
        super().__init__(message)
        self.answer_status = answer_status


class WrongSignature(Unauthenticated):
    """A delivery was not signed with the secret of its hook, or too long ago."""


class ForgeRequest(msgspec.Struct, frozen=True):
    method: str
    url: str
    headers: dict[str, str]
    body: bytes = b""


class ForgeAnswer(msgspec.Struct, frozen=True):
    status: int
    headers: dict[str, str]
    """Names are in lower case."""
    body: bytes


Send = Callable[[ForgeRequest], Awaitable[ForgeAnswer]]
"""Sends a request to the address of a connection and nowhere else. Raises ForgeAway if nobody answers in time."""


class ForgeLimits(msgspec.Struct, frozen=True):
    """What a forge lets an application do."""

    comment_characters: int
    description_characters: int
    writes_per_minute: int
    """How many comments and statuses may be written in a minute, well below the limit at which the forge begins to refuse."""
    has_pull_requests: bool = True
    """Whether it has pull requests, statuses and comments. A plain git repository has none: what would write them refuses."""


class Forge(Protocol):
    """One connection to a forge."""

    limits: ClassVar[ForgeLimits]

    async def check(self, repository: str) -> list[Finding]:
        """Find out whether the token may do everything that is needed in a repository (or in general, if that is '')."""
        ...

    async def repository(self, name: str) -> Repository: ...

    async def open_pull_requests(self, repository: str, etag: str) -> PullRequestPage:
        """Return all open pull requests. A request with a tag costs nothing against the limits of forges that know tags."""
        ...

    async def branch(self, repository: str, name: str, etag: str) -> BranchHead:
        """Return the newest commit of a branch; of the default branch, if no name is given."""
        ...

    async def pull_request(self, repository: str, number: int) -> PullRequest: ...

    async def comments(self, repository: str, since: datetime) -> list[Comment]:
        """Return the comments on pull requests of a repository that were written since then, the oldest first."""
        ...

    async def approvals(self, repository: str, number: int) -> list[ForgeApproval]: ...

    async def set_status(self, repository: str, commit: str, status: Status) -> None: ...

    async def write_comment(self, repository: str, number: int, body: str, comment_id: str) -> str:
        """Write a comment, or replace the text of the one with this id, and return its id.

        Raises ForgeRefused with the status 404 if somebody has deleted the comment.
        """
        ...

    async def find_comment(self, repository: str, number: int, marker: str) -> str:
        """Return the id of the comment of this connection that contains a marker; '' if there is none.

        It is asked for when it is not known whether an earlier request to write it arrived.
        """
        ...

    async def merge(self, repository: str, number: int, head_commit: str) -> str:
        """Merge a pull request if this is still its newest commit, and return the commit that it was merged as."""
        ...

    async def set_hook(self, repository: str, url: str, secret: str) -> ForgeHook:
        """Make the hook that delivers to this URL, or repair and enable the one that exists."""
        ...

    async def queued_merges(self, repository: str) -> list[str]:
        """Return the commits of a merge queue, which the forge merges as soon as their statuses say yes."""
        ...

    async def git_credential(self, repository: str) -> GitCredential | None:
        """Return what git authenticates with; None if the repository is public to the server."""
        ...

    def events(self, headers: Mapping[str, str], body: bytes, secret: str, now: datetime) -> Sequence[ForgeEvent]:
        """Read a delivery. Names of headers are in lower case. Raises WrongSignature if this hook did not send it."""
        ...

    def delivery_id(self, headers: Mapping[str, str], body: bytes) -> str:
        """Return by what the same delivery is known when it comes again."""
        ...
