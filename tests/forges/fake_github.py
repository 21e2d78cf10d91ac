"""A fake of GitHub (Enterprise Server): tokens, and an application with installations."""

import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import msgspec
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.forges.fake_alike import FakeAlike
from tests.forges.fake_forge import (
    COMMENTS,
    EVERYTHING,
    HOOKS,
    MERGE,
    READ,
    STATUSES,
    Answer,
    FakeHook,
    FakeRepository,
    FakeUser,
    Refusal,
    Request,
)

APP_ID = 4711
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PRIVATE_KEY = KEY.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
).decode()
_INSTALLATION = 99
_PERMISSIONS = {
    READ: ("contents", "read"),
    MERGE: ("contents", "write"),
    STATUSES: ("statuses", "write"),
    COMMENTS: ("issues", "write"),
}


class FakeGitHub(FakeAlike):
    api: ClassVar[str] = "/api/v3"
    description_characters: ClassVar[int] = 140
    page_word = "pull"

    def __init__(self) -> None:
        super().__init__()
        self.app_may = EVERYTHING
        self.app_hook: dict[str, Any] = {}
        self.made_tokens: list[dict[str, Any]] = []
        """What was asked for with each token of an installation."""
        self.codes: dict[str, dict[str, Any]] = {}
        """The applications that codes of the manifest flow stand for."""
        repository = r"/repos/(?P<name>[^/]+/[^/]+)"
        self.route("GET", rf"{repository}/commits/(?P<ref>.+)", self._commit)
        self.route("GET", rf"{repository}/git/matching-refs/(?P<prefix>.+)", self._matching_refs)
        self.route("PUT", rf"{repository}/pulls/(?P<number>\d+)/merge", self._merge)
        self.route("GET", rf"{repository}/installation", self._installation)
        self.route("GET", "/app", self._app)
        self.route("PATCH", "/app/hook/config", self._hook_of_app)
        self.route("POST", rf"/app/installations/{_INSTALLATION}/access_tokens", self._token)
        self.route("POST", r"/app-manifests/(?P<code>[^/]+)/conversions", self._convert)

    def signed(self, event: str, secret: str, body: bytes) -> dict[str, str]:
        return {
            "content-type": "application/json",
            "x-github-event": event,
            "x-github-delivery": self.delivery_id(),
            "x-hub-signature-256": f"sha256={self.signature(secret, body)}",
        }

    def user_of(self, headers: Mapping[str, str]) -> FakeUser | None:
        token = headers.get("authorization", "").removeprefix("Bearer ")
        return self._app_user(token) if token.count(".") == 2 else self.tokens.get(token)

    def shown_review(self, user: FakeUser, commit: str) -> dict[str, Any]:
        account = {"login": user.name, "id": user.id}
        return {"state": "APPROVED", "user": account, "commit_id": commit, "author_association": "MEMBER"}

    def shown_comment(self, repository: Any, comment: Any) -> dict[str, Any]:
        by = {"id": APP_ID} if comment.author.name == "terracrew[bot]" else None
        return super().shown_comment(repository, comment) | {"performed_via_github_app": by}

    def hooks_of(self, repository: FakeRepository) -> list[FakeHook]:
        of_app = [FakeHook(1, self.app_hook["url"], self.app_hook["secret"])] if self.app_hook else []
        return super().hooks_of(repository) + of_app

    def _app_user(self, token: str) -> FakeUser | None:
        """Check the token of an application as GitHub does: its signature, and that it is valid for at most ten minutes."""
        unsigned, _, signature = token.rpartition(".")
        KEY.public_key().verify(_decoded(signature), unsigned.encode(), padding.PKCS1v15(), hashes.SHA256())
        claims = msgspec.json.decode(_decoded(unsigned.partition(".")[2]))
        now = self._now.timestamp()
        is_valid = claims["iat"] <= now + 600 and claims["exp"] <= claims["iat"] + 660 and claims["exp"] > now - 600
        return FakeUser("the app", 1) if is_valid and claims["iss"] == str(APP_ID) else None

    def _commit(self, request: Request, names: dict[str, str]) -> Answer:
        self.need(request, READ)
        repository = self.find(names["name"])
        name = repository.default_branch if names["ref"] == "HEAD" else names["ref"].removeprefix("heads/")
        if name not in repository.branches:
            raise Refusal(422, f"No commit found for SHA: {name}")
        return Answer(200, raw=repository.branches[name].encode())

    def _matching_refs(self, request: Request, names: dict[str, str]) -> Answer:
        self.need(request, READ)
        found = [
            {"ref": f"refs/heads/{name}", "object": {"sha": commit, "type": "commit"}}
            for name, commit in sorted(self.find(names["name"]).branches.items())
            if f"heads/{name}".startswith(names["prefix"])
        ]
        return Answer(200, found)

    def _merge(self, request: Request, names: dict[str, str]) -> Answer:
        merged = self.merge_at(request, self.find(names["name"]), names["number"], request.json["sha"])
        return Answer(200, {"sha": merged, "merged": True})

    def _permissions(self) -> dict[str, str]:
        found = {"pull_requests": "write", "metadata": "read"}
        for name, (permission, level) in _PERMISSIONS.items():
            if name in self.app_may:
                found[permission] = level
        return found

    def _app(self, request: Request, names: dict[str, str]) -> Answer:
        events = ["push", "pull_request", "pull_request_review", "issue_comment"] if HOOKS in self.app_may else []
        return Answer(200, {"id": APP_ID, "slug": "terracrew", "permissions": self._permissions(), "events": events})

    def _installation(self, request: Request, names: dict[str, str]) -> Answer:
        self.find(names["name"])
        return Answer(200, {"id": _INSTALLATION, "permissions": self._permissions(), "events": []})

    def _hook_of_app(self, request: Request, names: dict[str, str]) -> Answer:
        self.app_hook = request.json
        return Answer(200, {"url": request.json["url"]})

    def _token(self, request: Request, names: dict[str, str]) -> Answer:
        token = f"ghs_{next(self._numbers)}"
        self.made_tokens.append(request.json)
        self.tokens[token] = FakeUser("terracrew[bot]", 4000, self.app_may)
        end = datetime.now(UTC) + timedelta(hours=1)
        return Answer(201, {"token": token, "expires_at": end.strftime("%Y-%m-%dT%H:%M:%SZ")})

    def _convert(self, request: Request, names: dict[str, str]) -> Answer:
        if names["code"] not in self.codes:
            raise Refusal(404, "Not Found")
        return Answer(201, self.codes.pop(names["code"]))


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
