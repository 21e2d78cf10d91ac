"""GitLab as a forge: what is asked of its API and what its deliveries say."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from terracrew.api.forges import Finding
from terracrew.forges import signatures, values
from terracrew.forges.contract import ForgeLimits, ForgeRefused, Send
from terracrew.forges.gitlab import answers, permissions
from terracrew.forges.gitlab.answers import (
    Approvals,
    GitLabNote,
    Member,
    MergeRequest,
    Project,
    ProjectBranch,
    ProjectHook,
)
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
    StatusState,
)
from terracrew.forges.rest import MAX_PAGES, Rest, decoded, too_many
from terracrew.forges.shared_api import WithId, is_edited

PAGE_ITEMS = 100
_STATES: dict[StatusState, str] = {"pending": "running", "success": "success", "failure": "failed", "error": "failed"}
_HOOK_EVENTS = {"push_events": True, "tag_push_events": True, "merge_requests_events": True, "note_events": True}


class GitLabForge:
    """A connection to gitlab.com or to a server of GitLab, with a project, group or personal access token."""

    limits: ClassVar[ForgeLimits] = ForgeLimits(
        comment_characters=900_000, description_characters=255, writes_per_minute=60
    )

    def __init__(self, send: Send, base_url: str, token: str) -> None:
        self._base_url, self._token = base_url, token
        remedy = ". It may have expired: make a new one and set it with `terracrew forge update NAME --token-file FILE`"
        self._rest = Rest(send, f"{base_url}/api/v4", {"PRIVATE-TOKEN": token}, remedy=remedy)
        self._own: Member | None = None

    async def check(self, repository: str) -> list[Finding]:
        return await permissions.check(self._rest, repository)

    async def repository(self, name: str) -> Repository:
        return answers.as_repository(await self._rest.get(Project, _project(name)), self._base_url)

    async def open_pull_requests(self, repository: str, etag: str) -> PullRequestPage:
        path = f"{_project(repository)}/merge_requests"
        tags = etag.split(" ") if etag else []
        found: list[PullRequest] = []
        made: list[str] = []
        is_conditional = bool(tags)
        while True:
            number = len(made) + 1
            if number > MAX_PAGES:
                raise too_many(path, MAX_PAGES * PAGE_ITEMS)
            condition = {"If-None-Match": tags[number - 1]} if is_conditional else {}
            query = {"state": "opened", "order_by": "created_at", "sort": "asc", "page": number, "per_page": PAGE_ITEMS}
            answer = await self._rest.ask("GET", path, query=query, headers=condition)
            if answer.status == 304:
                made.append(tags[number - 1])
                if number == len(tags):
                    return PullRequestPage(None, etag)
                continue
            if is_conditional and made:  # the pages before were left out, so everything is read again
                is_conditional, made = False, []
                continue
            is_conditional = False
            page = decoded(list[MergeRequest], answer, path)
            found += [answers.as_pull_request(each, self._base_url) for each in page]
            made.append(values.etag(answer.headers.get("etag")))
            if len(page) < PAGE_ITEMS:
                return PullRequestPage(found, " ".join(made) if all(made) else "")

    async def branch(self, repository: str, name: str, etag: str) -> BranchHead:
        wanted = name or (await self.repository(repository)).default_branch
        path = f"{_project(repository)}/repository/branches/{values.segment(wanted)}"
        answer = await self._rest.ask("GET", path, headers={"If-None-Match": etag} if etag else {})
        if answer.status == 304:
            return BranchHead(None, etag)
        commit = values.commit(decoded(ProjectBranch, answer, path).commit.id)
        return BranchHead(commit, values.etag(answer.headers.get("etag")))

    async def pull_request(self, repository: str, number: int) -> PullRequest:
        answer = await self._rest.get(MergeRequest, f"{_merge_requests(repository)}/{number}")
        return answers.as_pull_request(answer, self._base_url)

    async def comments(self, repository: str, since: datetime) -> list[Comment]:
        """Return the notes of the merge requests that have changed since then: GitLab has no list of all notes."""
        moment = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        changed = await self._rest.pages(
            MergeRequest, _merge_requests(repository), PAGE_ITEMS, updated_after=moment, state="all"
        )
        found: list[Comment] = []
        for each in changed:
            page = values.link(each.web_url, self._base_url)
            notes = await self._notes_since(repository, each.iid, since)
            written = [note for note in notes if not note.system and not is_edited(note.created_at, note.updated_at)]
            found += [answers.as_comment(note, each.iid, page) for note in written]
        return sorted(found, key=lambda each: each.created_at)

    async def approvals(self, repository: str, number: int) -> list[ForgeApproval]:
        found = await self._rest.get(Approvals, f"{_merge_requests(repository)}/{number}/approvals")
        return [
            ForgeApproval(user=answers.username(each.user), user_id=answers.member_id(each.user), commit="")
            for each in found.approved_by
        ]

    async def set_status(self, repository: str, commit: str, status: Status) -> None:
        body = {
            "state": _STATES[status.state],
            "name": status.context,
            "description": status.description[: self.limits.description_characters],
            "target_url": status.url,
        }
        path = f"{_project(repository)}/statuses/{values.commit(commit)}"
        try:
            await self._rest.ask("POST", path, body=body)
        except ForgeRefused as error:
            # A status that is what it was is refused as a transition that does not exist.
            if error.answer_status != 400 or "transition" not in error.message:
                raise

    async def write_comment(self, repository: str, number: int, body: str, comment_id: str) -> str:
        path = f"{_merge_requests(repository)}/{number}/notes"
        if comment_id:
            path = f"{path}/{values.segment(comment_id)}"
            return str((await self._rest.send(WithId, "PUT", path, {"body": body})).id)
        return str((await self._rest.send(WithId, "POST", path, {"body": body})).id)

    async def find_comment(self, repository: str, number: int, marker: str) -> str:
        notes = await self._rest.pages(
            GitLabNote, f"{_merge_requests(repository)}/{number}/notes", PAGE_ITEMS, sort="asc"
        )
        for each in notes:
            if marker in each.body and await self._is_own(each):
                return str(each.id)
        return ""

    async def merge(self, repository: str, number: int, head_commit: str) -> str:
        path = f"{_merge_requests(repository)}/{number}/merge"
        merged = await self._rest.send(MergeRequest, "PUT", path, {"sha": head_commit})
        return answers.as_pull_request(merged, self._base_url).merge_commit

    async def set_hook(self, repository: str, url: str, secret: str) -> ForgeHook:
        path = f"{_project(repository)}/hooks"
        wanted: dict[str, Any] = {"url": url, "token": secret, "enable_ssl_verification": True, **_HOOK_EVENTS}
        for each in await self._rest.pages(ProjectHook, path, PAGE_ITEMS):
            if each.url != url:
                continue
            if each.alert_status == "executable":
                await self._rest.send(WithId, "PUT", f"{path}/{each.id}", wanted)
                return ForgeHook(id=str(each.id), is_enabled=True)
            # No request enables a hook for certain that GitLab has disabled, so it is made anew.
            await self._rest.ask("DELETE", f"{path}/{each.id}")
            made = await self._rest.send(WithId, "POST", path, wanted)
            until = f" until {each.disabled_until:%Y-%m-%d %H:%M} UTC" if each.disabled_until else ""
            message = f"GitLab had disabled it{until}, because deliveries failed; it was made anew"
            return ForgeHook(id=str(made.id), is_enabled=True, message=message)
        made = await self._rest.send(WithId, "POST", path, wanted)
        return ForgeHook(id=str(made.id), is_enabled=True)

    async def queued_merges(self, repository: str) -> list[str]:  # noqa: ARG002
        return []

    async def git_credential(self, repository: str) -> GitCredential | None:  # noqa: ARG002
        return GitCredential("oauth2", self._token)

    def events(self, headers: Mapping[str, str], body: bytes, secret: str, now: datetime) -> Sequence[ForgeEvent]:
        signatures.require_token(secret, headers.get("x-gitlab-token", ""))
        return answers.delivered(body, self._base_url, now)

    def delivery_id(self, headers: Mapping[str, str], body: bytes) -> str:
        """Return the key that stays when a delivery is repeated. Older versions have none: then it is the event with its content."""
        key = headers.get("idempotency-key") or headers.get("webhook-id")
        digest = hashlib.sha256(body).hexdigest()
        return values.line(key, 200) or values.line(f"{headers.get('x-gitlab-event-uuid', '')}:{digest}", 200)

    async def _notes_since(self, repository: str, number: int, since: datetime) -> list[GitLabNote]:
        """Return the notes of a merge request from a time on. The newest pages are read until one has an older note."""
        path, found = f"{_merge_requests(repository)}/{number}/notes", list[GitLabNote]()
        for page_number in range(1, MAX_PAGES + 1):
            query = {"sort": "desc", "order_by": "created_at", "page": page_number, "per_page": PAGE_ITEMS}
            page = await self._rest.get(list[GitLabNote], path, **query)
            found += [each for each in page if each.created_at >= since]
            if len(page) < PAGE_ITEMS or page[-1].created_at < since:
                break
        return found

    async def _is_own(self, note: GitLabNote) -> bool:
        """Return whether this connection has written a note: a marker alone can be copied by everybody."""
        if self._own is None:
            self._own = await self._rest.get(Member, "/user")
        return note.author is not None and note.author.id == self._own.id


def _project(name: str) -> str:
    if problem := values.name_problem(name):
        raise ForgeRefused(f"{values.line(name, 100)!r} cannot be the name of a project: {problem}", 404)
    return f"/projects/{values.segment(name)}"


def _merge_requests(repository: str) -> str:
    return f"{_project(repository)}/merge_requests"
