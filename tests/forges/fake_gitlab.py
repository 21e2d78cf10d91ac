"""A fake of GitLab: its merge requests, notes, and hooks that it disables."""

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from tests.forges.fake_forge import (
    COMMENTS,
    HOOKS,
    MERGE,
    STATUSES,
    Answer,
    FakeComment,
    FakeForge,
    FakeHook,
    FakePullRequest,
    FakeRepository,
    FakeUser,
    Refusal,
    Request,
    paged,
    stamp,
)

_STATES = {"open": "opened", "merged": "merged", "closed": "closed"}
_PROJECT = r"/projects/(?P<name>[^/]+)"


class FakeGitLab(FakeForge):
    api: ClassVar[str] = "/api/v4"

    def __init__(self) -> None:
        super().__init__()
        one = rf"{_PROJECT}/merge_requests/(?P<number>\d+)"
        self.route("GET", "/user", lambda request, _: Answer(200, _member(request.user)))
        self.route("GET", "/personal_access_tokens/self", self._token)
        self.route("GET", _PROJECT, self._show)
        self.route("GET", rf"{_PROJECT}/merge_requests", self._list)
        self.route("GET", one, self._merge_request)
        self.route("GET", rf"{one}/approvals", self._approvals)
        self.route("GET", rf"{one}/notes", self._notes)
        self.route("POST", rf"{one}/notes", self._write)
        self.route("PUT", rf"{one}/notes/(?P<id>\d+)", self._rewrite)
        self.route("PUT", rf"{one}/merge", self._merge)
        self.route("GET", rf"{_PROJECT}/repository/branches/(?P<branch>[^/]+)", self._branch)
        self.route("POST", rf"{_PROJECT}/statuses/(?P<commit>\w+)", self._status)
        self.route("GET", rf"{_PROJECT}/hooks", self._hooks)
        self.route("POST", rf"{_PROJECT}/hooks", self._make_hook)
        self.route("PUT", rf"{_PROJECT}/hooks/(?P<id>\d+)", self._change_hook)
        self.route("DELETE", rf"{_PROJECT}/hooks/(?P<id>\d+)", self._delete_hook)

    def user_of(self, headers: Mapping[str, str]) -> FakeUser | None:
        return self.tokens.get(headers.get("private-token", ""))

    def signed(self, event: str, secret: str, body: bytes) -> dict[str, str]:
        return {
            "content-type": "application/json",
            "x-gitlab-event": event,
            "x-gitlab-event-uuid": str(uuid.uuid4()),
            "idempotency-key": str(uuid.uuid4()),
            "x-gitlab-token": secret,
        }

    def tell_of_pull_request(self, repository: FakeRepository, found: FakePullRequest, action: str) -> None:
        about = {"id": found.number + 900, "iid": found.number, "title": found.title, "action": action}
        payload = {"object_kind": "merge_request", "project": _named(repository), "object_attributes": about}
        self.deliver(repository, "Merge Request Hook", payload)

    def tell_of_comment(self, repository: FakeRepository, comment: FakeComment) -> None:
        kind = "Issue" if comment.is_on_issue else "MergeRequest"
        about = {
            "id": comment.id,
            "note": comment.body,
            "noteable_type": kind,
            "url": self._page(repository, comment.number),
            "created_at": comment.created_at.strftime("%Y-%m-%d %H:%M:%S UTC"),
            "action": "create",
        }
        payload: dict[str, Any] = {"object_kind": "note", "project": _named(repository), "object_attributes": about}
        payload["user"] = _member(comment.author)
        if not comment.is_on_issue:
            payload["merge_request"] = {"iid": comment.number}
        self.deliver(repository, "Note Hook", payload)

    def tell_of_push(self, repository: FakeRepository, branch: str, commit: str) -> None:
        ref = f"refs/heads/{branch}"
        payload = {"object_kind": "push", "project": _named(repository), "ref": ref, "after": commit}
        self.deliver(repository, "Push Hook", payload)

    def shown(self, repository: FakeRepository, found: FakePullRequest) -> dict[str, Any]:
        return {
            "id": found.number + 900,
            "iid": found.number,
            "title": found.title,
            "web_url": self._page(repository, found.number),
            "state": _STATES[found.state],
            "author": _member(found.author),
            "source_branch": found.head_branch,
            "target_branch": found.base_branch,
            "source_project_id": 2 if found.is_fork else 1,
            "target_project_id": 1,
            "sha": found.head_commit,
            "draft": found.is_draft,
            "merge_commit_sha": found.merge_commit,
            "merge_user": _member(found.merged_by) if found.merged_by else None,
            "updated_at": stamp(found.updated_at),
        }

    def pull(self, names: dict[str, str]) -> tuple[FakeRepository, FakePullRequest]:
        repository = self.find(names["name"])
        found = repository.pull_requests.get(int(names["number"]))
        if found is None:
            raise Refusal(404, "404 Not found")
        return repository, found

    def _token(self, request: Request, names: dict[str, str]) -> Answer:
        scopes = ["api"] if COMMENTS in request.user.may else ["read_api"]
        return Answer(200, {"scopes": scopes, "expires_at": "2027-01-31"})

    def _show(self, request: Request, names: dict[str, str]) -> Answer:
        repository = self.find(names["name"])
        level = 40 if HOOKS in request.user.may else 30 if STATUSES in request.user.may else 20
        shown = {
            **_named(repository),
            "web_url": f"{self.url}/{repository.name}",
            "default_branch": repository.default_branch,
            "permissions": {"project_access": {"access_level": level}, "group_access": None},
        }
        return Answer(200, shown)

    def _list(self, request: Request, names: dict[str, str]) -> Answer:
        repository = self.find(names["name"])
        found = list(repository.pull_requests.values())
        if request.query["state"] == "opened":
            found = [each for each in found if each.state == "open"]
        if after := request.query.get("updated_after"):
            found = [each for each in found if each.updated_at >= datetime.fromisoformat(after)]
        return paged(request, [self.shown(repository, each) for each in found])

    def _merge_request(self, request: Request, names: dict[str, str]) -> Answer:
        return Answer(200, self.shown(*self.pull(names)))

    def _approvals(self, request: Request, names: dict[str, str]) -> Answer:
        _, found = self.pull(names)
        return Answer(200, {"approved_by": [{"user": _member(user)} for user, _ in found.approvals]})

    def _notes(self, request: Request, names: dict[str, str]) -> Answer:
        repository, found = self.pull(names)
        notes = [_note(each) for each in repository.comments.values() if each.number == found.number]
        return paged(request, notes[::-1] if request.query["sort"] == "desc" else notes)

    def _write(self, request: Request, names: dict[str, str]) -> Answer:
        self.need(request, COMMENTS)
        repository, found = self.pull(names)
        now = self.tick()
        made = FakeComment(next(self._numbers), found.number, request.user, request.json["body"], now, now)
        repository.comments[made.id] = made
        found.updated_at = now
        self.tell_of_comment(repository, made)
        return Answer(201, _note(made))

    def _rewrite(self, request: Request, names: dict[str, str]) -> Answer:
        self.need(request, COMMENTS)
        repository, _ = self.pull(names)
        found = repository.comments.get(int(names["id"]))
        if found is None:
            raise Refusal(404, "404 Not found")
        self.edit(found, request.json["body"])
        return Answer(200, _note(found))

    def _merge(self, request: Request, names: dict[str, str]) -> Answer:
        self.need(request, MERGE)
        repository, found = self.pull(names)
        if found.state != "open":
            raise Refusal(405, "405 Method Not Allowed")
        if found.head_commit != request.json["sha"]:
            raise Refusal(409, "SHA does not match HEAD of source branch")
        self.merge(repository, found.number, request.user)
        return Answer(200, self.shown(repository, found))

    def _branch(self, request: Request, names: dict[str, str]) -> Answer:
        repository = self.find(names["name"])
        if names["branch"] not in repository.branches:
            raise Refusal(404, "404 Branch Not Found")
        return Answer(200, {"name": names["branch"], "commit": {"id": repository.branches[names["branch"]]}})

    def _status(self, request: Request, names: dict[str, str]) -> Answer:
        self.need(request, STATUSES)
        repository, body, commit = self.find(names["name"]), request.json, names["commit"]
        known = repository.statuses.get((commit, body["name"]))
        if known is not None and known["state"] == body["state"] == "running":
            raise Refusal(400, "Cannot transition status via :run from :running")
        repository.statuses[commit, body["name"]] = body
        return Answer(201, {"id": 1})

    def _hooks(self, request: Request, names: dict[str, str]) -> Answer:
        self.need(request, HOOKS)
        return paged(request, [_hook(each) for each in self.find(names["name"]).hooks.values()])

    def _make_hook(self, request: Request, names: dict[str, str]) -> Answer:
        self.need(request, HOOKS)
        made = FakeHook(next(self._numbers), request.json["url"], request.json["token"])
        self.find(names["name"]).hooks[made.id] = made
        return Answer(201, _hook(made))

    def _change_hook(self, request: Request, names: dict[str, str]) -> Answer:
        self.need(request, HOOKS)
        hook = self.find(names["name"]).hooks[int(names["id"])]
        hook.secret = request.json["token"]
        return Answer(200, _hook(hook))

    def _delete_hook(self, request: Request, names: dict[str, str]) -> Answer:
        self.need(request, HOOKS)
        del self.find(names["name"]).hooks[int(names["id"])]
        return Answer(204)

    def _page(self, repository: FakeRepository, number: int) -> str:
        return f"{self.url}/{repository.name}/-/merge_requests/{number}"


def _named(repository: FakeRepository) -> dict[str, Any]:
    return {"path_with_namespace": repository.name}


def _member(user: FakeUser) -> dict[str, Any]:
    return {"id": user.id, "username": user.name}


def _note(comment: FakeComment) -> dict[str, Any]:
    return {
        "id": comment.id,
        "body": comment.body,
        "author": _member(comment.author),
        "created_at": stamp(comment.created_at),
        "updated_at": stamp(comment.updated_at),
        "system": False,
    }


def _hook(hook: FakeHook) -> dict[str, Any]:
    status = "disabled" if hook.is_disabled_by_forge else "executable"
    return {"id": hook.id, "url": hook.url, "alert_status": status, "disabled_until": None}
