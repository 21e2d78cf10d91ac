"""What forges tell, in the same words for all of them."""

from datetime import datetime
from typing import Literal

import msgspec

from terracrew.api.pull_requests import PullRequestState

StatusState = Literal["pending", "success", "failure", "error"]


class Repository(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    """Its name on the forge: `acme/network`, or with the groups above it, `acme/platform/network`."""
    clone_url: str
    """Its https address, without a user or a password."""
    default_branch: str
    url: str = ""
    """Its page."""


class PullRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A pull request, or a merge request of GitLab, as the forge tells it now."""

    number: int
    title: str
    url: str
    state: PullRequestState
    author: str
    author_id: str
    """The forge's own id of the author, which stays when they change their name."""
    head_commit: str
    head_branch: str
    base_branch: str
    head_ref: str
    """The ref of the target repository that has its newest commit: `refs/pull/12/head`."""
    is_fork: bool = False
    """Whether its branch is in another repository than the target."""
    is_draft: bool = False
    merge_commit: str = ""
    """The commit that it was merged as; empty unless it is merged."""
    merged_by: str = ""
    merged_by_id: str = ""
    updated_at: datetime | None = None


class PullRequestPage(msgspec.Struct, frozen=True):
    """All open pull requests of a repository. `items` is None if nothing has changed since the answer with that tag."""

    items: list[PullRequest] | None
    etag: str = ""


class BranchHead(msgspec.Struct, frozen=True):
    """The newest commit of a branch. `commit` is None if nothing has changed since the answer with that tag."""

    commit: str | None
    etag: str = ""


class Comment(msgspec.Struct, frozen=True, kw_only=True):
    """A comment on a pull request. One that was edited is not among them: who edited it may be somebody else than its author."""

    id: str
    number: int
    """The number of the pull request."""
    author: str
    author_id: str
    body: str
    url: str
    created_at: datetime


class ForgeApproval(msgspec.Struct, frozen=True, kw_only=True):
    """An approving review that still counts on the forge."""

    user: str
    user_id: str
    commit: str
    """The commit that was reviewed; empty where the forge does not say."""


REQUIRED_STATUS = "terracrew"
"""The name of the one status that says everything: the one to require before a merge."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown beside a commit."""

    context: str
    """Its name, by which a later one replaces it: `terracrew` or `terracrew/platform/network`."""
    state: StatusState
    description: str
    url: str


class GitCredential(msgspec.Struct, frozen=True):
    """What git authenticates with over https. It is valid for a short time where the forge has such tokens."""

    username: str
    password: str


class ForgeHook(msgspec.Struct, frozen=True, kw_only=True):
    """A hook of a repository, as the forge has it."""

    id: str
    is_enabled: bool
    message: str = ""
    """Why the forge has disabled it, where it says so."""


class PullRequestChanged(msgspec.Struct, frozen=True, tag="pull_request"):
    """Something of a pull request has changed. What it is now is asked for: an event is a wake-up and no fact."""

    repository: str
    number: int


class CommentWritten(msgspec.Struct, frozen=True, tag="comment"):
    repository: str
    comment: Comment


class BranchMoved(msgspec.Struct, frozen=True, tag="branch"):
    """A branch or a tag names another commit. Older servers take a tag for a branch that nothing follows."""

    repository: str
    branch: str
    commit: str
    is_tag: bool = False


ForgeEvent = PullRequestChanged | CommentWritten | BranchMoved
"""What a delivery says, as far as anything here listens to it."""
