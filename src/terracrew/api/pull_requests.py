"""Pull requests: what is known of them, the plans of the modules that they touch, and how they are applied."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

PullRequestState = Literal["open", "merged", "closed"]
PlanState = Literal[
    "waiting",
    "running",
    "changes",
    "no_changes",
    "failed",
    "canceled",
    "stale",
    "applying",
    "needs_approval",
    "applied",
    "apply_failed",
]
"""`waiting`: its job is to be created, or is queued. `stale`: its plan no longer says what an apply would do, and is made again."""
PullRequestApply = Literal["never", "on_merge", "on_command", "on_command_then_merge"]
PullRequestFilter = Literal["open", "merged", "closed", "all"]
CommitId = Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")]
"""All digits of a commit: whoever makes commits can make two that begin alike."""
MAX_NAMED_MODULES = 1_000
ModulePath = Annotated[str, msgspec.Meta(min_length=1, max_length=2_000)]


class PullRequestListed(msgspec.Struct, frozen=True, kw_only=True):
    """A pull request, as the forge told it last, with what it touches here."""

    id: str
    repository: str
    number: int
    title: str
    url: str
    """Its page on the forge."""
    state: PullRequestState
    author: str
    head_commit: str
    base_branch: str
    is_fork: bool
    is_draft: bool
    forge: str
    """The path of the connection that watches it."""
    problem: str = ""
    """Why nothing is planned: a conflict, or a commit of a fork that nobody has allowed."""
    is_waiting: bool = False
    """Whether the problem is one that a person is expected to end."""
    modules: dict[PlanState, int] = {}
    """How many of the modules that it touches are in each state, as far as the caller may see them."""
    created_at: datetime
    """When it was first seen."""
    changed_at: datetime

    @property
    def name(self) -> str:
        return f"{self.repository}#{self.number}"


class PullRequestModule(msgspec.Struct, frozen=True, kw_only=True):
    """A module that a pull request touches, with its plan and its apply."""

    module_id: str
    path: str
    state: PlanState
    reason: str
    counts: str
    """What its plan would do: `2 to add, 0 to change, 1 to destroy`."""
    size: int
    """How many resources its plan changes."""
    resources: list[str]
    """The first of them, each with what happens to it."""
    apply: PullRequestApply
    """What applies it."""
    head_commit: str
    base_commit: str
    """The commits whose merge its plan was made for."""
    plan_job_id: str | None
    plan_number: int | None
    apply_job_id: str | None
    apply_number: int | None
    changed_at: datetime


class PendingModule(msgspec.Struct, frozen=True, kw_only=True):
    """A module that a discovery rule makes once the pull request is merged. It does not exist yet, so it has no plan."""

    rule: str
    """The path of the rule."""
    folder: str
    """The folder that the pull request adds."""
    path: str
    """The path that the module gets."""
    reason: str = ""
    """Why the rule is not going to make it; empty if it is."""


class PullRequestView(PullRequestListed, frozen=True, kw_only=True):
    """A pull request with its modules."""

    base_commit: str
    """The newest commit of the target branch that it was merged with."""
    merge_commit: str
    merged_by: str
    touched: list[PullRequestModule]
    pending: list[PendingModule] = []
    """The modules that its merge makes, as far as the caller may see their places."""
    replies: list[str]
    """What became of the last commands in comments, the newest first."""
    show_problem: str
    """Why the forge does not take what it is shown; empty if it does."""
    may_allow: bool
    """Whether the caller may allow the newest commit of a fork to be planned."""


class PullRequestCommand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to do with the modules of a pull request."""

    modules: Annotated[list[ModulePath], msgspec.Meta(max_length=MAX_NAMED_MODULES)] = []
    """Their paths; without any, all of the pull request are meant."""


class ApplyPullRequest(PullRequestCommand, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The plans to apply, as they were shown."""

    head_commit: CommitId
    """The newest commit that the caller has seen. Nothing is applied if there is another one by now."""
    plans: Annotated[list[Annotated[str, msgspec.Meta(max_length=100)]], msgspec.Meta(max_length=MAX_NAMED_MODULES)]
    """The ids of the jobs whose plans the caller has seen. No other plan is applied."""


class AllowCommit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The commit of a fork that may be planned, with the credentials of the modules that it touches."""

    commit: CommitId
    """It must be the newest one, so that nobody allows what they have not seen."""


class PullRequestOutcome(msgspec.Struct, frozen=True):
    """What became of a command."""

    message: str
    done: list[str] = []
    """The paths of the modules for which it was done."""
    refused: dict[str, str] = {}
    """The paths of the others, each with the reason."""


class ForgeUserView(msgspec.Struct, frozen=True, kw_only=True):
    """A user of a forge who is a user here."""

    forge_user_id: str
    """The forge's own id of the user, which stays when they change their name."""
    forge_user: str
    user_id: str
    user: str
    linked_by: str
    linked_at: datetime


class LinkForgeUser(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which user of the forge is which user here. From then on, what the one writes on the forge is done as the other."""

    forge_user: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    """The name on the forge."""
    user: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    """The name or id of the user here."""
    forge_user_id: Annotated[str, msgspec.Meta(max_length=200)] = ""
    """The forge's own id of the user. It can be left out for somebody who has opened a pull request or written a command there."""
