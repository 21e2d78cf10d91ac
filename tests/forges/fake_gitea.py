"""A fake of Gitea, which knows no tags."""

from typing import Any, ClassVar

from tests.forges.fake_alike import FakeAlike
from tests.forges.fake_forge import Answer, FakeUser, Refusal, Request


class FakeGitea(FakeAlike):
    api: ClassVar[str] = "/api/v1"
    has_tags: ClassVar[bool] = False
    description_characters: ClassVar[int] = 250
    page_word = "pulls"

    def __init__(self) -> None:
        super().__init__()
        repository = r"/repos/(?P<name>[^/]+/[^/]+)"
        self.route("GET", rf"{repository}/branches/(?P<branch>.+)", self._branch)
        self.route("POST", rf"{repository}/pulls/(?P<number>\d+)/merge", self._merge)

    def signed(self, event: str, secret: str, body: bytes) -> dict[str, str]:
        signature = self.signature(secret, body)
        return {
            "content-type": "application/json",
            "x-gitea-event": event,
            "x-gitea-delivery": self.delivery_id(),
            "x-gitea-signature": signature,
            "x-hub-signature-256": f"sha256={signature}",
        }

    def shown_review(self, user: FakeUser, commit: str) -> dict[str, Any]:
        account = {"login": user.name, "id": user.id}
        return {"state": "APPROVED", "user": account, "commit_id": commit, "official": True, "dismissed": False}

    def _branch(self, request: Request, names: dict[str, str]) -> Answer:
        repository = self.find(names["name"])
        if names["branch"] not in repository.branches:
            raise Refusal(404, "branch does not exist")
        return Answer(200, {"name": names["branch"], "commit": {"id": repository.branches[names["branch"]]}})

    def _merge(self, request: Request, names: dict[str, str]) -> Answer:
        head = request.json["head_commit_id"]
        self.merge_at(request, self.find(names["name"]), names["number"], head)
        return Answer(200)
