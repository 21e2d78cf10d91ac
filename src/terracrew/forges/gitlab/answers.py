"""The JSON of GitLab that is read, and what it means."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from terracrew.forges import shared_api, values
from terracrew.forges.contract import ForgeRefused
from terracrew.forges.model import (
    Comment,
    CommentWritten,
    ForgeEvent,
    PullRequest,
    PullRequestChanged,
    PullRequestState,
    Repository,
)

_STATES: dict[str, PullRequestState] = {"opened": "open", "locked": "open", "merged": "merged", "closed": "closed"}
"""It is locked while it is being merged."""
_EVENT_TIMES = ("%Y-%m-%d %H:%M:%S UTC", "%Y-%m-%d %H:%M:%S %z")
"""How older versions write times in deliveries; newer ones write them as the API does."""


class Member(msgspec.Struct):
    id: int
    username: str


class ProjectAccess(msgspec.Struct):
    access_level: int = 0


class ProjectPermissions(msgspec.Struct):
    project_access: ProjectAccess | None = None
    group_access: ProjectAccess | None = None


class Project(msgspec.Struct):
    path_with_namespace: str
    web_url: str
    default_branch: str | None = None
    permissions: ProjectPermissions | None = None


class MergeRequest(msgspec.Struct):
    iid: int
    title: str
    web_url: str
    state: str
    author: Member | None
    source_branch: str
    target_branch: str
    source_project_id: int | None
    target_project_id: int
    sha: str | None = None
    draft: bool = False
    merge_commit_sha: str | None = None
    squash_commit_sha: str | None = None
    merge_user: Member | None = None
    merged_by: Member | None = None
    updated_at: datetime | None = None


class GitLabNote(msgspec.Struct):
    id: int
    body: str
    author: Member | None
    created_at: datetime
    updated_at: datetime | None = None
    system: bool = False


class ApprovedBy(msgspec.Struct):
    user: Member


class Approvals(msgspec.Struct):
    approved_by: list[ApprovedBy] = []


class BranchCommit(msgspec.Struct):
    id: str


class ProjectBranch(msgspec.Struct):
    commit: BranchCommit


class ProjectHook(msgspec.Struct):
    id: int
    url: str
    alert_status: str = "executable"
    disabled_until: datetime | None = None


class _DeliveredProject(msgspec.Struct):
    path_with_namespace: str


class _DeliveredAttributes(msgspec.Struct):
    id: int = 0
    iid: int = 0
    note: str = ""
    noteable_type: str = ""
    url: str = ""
    action: str = ""
    created_at: str = ""
    system: bool = False


class _DeliveredMergeRequest(msgspec.Struct):
    iid: int


class Delivered(msgspec.Struct):
    object_kind: str
    project: _DeliveredProject
    object_attributes: _DeliveredAttributes | None = None
    merge_request: _DeliveredMergeRequest | None = None
    user: dict[str, Any] = {}
    ref: str = ""
    after: str = ""


def as_repository(answer: Project, base_url: str) -> Repository:
    name = values.name(answer.path_with_namespace)
    return Repository(
        name=name,
        clone_url=values.clone_url(base_url, name),
        default_branch=values.branch(answer.default_branch or "main"),
        url=values.link(answer.web_url, base_url),
    )


def as_pull_request(answer: MergeRequest, base_url: str) -> PullRequest:
    state = _STATES.get(answer.state)
    if state is None:
        raise ForgeRefused(f"the forge has answered the state {values.line(answer.state, 60)!r} of a merge request")
    is_merged = state == "merged"
    by = (answer.merge_user or answer.merged_by) if is_merged else None
    # A merge request that was merged by a fast forward has no commit of its own: its newest commit is on the branch.
    merged_as = answer.merge_commit_sha or answer.squash_commit_sha or answer.sha
    return PullRequest(
        number=shared_api.number(answer.iid),
        title=values.line(answer.title),
        url=values.link(answer.web_url, base_url),
        state=state,
        author=username(answer.author),
        author_id=member_id(answer.author),
        head_commit=values.commit(answer.sha),
        head_branch=values.head_branch(answer.source_branch),
        base_branch=values.branch(answer.target_branch),
        head_ref=f"refs/merge-requests/{answer.iid}/head",
        is_fork=answer.source_project_id != answer.target_project_id,
        is_draft=answer.draft,
        merge_commit=values.commit_or_nothing(merged_as) if is_merged else "",
        merged_by=username(by),
        merged_by_id=member_id(by),
        updated_at=answer.updated_at,
    )


def as_comment(note: GitLabNote, number: int, page: str) -> Comment:
    return Comment(
        id=values.identity(note.id),
        number=number,
        author=username(note.author),
        author_id=member_id(note.author),
        body=values.body(note.body),
        url=f"{page}#note_{note.id}",
        created_at=note.created_at,
    )


def delivered(body: bytes, base_url: str, now: datetime) -> Sequence[ForgeEvent]:
    """Return what a delivery is a reason to ask about. An event that nothing here listens to is a reason for nothing."""
    try:
        found = msgspec.json.decode(body, type=Delivered)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ForgeRefused(f"the delivery is not what this forge sends: {values.line(str(error), 200)}") from None
    name, about = values.name(found.project.path_with_namespace), found.object_attributes
    if found.object_kind == "merge_request" and about is not None:
        return [PullRequestChanged(name, shared_api.number(about.iid))]
    if found.object_kind == "note" and about is not None:
        if found.merge_request is None or about.system or about.action == "update":
            return []
        author, author_id = found.user.get("username"), found.user.get("id")
        comment = Comment(
            id=values.identity(about.id),
            number=shared_api.number(found.merge_request.iid),
            author=values.line(author if isinstance(author, str) else ""),
            author_id=values.identity(author_id if isinstance(author_id, int) else None),
            body=values.body(about.note),
            url=values.link(about.url, base_url),
            created_at=_time(about.created_at, now),
        )
        return [CommentWritten(name, comment)]
    return shared_api.moved(name, found.ref, found.after) if found.object_kind in ("push", "tag_push") else []


def username(member: Member | None) -> str:
    return "" if member is None else values.line(member.username, values.MAX_NAME_CHARACTERS)


def member_id(member: Member | None) -> str:
    return "" if member is None else values.identity(member.id)


def _time(text: str, now: datetime) -> datetime:
    for form in _EVENT_TIMES:
        try:
            parsed = datetime.strptime(text, form)
        except ValueError:
            continue
        return parsed if parsed.tzinfo else parsed.replace(tzinfo=now.tzinfo)
    try:
        return msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        return now
