"""A real Gitea fulfils the contract of a forge."""

from collections.abc import AsyncGenerator

import pytest

from terracrew.testing.forge_contract import ForgeContract, ForgePlace
from tests.forges.gitea_place import GiteaPlace
from tests.machine import platforms, receiver

pytestmark = [pytest.mark.feature("F1.gitea"), pytest.mark.platform("gitea")]


class TestRealGitea(ForgeContract):
    @pytest.fixture
    async def place(self) -> AsyncGenerator[ForgePlace]:
        async with receiver.running() as receiving:
            place = await GiteaPlace.make(platforms.need("gitea"), receiving)
            yield place
            await place.leave()
