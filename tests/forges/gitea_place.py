"""A repository on a real Gitea, with the people who use it, and a receiver of its hooks."""

import asyncio
import base64
import itertools
import secrets
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from terracrew.forges.contract import Forge
from terracrew.forges.gitea.forge import GiteaForge
from tests.forges.sending import loopback_sender
from tests.machine.receiver import Received, Receiver

PASSWORD = "correct-horse-1"
READ_SCOPES = ["read:repository", "read:issue", "read:user"]
WRITE_SCOPES = ["write:repository", "write:issue", "read:user"]
SETTLE_SECONDS = 0.7
"""No delivery arrives so long after the one before, if both are about the same act."""


@dataclass
class GiteaPlace:
    url: str
    admin: httpx.AsyncClient
    people: dict[str, httpx.AsyncClient]
    repository: str
    bot: str
    receiver: Receiver
    trusted: str
    """The file with the certificate of Gitea."""
    tokens: dict[str, str] = field(default_factory=dict[str, str])
    _contents: "itertools.count[int]" = field(default_factory=itertools.count)

    @classmethod
    async def make(cls, address: str, receiver: Receiver) -> "GiteaPlace":
        """Make an organization with a repository, and the users ada and bob of this place."""
        url, token, trusted = address.split("#")
        tls = ssl.create_default_context(cafile=trusted)
        headers = {"Authorization": f"token {token}"}
        admin = httpx.AsyncClient(base_url=f"{url}/api/v1", headers=headers, verify=tls, timeout=30)
        suffix = secrets.token_hex(3)
        place = cls(url, admin, {}, f"acme{suffix}/network", f"bot{suffix}", receiver, trusted)
        for name in ("ada", "bob", place.bot):
            await place._user(name)
        organization = place.repository.partition("/")[0]
        await place._ask(admin, "POST", "/orgs", {"username": organization, "visibility": "public"})
        body = {"name": "network", "auto_init": True, "default_branch": "main"}
        await place._ask(admin, "POST", f"/orgs/{organization}/repos", body)
        for name, level in (("ada", "write"), ("bob", "write"), (place.bot, "admin")):
            path = f"/repos/{place.repository}/collaborators/{name}"
            await place._ask(admin, "PUT", path, {"permission": level})
        place.tokens = {"write": await place.token(WRITE_SCOPES), "read": await place.token(READ_SCOPES)}
        return place

    async def leave(self) -> None:
        for each in (self.admin, *self.people.values()):
            await each.aclose()

    @property
    def forge(self) -> Forge:
        return GiteaForge(loopback_sender(), self.url, self.tokens["write"])

    @property
    def hook_url(self) -> str:
        return f"{self.receiver.url}/hooks/fcn_1"

    async def open(self, branch: str, *, is_fork: bool = False, **files: str) -> int:
        """`files` are the configurations of folders that the branch adds to, by the names of the folders."""
        head = branch
        if is_fork:
            fork = f"fork-{secrets.token_hex(3)}"
            await self._ask(self.people["ada"], "POST", f"/repos/{self.repository}/forks", {"name": fork})
            await self._commit(f"ada/{fork}", branch, new=True)
            head = f"ada:{branch}"
        elif files:
            await self.add(branch, new=True, **files)
        else:
            await self._commit(self.repository, branch, new=True)
        body = {"head": head, "base": "main", "title": f"Change {branch}"}
        return (await self._ask(self.people["ada"], "POST", f"/repos/{self.repository}/pulls", body))["number"]

    async def add(self, branch: str, *, new: bool = False, **files: str) -> None:
        """Add a file with this configuration to each of these folders."""
        for folder, text in files.items():
            await self._write(self.repository, branch, folder, text, new=new)
            new = False

    async def push(self, branch: str) -> str:
        return await self._commit(self.repository, branch, new=False)

    async def comment(self, number: int, body: str) -> str:
        path = f"/repos/{self.repository}/issues/{number}/comments"
        return str((await self._ask(self.people["bob"], "POST", path, {"body": body}))["id"])

    async def edit_comment(self, comment_id: str, body: str) -> None:
        await asyncio.sleep(3)  # nobody can move the clock of Gitea, whose times are whole seconds
        path = f"/repos/{self.repository}/issues/comments/{comment_id}"
        await self._ask(self.people["bob"], "PATCH", path, {"body": body})

    async def delete_comment(self, comment_id: str) -> None:
        await self._ask(self.admin, "DELETE", f"/repos/{self.repository}/issues/comments/{comment_id}")

    async def approve(self, number: int) -> None:
        path = f"/repos/{self.repository}/pulls/{number}/reviews"
        await self._ask(self.people["bob"], "POST", path, {"event": "APPROVED", "body": "good"})

    async def close(self, number: int) -> None:
        await self._ask(self.people["ada"], "PATCH", f"/repos/{self.repository}/pulls/{number}", {"state": "closed"})

    async def merge(self, number: int) -> None:
        path = f"/repos/{self.repository}/pulls/{number}/merge"
        await self._ask(self.people["ada"], "POST", path, {"Do": "merge"})

    async def statuses(self, commit: str) -> dict[str, str]:
        found = await self._ask(self.admin, "GET", f"/repos/{self.repository}/commits/{commit}/status")
        return {each["context"]: each["description"] for each in found["statuses"]}

    async def own_comments(self, number: int) -> list[str]:
        """Return the comments on a pull request that the connection has written."""
        found = await self._ask(self.admin, "GET", f"/repos/{self.repository}/issues/{number}/comments")
        return [each["body"] for each in found if each["user"]["login"] == self.bot]

    async def id_of(self, name: str) -> str:
        return str((await self._ask(self.admin, "GET", f"/users/{name}"))["id"])

    async def body_of(self, number: int, comment_id: str) -> str:
        return (await self._ask(self.admin, "GET", f"/repos/{self.repository}/issues/comments/{comment_id}"))["body"]

    async def hooks(self) -> int:
        found = await self._ask(self.admin, "GET", f"/repos/{self.repository}/hooks")
        return sum(each["active"] and each["config"]["url"] == self.hook_url for each in found)

    async def disable_hooks(self) -> None:
        for each in await self._ask(self.admin, "GET", f"/repos/{self.repository}/hooks"):
            await self._ask(self.admin, "PATCH", f"/repos/{self.repository}/hooks/{each['id']}", {"active": False})

    async def delivered(self, count: int) -> Sequence[Received]:
        received = self.receiver.received
        async with asyncio.timeout(30):
            while len(received) < count:
                self.receiver.is_asked.clear()
                await self.receiver.is_asked.wait()
        known = -1
        while known != len(received):
            known = len(received)
            await asyncio.sleep(SETTLE_SECONDS)
        found = list(received)
        received.clear()
        return found

    async def limited(self) -> Forge:
        return GiteaForge(loopback_sender(), self.url, self.tokens["read"])

    async def unknown(self) -> Forge:
        return GiteaForge(loopback_sender(), self.url, "0" * 40)

    async def token(self, scopes: list[str]) -> str:
        """Make a token of the user that the connection acts as."""
        login = httpx.BasicAuth(self.bot, PASSWORD)
        body = {"name": secrets.token_hex(4), "scopes": scopes}
        answer = await self.admin.post(
            f"{self.url}/api/v1/users/{self.bot}/tokens", json=body, auth=login, headers={"Authorization": ""}
        )
        assert answer.status_code == 201, answer.text
        return answer.json()["sha1"]

    async def _user(self, name: str) -> None:
        body = {
            "username": name,
            "password": PASSWORD,
            "email": f"{name}@example.com",
            "must_change_password": False,
        }
        answer = await self.admin.post("/admin/users", json=body)
        assert answer.status_code in (201, 422), answer.text  # another place has made ada and bob
        tls = ssl.create_default_context(cafile=self.trusted)
        login = httpx.BasicAuth(name, PASSWORD)
        self.people[name] = httpx.AsyncClient(base_url=f"{self.url}/api/v1", auth=login, verify=tls, timeout=30)

    async def _commit(self, repository: str, branch: str, *, new: bool) -> str:
        return await self._write(repository, branch, "", f"# {next(self._contents)}\n", new=new)

    async def _write(self, repository: str, branch: str, folder: str, text: str, *, new: bool) -> str:
        target = {"new_branch": branch, "branch": "main"} if new else {"branch": branch}
        body = {"content": base64.b64encode(text.encode()).decode(), "message": "Add a file", **target}
        path = f"/repos/{repository}/contents/{folder}/file-{secrets.token_hex(3)}.tf".replace("//", "/")
        return (await self._ask(self.people["ada"], "POST", path, body))["commit"]["sha"]

    async def _ask(self, who: httpx.AsyncClient, method: str, path: str, body: Any = None) -> Any:
        answer = await who.request(method, path, json=body)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None
