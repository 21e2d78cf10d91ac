"""The rows of this package."""

from datetime import datetime

import msgspec

from terracrew.api.pull_requests import PendingModule, PlanState
from terracrew.protocol.spec import MergeResult
from terracrew.server.forges.model import ForgeConnection, ForgePullRequest, ForgeRepository

COMMENT = "comment"
"""The key of the comment in `TrackedPullRequest.shown`. The others are contexts of statuses."""
MAX_REPLIES = 5


class MergedSource(msgspec.Struct, frozen=True):
    """The result of merging a pull request, as it is the source of jobs."""

    commit: str
    merge: MergeResult


class TrackedPullRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What was done about a pull request. Its facts are in a row of `forge_pull_requests` with the same id."""

    id: str
    organization_id: str
    is_active: bool = True
    """Nothing is done about one that is not: it ended, and nothing of it waits."""
    seen_revision: int = 0
    seen_base: str = ""
    """The newest commit of the repository's default branch that was known then; git may have found a newer one."""
    head_commit: str = ""
    base_commit: str = ""
    """The two commits that were looked at last."""
    source: MergedSource | None = None
    problem: str = ""
    is_waiting: bool = False
    """Whether the problem is one that a person is expected to end."""
    first_branch: str = ""
    """The branch that it was to be merged into when it was looked at first."""
    allowed_commit: str = ""
    """The commit of a fork that may be planned."""
    allowed_branch: str = ""
    """The target branch that it may be planned for: with another one, it gets the credentials of other modules."""
    allowed_by: str = ""
    asked_commit: str = ""
    """The newest commit of it that somebody has asked to apply. No other one is merged."""
    merge_commit: str = ""
    """The commit at which it was merged from here."""
    is_merge_read: bool = False
    """Whether it is known which modules its merge has changed."""
    comment_id: str = ""
    shown_commit: str = ""
    shown: dict[str, str] = {}
    """What the forge was shown, as digests by the contexts of statuses; of what it has refused, when, in the words of `showing`."""
    show_problem: str = ""
    pending: list[PendingModule] = []
    """The modules that its merge makes."""
    writes: list[float] = []
    """When something was written to the forge in the last minute."""
    replies: list[str] = []
    """What became of the last commands, the newest first."""
    due_at: datetime | None = None
    failures: int = 0
    lease_holder: str | None = None
    lease_until: datetime | None = None
    created_at: datetime

    def with_reply(self, words: str) -> "TrackedPullRequest":
        return msgspec.structs.replace(self, replies=[words, *self.replies][:MAX_REPLIES])


class TouchedModule(msgspec.Struct, frozen=True, kw_only=True):
    """A module that a pull request touches, with its plan and its apply."""

    pull_request_id: str
    module_id: str
    digest: str
    """What identifies its files after the merge. A plan is made for one digest."""
    head_commit: str
    base_commit: str
    """The commits whose merge its plan was made for."""
    state: PlanState = "waiting"
    reason: str = ""
    counts: str = ""
    size: int = 0
    """How many resources its plan changes."""
    resources: list[str] = []
    plan_job_id: str | None = None
    plan_status: str = ""
    """The status of that job when it was looked at last."""
    is_on_merge: bool = False
    """Whether the merge applies it, as the settings were when it was merged."""
    apply_job_id: str | None = None
    apply_status: str = ""
    """The status of that job. Without one, `SUCCEEDED` says that an earlier plan of the pull request was applied."""
    state_version: int = 0
    """The version of the module's state that its plan was made from."""
    changed_at: datetime


class ForgeUser(msgspec.Struct, frozen=True, kw_only=True):
    """A user of a forge who is a user here."""

    connection_id: str
    forge_user_id: str
    forge_user: str
    user_id: str
    linked_by: str
    linked_at: datetime


class PullRequestSubject(msgspec.Struct, frozen=True):
    """A pull request that this server works on now."""

    row: TrackedPullRequest
    facts: ForgePullRequest
    repository: ForgeRepository
    connection: ForgeConnection

    @property
    def name(self) -> str:
        """What people call it: `acme/network #12`."""
        return f"{self.repository.name} #{self.facts.number}"

    @property
    def is_open(self) -> bool:
        return self.facts.state == "open"

    def with_row(self, row: TrackedPullRequest) -> "PullRequestSubject":
        return msgspec.structs.replace(self, row=row)
