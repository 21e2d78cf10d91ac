"""What the fakes of GitHub and Gitea have in common, as their APIs have."""

import hashlib
import hmac
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from tests.forges.fake_forge import (
    COMMENTS,
    HOOKS,
    MERGE,
    READ,
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

_REPOSITORY = r"/repos/(?P<name>[^/]+/[^/]+)"


class FakeAlike(FakeForge):
    description_characters: ClassVar[int]
    page_word: str
    """What the address of the page of a pull request has in it."""

    def __init__(self) -> None:
        super().__init__()
        one = rf"{_REPOSITORY}/pulls/(?P<number>\d+)"
        issues = rf"{_REPOSITORY}/issues"
        self.route("GET", "/user", lambda request, _: Answer(200, _account(request.user)))
        self.route("GET", _REPOSITORY, self._show)
        self.route("GET", rf"{_REPOSITORY}/pulls", self._list)
        self.route("GET", one, self._pull_request)
        self.route("GET", rf"{one}/reviews", self._reviews)
        self.route("GET", rf"{issues}/comments", self._comments)
        self.route("GET", rf"{issues}/(?P<number>\d+)/comments", self._comments_of_one)
        self.route("POST", rf"{issues}/(?P<number>\d+)/comments", self._write)
        self.route("PATCH", rf"{issues}/comments/(?P<id>\d+)", self._rewrite)
        self.route("POST", rf"{_REPOSITORY}/statuses/(?P<commit>\w+)", self._status)
        self.route("GET", rf"{_REPOSITORY}/hooks", self._hooks)
        self.route("POST", rf"{_REPOSITORY}/hooks", self._make_hook)
        self.route("PATCH", rf"{_REPOSITORY}/hooks/(?P<id>\d+)", self._change_hook)

    def user_of(self, headers: Mapping[str, str]) -> FakeUser | None:
        return self.tokens.get(headers.get("authorization", "").partition(" ")[2])

    def signature(self, secret: str, body: bytes) -> str:
        return hmac.digest(secret.encode(), body, hashlib.sha256).hex()

    def delivery_id(self) -> str:
        return str(uuid.uuid4())

    def tell_of_pull_request(self, repository: FakeRepository, found: FakePullRequest, action: str) -> None:
        event = "pull_request_review" if action == "submitted" else "pull_request"
        shown = self.shown(repository, found)
        payload = {
            "action": action,
            "number": found.number,
            "pull_request": shown,
            "repository": self.named(repository),
        }
        if action == "submitted":
            payload.pop("number")
        self.deliver(repository, event, payload)

    def tell_of_comment(self, repository: FakeRepository, comment: FakeComment) -> None:
        issue: dict[str, Any] = {"number": comment.number}
        if not comment.is_on_issue:
            issue["pull_request"] = {"url": "https://example.com"}
        shown = self.shown_comment(repository, comment)
        payload = {"action": "created", "issue": issue, "comment": shown, "repository": self.named(repository)}
        self.deliver(repository, "issue_comment", payload | {"is_pull": not comment.is_on_issue})

    def tell_of_push(self, repository: FakeRepository, branch: str, commit: str) -> None:
        payload = {"ref": f"refs/heads/{branch}", "after": commit, "repository": self.named(repository)}
        self.deliver(repository, "push", payload)

    def named(self, repository: FakeRepository) -> dict[str, Any]:
        return {"full_name": repository.name, "html_url": f"{self.url}/{repository.name}"}

    def shown(self, repository: FakeRepository, found: FakePullRequest) -> dict[str, Any]:
        """The JSON of a pull request."""
        is_merged = found.state == "merged"
        return {
            "id": found.number + 5000,
            "number": found.number,
            "title": found.title,
            "html_url": f"{self.url}/{repository.name}/{self.page_word}/{found.number}",
            "state": "open" if found.state == "open" else "closed",
            "user": _account(found.author),
            "draft": found.is_draft,
            "merged": is_merged,
            "merged_at": stamp(found.updated_at) if is_merged else None,
            "merge_commit_sha": found.merge_commit,
            "merged_by": _account(found.merged_by) if found.merged_by else None,
            "head": {"ref": found.head_branch, "sha": found.head_commit, "repo": {"id": 2 if found.is_fork else 1}},
            "base": {"ref": found.base_branch, "sha": repository.branches[found.base_branch], "repo": {"id": 1}},
            "updated_at": stamp(found.updated_at),
        }

    def shown_comment(self, repository: FakeRepository, comment: FakeComment) -> dict[str, Any]:
        word = "issues" if comment.is_on_issue else self.page_word
        return {
            "id": comment.id,
            "html_url": f"{self.url}/{repository.name}/{word}/{comment.number}#issuecomment-{comment.id}",
            "body": comment.body,
            "user": _account(comment.author),
            "created_at": stamp(comment.created_at),
            "updated_at": stamp(comment.updated_at),
        }

    def shown_review(self, user: FakeUser, commit: str) -> dict[str, Any]:
        raise NotImplementedError

    def pull(self, repository: FakeRepository, number: str) -> FakePullRequest:
        found = repository.pull_requests.get(int(number))
        if found is None:
            raise Refusal(404, "Not Found")
        return found

    def merge_at(self, request: Request, repository: FakeRepository, number: str, head: str) -> str:
        self.need(request, MERGE)
        found = self.pull(repository, number)
        if found.state != "open":
            raise Refusal(405, "Pull Request is not mergeable")
        if found.head_commit != head:
            raise Refusal(409, "Head branch was modified. Review and try the merge again.")
        return self.merge(repository, found.number, request.user)

    def _show(self, request: Request, names: dict[str, str]) -> Answer:
        self.need(request, READ)
        repository = self.find(names["name"])
        may = request.user.may
        permissions = {"admin": HOOKS in may, "push": bool(may & {STATUSES, MERGE}), "pull": READ in may}
        shown = self.named(repository) | {"default_branch": repository.default_branch, "permissions": permissions}
        return Answer(200, shown)

    def _list(self, request: Request, names: dict[str, str]) -> Answer:
        self.need(request, READ)
        repository = self.find(names["name"])
        found = [self.shown(repository, each) for each in repository.pull_requests.values() if each.state == "open"]
        return paged(request, found)

    def _pull_request(self, request: Request, names: dict[str, str]) -> Answer:
        repository = self.find(names["name"])
        return Answer(200, self.shown(repository, self.pull(repository, names["number"])))

    def _reviews(self, request: Request, names: dict[str, str]) -> Answer:
        found = self.pull(self.find(names["name"]), names["number"])
        return paged(request, [self.shown_review(user, commit) for user, commit in found.approvals])

    def _comments(self, request: Request, names: dict[str, str]) -> Answer:
        repository = self.find(names["name"])
        since = datetime.fromisoformat(request.query["since"])
        found = [each for each in repository.comments.values() if each.updated_at >= since]
        return paged(request, [self.shown_comment(repository, each) for each in found])

    def _comments_of_one(self, request: Request, names: dict[str, str]) -> Answer:
        repository = self.find(names["name"])
        found = [each for each in repository.comments.values() if each.number == int(names["number"])]
        return paged(request, [self.shown_comment(repository, each) for each in found])

    def _write(self, request: Request, names: dict[str, str]) -> Answer:
        self.need(request, COMMENTS)
        repository = self.find(names["name"])
        found = self.pull(repository, names["number"])
        now = self.tick()
        made = FakeComment(next(self._numbers), found.number, request.user, request.json["body"], now, now)
        repository.comments[made.id] = made
        found.updated_at = now
        self.tell_of_comment(repository, made)
        return Answer(201, self.shown_comment(repository, made))

    def _rewrite(self, request: Request, names: dict[str, str]) -> Answer:
        self.need(request, COMMENTS)
        repository = self.find(names["name"])
        found = repository.comments.get(int(names["id"]))
        if found is None:
            raise Refusal(404, "Not Found")
        self.edit(found, request.json["body"])
        return Answer(200, self.shown_comment(repository, found))

    def _status(self, request: Request, names: dict[str, str]) -> Answer:
        self.need(request, STATUSES)
        repository, body, commit = self.find(names["name"]), request.json, names["commit"]
        if not commit.strip("0"):
            raise Refusal(422, "No commit found for SHA")
        if len(body["description"]) > self.description_characters:
            raise Refusal(422, f"description is too long (maximum is {self.description_characters} characters)")
        repository.statuses[commit, body["context"]] = body
        return Answer(201, {"id": 1})

    def _hooks(self, request: Request, names: dict[str, str]) -> Answer:
        self.need(request, HOOKS)
        return paged(request, [_hook(each) for each in self.find(names["name"]).hooks.values()])

    def _make_hook(self, request: Request, names: dict[str, str]) -> Answer:
        self.need(request, HOOKS)
        config = request.json["config"]
        made = FakeHook(next(self._numbers), config["url"], config["secret"])
        self.find(names["name"]).hooks[made.id] = made
        return Answer(201, _hook(made))

    def _change_hook(self, request: Request, names: dict[str, str]) -> Answer:
        self.need(request, HOOKS)
        hook = self.find(names["name"]).hooks[int(names["id"])]
        hook.is_disabled_by_forge = False
        hook.active, hook.secret = request.json["active"], request.json["config"]["secret"]
        return Answer(200, _hook(hook))


def _account(user: FakeUser) -> dict[str, Any]:
    return {"login": user.name, "id": user.id}


def _hook(hook: FakeHook) -> dict[str, Any]:
    return {"id": hook.id, "active": hook.active, "config": {"url": hook.url, "content_type": "json"}}
