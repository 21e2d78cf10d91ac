"""A real Gitea fulfils the contract of a forge."""

from collections.abc import AsyncGenerator

import pytest

from terracrew.testing.forge_contract import ForgeContract, ForgePlace
from tests.forges.gitea_place import GiteaPlace
from tests.machine import platforms, receiver

pytestmark = [pytest.mark.feature("F1.gitea"), pytest.mark.platform("gitea")]


class TestRealGitea(ForgeContract):
    @pytest.fixture
    async def place(self, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[ForgePlace]:
        address = platforms.need("gitea")
        monkeypatch.setenv("SSL_CERT_FILE", address.split("#")[2])
        async with receiver.running() as receiving:
            place = await GiteaPlace.make(address, receiving)
            yield place
            await place.leave()
