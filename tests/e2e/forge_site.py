"""A forge with its repositories on one address, as people have it: git serves the repositories, and its API is that of Gitea."""

import contextlib
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs

import msgspec
import urllib3

from tests.forges.fake_forge import OWNER_TOKEN, FakeDelivery, FakePullRequest, FakeUser, Request
from tests.forges.fake_gitea import FakeGitea
from tests.machine import git_https
from tests.machine.git_https import Answered, GitHttps
from tests.machine.repositories import Repository

NAME = "acme/network"
TOKEN = OWNER_TOKEN


class ForgeSite:
    """One repository with pull requests. What the forge delivers is posted when a test says so."""

    def __init__(self, served: GitHttps) -> None:
        self.url = served.url
        self.forge = FakeGitea()
        self.forge.url = served.url
        self.on_forge = self.forge.repository(NAME)
        self.repository = Repository(served.root / "acme" / "network")
        (served.root / "acme" / "network.git").symlink_to(self.repository.folder)
        self._lock = threading.Lock()
        served.instead = self._answer

    def commit(self, message: str = "a change", **files: str) -> str:
        """Commit files to `main`: the path of a folder with its configuration."""
        self._write(files)
        commit = self.repository.commit(message)
        self.on_forge.branches["main"] = commit
        return commit

    def open(self, branch: str, **files: str) -> FakePullRequest:
        """Open a pull request by ada that changes these folders."""
        with self._lock:
            found = self.forge.open(self.on_forge, branch)
            self.forge.deliveries.clear()
            self._push(found, branch, files, is_new=True)
            self.forge.tell_of_pull_request(self.on_forge, found, "opened")
        return found

    def push(self, found: FakePullRequest, **files: str) -> None:
        with self._lock:
            self._push(found, found.head_branch, files, is_new=False)
            self.forge.tell_of_pull_request(self.on_forge, found, "synchronize")

    def comment(self, found: FakePullRequest, body: str, by: str) -> None:
        with self._lock:
            self.forge.write(self.on_forge, found.number, body, by=by)

    def merge(self, found: FakePullRequest) -> str:
        with self._lock:
            self.repository.git("merge", "-q", "--no-ff", "-m", "merged", found.head_commit)
            self.forge.merge(self.on_forge, found.number)
            found.merge_commit = self.on_forge.branches["main"] = self.repository.git("rev-parse", "HEAD")
            return found.merge_commit

    def deliver(self, *deliveries: FakeDelivery) -> None:
        """Post these deliveries, or all that wait. One that does not arrive is lost."""
        with self._lock:
            sent = list(deliveries or self.forge.deliveries)
            self.forge.deliveries.clear()
        for each in sent:
            with contextlib.suppress(urllib3.exceptions.HTTPError):
                urllib3.request("POST", each.url, body=each.body, headers=each.headers, retries=False, timeout=10)

    @property
    def status(self) -> dict[tuple[str, str], str]:
        """The states of all statuses, by commit and name."""
        with self._lock:
            return {key: found["state"] for key, found in self.on_forge.statuses.items()}

    @property
    def own_comments(self) -> list[str]:
        with self._lock:
            own = self.forge.own.name
            return [each.body for each in self.on_forge.comments.values() if each.author.name == own]

    def _push(self, found: FakePullRequest, branch: str, files: dict[str, str], *, is_new: bool) -> None:
        self.repository.git("checkout", "-q", *(["-b", branch, "main"] if is_new else [branch]))
        self._write(files)
        found.head_commit = self.repository.commit(f"change {branch}")
        self.repository.git("update-ref", f"refs/pull/{found.number}/head", found.head_commit)
        self.repository.git("checkout", "-q", "main")
        found.updated_at = self.forge.tick()

    def _write(self, files: dict[str, str]) -> None:
        for folder, text in files.items():
            at: Path = self.repository.folder / folder
            at.mkdir(parents=True, exist_ok=True)
            (at / "main.tf").write_text(text)

    def _answer(self, method: str, address: str, headers: dict[str, str], body: bytes) -> Answered | None:
        path, _, query = address.partition("?")
        if not path.startswith(self.forge.api):
            return None
        asked = {name: found[0] for name, found in parse_qs(query).items()}
        with self._lock:
            user = self.forge.user_of(headers) or FakeUser("", 0, frozenset())
            answer = self.forge.answer(Request(method, path.removeprefix(self.forge.api), asked, headers, body, user))
        content = answer.raw if answer.raw is not None else msgspec.json.encode(answer.value)
        if answer.status in (204, 304):
            content = b""
        return answer.status, list(answer.headers.items()), content


@contextmanager
def running(root: Path) -> Generator[tuple[ForgeSite, GitHttps]]:
    with git_https.running(root) as served:
        yield ForgeSite(served), served
