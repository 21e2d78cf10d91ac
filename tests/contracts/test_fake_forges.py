"""GitHub, GitLab and Gitea fulfil the contract of a forge, as far as fakes of them can show it."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from terracrew.forges.contract import Forge, Send
from terracrew.forges.gitea.forge import GiteaForge
from terracrew.forges.github.api import AppAccess, TokenAccess
from terracrew.forges.github.forge import GitHubForge
from terracrew.forges.gitlab.forge import GitLabForge
from terracrew.testing.forge_contract import SECRET, ForgeContract, ForgePlace
from tests.forges import fake_forge, fake_github
from tests.forges.fake_forge import COMMENTS, HOOKS, MERGE, OWNER_TOKEN, STATUSES, FakeDelivery, FakeForge, FakeHook
from tests.forges.fake_gitea import FakeGitea
from tests.forges.fake_github import APP_ID, PRIVATE_KEY, FakeGitHub
from tests.forges.fake_gitlab import FakeGitLab
from tests.forges.sending import loopback_sender

pytestmark = pytest.mark.feature("F1.contract")
WRITES = (STATUSES, COMMENTS, HOOKS, MERGE)


@dataclass
class FakePlace:
    fake: FakeForge
    make: Callable[[Send, str, str], Forge]
    """Takes what sends, the address and the token."""
    repository: str = "acme/network"

    def __post_init__(self) -> None:
        self.state = self.fake.repository(self.repository)
        self.forge = self.make(loopback_sender(), self.fake.url, OWNER_TOKEN)
        self.hook_url = "https://terracrew.example.com/hooks/fcn_1"

    async def open(self, branch: str, *, is_fork: bool = False) -> int:
        return self.fake.open(self.state, branch, is_fork=is_fork).number

    async def push(self, branch: str) -> str:
        return self.fake.push(self.state, branch)

    async def comment(self, number: int, body: str) -> str:
        return str(self.fake.write(self.state, number, body).id)

    async def edit_comment(self, comment_id: str, body: str) -> None:
        self.fake.edit(self.state.comments[int(comment_id)], body)

    async def delete_comment(self, comment_id: str) -> None:
        del self.state.comments[int(comment_id)]

    async def approve(self, number: int) -> None:
        self.fake.approve(self.state, number)

    async def close(self, number: int) -> None:
        self.fake.close(self.state, number)

    async def merge(self, number: int) -> None:
        self.fake.merge(self.state, number)

    async def statuses(self, commit: str) -> dict[str, str]:
        found = self.state.statuses.items()
        return {name: body["description"] for (of, name), body in found if of == commit}

    async def body_of(self, number: int, comment_id: str) -> str:
        return self.state.comments[int(comment_id)].body

    async def hooks(self) -> int:
        return sum(each.url == self.hook_url and _is_enabled(each) for each in self.state.hooks.values())

    async def disable_hooks(self) -> None:
        for each in self.state.hooks.values():
            each.active, each.is_disabled_by_forge = False, True

    async def delivered(self, count: int) -> Sequence[FakeDelivery]:
        found = list(self.fake.deliveries)
        self.fake.deliveries.clear()
        assert len(found) >= count
        return found

    async def limited(self) -> Forge:
        return self.make(loopback_sender(), self.fake.url, self.fake.token_without(*WRITES))

    async def unknown(self) -> Forge:
        return self.make(loopback_sender(), self.fake.url, "nobody's")


def _is_enabled(hook: FakeHook) -> bool:
    return hook.active and not hook.is_disabled_by_forge


def github(send: Send, url: str, token: str) -> Forge:
    return GitHubForge(url, TokenAccess(send, url, token))


@asynccontextmanager
async def place_of(fake: FakeForge, make: Callable[[Send, str, str], Forge]) -> AsyncGenerator[FakePlace]:
    async with fake_forge.running(fake):
        yield FakePlace(fake, make)


class TestGitHub(ForgeContract):
    @pytest.fixture
    async def place(self) -> AsyncGenerator[ForgePlace]:
        async with place_of(FakeGitHub(), github) as place:
            yield place


class TestGitHubApp(ForgeContract):
    """An application has permissions instead of those of a user, and one hook for all repositories."""

    @pytest.fixture
    async def place(self) -> AsyncGenerator[ForgePlace]:
        async with fake_forge.running(FakeGitHub()) as fake:
            yield AppPlace(fake)

    async def test_a_hook_is_made_once_and_enabled_again(self, place: ForgePlace) -> None:
        """The hook is that of the application: it is set to the address, and nobody disables it."""
        for _ in range(2):
            made = await place.forge.set_hook(place.repository, place.hook_url, SECRET)
            assert (made.id, made.is_enabled) == ("app", True)
            assert await place.hooks() == 1


class AppPlace(FakePlace):
    def __init__(self, fake: FakeGitHub) -> None:
        self.github = fake
        super().__init__(fake, github_app)

    async def hooks(self) -> int:
        return int(self.github.app_hook.get("url") == self.hook_url)

    async def limited(self) -> Forge:
        self.github.app_may = frozenset({fake_github.READ})
        return github_app(loopback_sender(), self.fake.url, OWNER_TOKEN)


def github_app(send: Send, url: str, token: str) -> Forge:
    app_id = str(APP_ID) if token == OWNER_TOKEN else "1"
    return GitHubForge(url, AppAccess(send, url, app_id, PRIVATE_KEY))


class TestGitLab(ForgeContract):
    @pytest.fixture
    async def place(self) -> AsyncGenerator[ForgePlace]:
        async with place_of(FakeGitLab(), GitLabForge) as place:
            yield place


class TestGitea(ForgeContract):
    @pytest.fixture
    async def place(self) -> AsyncGenerator[ForgePlace]:
        async with place_of(FakeGitea(), GiteaForge) as place:
            yield place
