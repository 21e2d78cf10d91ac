"""A look at tags that somebody asks for, or that a forge is a reason for, finds the tags as they are at that moment."""

from collections.abc import Callable
from typing import Any

import pytest

from terracrew import ids
from terracrew.forges.model import BranchMoved
from terracrew.server.db.seam import Tx
from terracrew.server.forges import delivery_store
from terracrew.server.forges.deliveries import ForgeDeliveries
from terracrew.server.forges.model import ForgeDelivery
from terracrew.server.registry import service, tags
from tests.server.application import on_one
from tests.server.discovery.found import NAME
from tests.server.registry.publisher import create, publish
from tests.server.registry.tagged import PATH, Tagged

pytestmark = pytest.mark.feature("P7.tags")


async def delivered(tagged: Tagged, *events: BranchMoved) -> None:
    """Let a hook of the forge tell this, and handle it."""
    found = tagged.found

    async def store(tx: Tx) -> None:
        told = ForgeDelivery(
            id=ids.new("fdl"),
            connection_id=found.connection.id,
            delivery_id=ids.new("fdl"),
            event="push",
            events=list(events),
            received_at=tx.moment,
            try_at=tx.moment,
        )
        assert await delivery_store.insert(tx, told)

    await found.db.write(store)
    assert await ForgeDeliveries(found.db, found.forges, tags.pushed).step() == 1


async def test_a_tag_that_a_forge_tells_of_becomes_a_version_at_once(tagged: Tagged) -> None:
    await tagged.follow()
    await create(tagged.app.admin, "team/other/aws", url=tagged.found.url.replace(NAME, "other"))
    await tagged.step()
    commit = tagged.tag("v1.0.0")
    assert await tagged.loops[0].step() == 0, "its turn comes after a minute"
    await delivered(tagged, BranchMoved(NAME, "v1.0.0", commit))
    assert await tagged.loops[0].step() == 0, "nobody asks for tags because of a branch"
    await delivered(tagged, BranchMoved(NAME, "v1.0.0", commit, is_tag=True))
    # The server has read the tags a moment ago, and that is not enough.
    assert await tagged.loops[0].step() == 1, "only those that follow this repository"
    assert await tagged.versions() == {"1.0.0": commit}


@on_one
async def test_what_is_asked_for_while_the_tags_are_read_is_done_afterwards(
    tagged: Tagged, monkeypatch: pytest.MonkeyPatch
) -> None:
    await tagged.follow()
    await tagged.step()
    mirrors = tagged.tools[0].mirrors
    read: Callable[..., Any] = mirrors.tags

    async def and_then(*given: Any) -> dict[str, str]:
        monkeypatch.setattr(mirrors, "tags", read)
        found = await read(*given)
        tagged.tag("v1.0.0")
        await tagged.look()
        return found

    monkeypatch.setattr(mirrors, "tags", and_then)
    await tagged.look()
    assert await tagged.loops[0].step() == 1
    assert await tagged.versions() == {}
    assert await tagged.loops[0].step() == 1
    assert [*await tagged.versions()] == ["1.0.0"]
    assert await tagged.loops[0].step() == 0


@on_one
async def test_tags_for_which_there_is_no_room_are_not_read_again_and_again(
    tagged: Tagged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_VERSIONS", 2)
    await tagged.follow()
    await publish(tagged.app.admin, PATH, "1.0.0")
    for number in (1, 2, 3):
        tagged.tag(f"v1.{number}.0")
    await tagged.step()
    before = await tagged.app.scalar("SELECT count(*) FROM archives")
    assert [*await tagged.versions()] == ["1.3.0", "1.0.0"]
    found = (await tagged.shown())["refused_tags"]
    assert [(each["tag"], "no more" in each["reason"]) for each in found] == [("v1.2.0", True), ("v1.1.0", True)]
    await tagged.look()
    await tagged.step()
    assert await tagged.app.scalar("SELECT count(*) FROM archives") == before
