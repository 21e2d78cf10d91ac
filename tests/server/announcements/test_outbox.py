"""The outbox gets a row for each channel that tells of an event, in the transaction of the change."""

import pytest

from terracrew.api.notifications import NotificationContent
from terracrew.server.announcements import channel_store, delivery_store, service
from terracrew.server.announcements.model import Announcement
from terracrew.server.db.seam import Database, Tx
from tests.builders.job_rows import JobRows
from tests.server.announcements.channels import add, outbox

pytestmark = pytest.mark.feature("M3.outbox")


def drift(rows: JobRows, path: str = "", module_id: str = "", title: str = "Drift") -> Announcement:
    return Announcement(
        event="drift",
        organization_id=rows.organization,
        module_id=module_id,
        path=path,
        subject_id="job_1",
        content=NotificationContent(title=title),
    )


async def announce(rows: JobRows, *announcements: Announcement) -> None:
    await rows.db.write(lambda tx: service.announce(tx, *announcements))


async def test_the_channels_of_a_place_and_of_the_groups_above_tell_of_an_event(rows: JobRows) -> None:
    group, other = await rows.group("shop"), await rows.group("shops")
    module = await rows.module("shop/network", group)
    telling = [await add(rows), await add(rows, group, "shop"), await add(rows, module, "shop/network")]
    silent = [
        await add(rows, other, "shops"),
        await add(rows, events=("job_failed",)),
        await add(rows, is_enabled=False),
    ]
    stranger = await add(await JobRows.make(rows.db))
    await announce(rows, drift(rows, module_id=module))
    for channel in telling:
        [found] = await outbox(rows.db, channel)
        assert (found.event, found.path, found.status, found.tries) == ("drift", "shop/network", "WAITING", 0)
    for channel in (*silent, stranger):
        assert await outbox(rows.db, channel) == []


async def test_an_event_of_a_group_is_not_told_below_it(rows: JobRows) -> None:
    above, below = await rows.group("shop"), await rows.group("shop/eu")
    told, silent = await add(rows, above, "shop"), await add(rows, below, "shop/eu")
    await announce(rows, drift(rows, "shop"))
    assert [each.path for each in await outbox(rows.db, told)] == ["shop"]
    assert await outbox(rows.db, silent) == []


async def test_an_event_of_the_server_is_told_to_every_organization(rows: JobRows) -> None:
    other = await JobRows.make(rows.db)
    module = await other.module("network")
    channels = [await add(rows), await add(other, module, "network")]
    content = NotificationContent(title="1.2.0")
    released = Announcement(event="release", organization_id=None, subject_id="rel_1", content=content)
    await announce(rows, released, drift(rows))
    assert [[each.event for each in await outbox(rows.db, channel)] for channel in channels] == [
        ["drift", "release"],
        ["release"],
    ]


async def test_without_its_change_nothing_is_told(rows: JobRows) -> None:
    channel = await add(rows)

    async def fail(tx: Tx) -> None:
        await service.announce(tx, drift(rows))
        raise ValueError("the change did not happen")

    with pytest.raises(ValueError, match="did not happen"):
        await rows.db.write(fail)
    assert await outbox(rows.db, channel) == []


async def test_who_listens_is_woken(rows: JobRows) -> None:
    channel = await add(rows)
    with rows.db.listen("notifications") as wakeups:
        await announce(rows, drift(rows))
        assert await wakeups.get(timeout=5) == {("notifications", channel)}


async def test_texts_from_outside_are_cut_and_made_plain(rows: JobRows) -> None:
    channel = await add(rows)
    hostile = "Subject: x\r\nBcc: eve@example.com\x1b[31m\0" + "y" * 9000
    content = NotificationContent(title=hostile, text=hostile, facts={hostile: hostile, "Empty": ""})
    await announce(
        rows, Announcement(event="drift", organization_id=rows.organization, subject_id="s", content=content)
    )
    [found] = await outbox(rows.db, channel)
    assert len(found.content.title) <= service.MAX_TITLE_CHARACTERS
    assert len(found.content.text) <= service.MAX_TEXT_CHARACTERS
    assert not set(found.content.title) & set("\r\n\x1b\0")
    assert not set(found.content.text) & set("\x1b\0")
    assert len(found.content.facts) == 1


async def test_a_channel_goes_with_its_place(rows: JobRows) -> None:
    module = await rows.module("network")
    channel = await add(rows, module, "network")
    await announce(rows, drift(rows, module_id=module))
    await rows.db.write(lambda tx: channel_store.move(tx, module, "shop/network"))
    assert (await rows.db.read(lambda tx: channel_store.get(tx, channel))).path == "shop/network"
    await rows.db.write(lambda tx: channel_store.forget(tx, module))
    assert await outbox(rows.db, channel) == []
    assert await rows.db.read(lambda tx: channel_store.of_place(tx, module)) == []


async def test_a_place_has_its_channels_and_those_above_it(database: Database) -> None:
    rows = await JobRows.make(database)
    group = await rows.group("shop")
    found = [await add(rows), await add(rows, group, "shop")]
    await add(rows, await rows.group("other"), "other")
    channels = await database.read(lambda tx: channel_store.that_apply(tx, rows.organization, "shop"))
    assert [each.id for each in channels] == found


async def test_an_organization_whose_receivers_hang_delays_no_other_one(rows: JobRows) -> None:
    """The oldest messages came first, so an organization with many hanging receivers occupied every place of the servers."""
    many = {await add(rows) for _ in range(6)}
    await announce(rows, *[drift(rows, title=str(number)) for number in range(3)])

    async def begin(tx: Tx, count: int) -> list[str]:
        return [each.channel_id for each in await delivery_store.hold(tx, await delivery_store.due(tx, count), 60)]

    assert set(await rows.db.write(lambda tx: begin(tx, 3))) < many
    for _ in range(2):
        other = await JobRows.make(rows.db)
        late = await add(other)
        await announce(other, drift(other))
        assert await rows.db.write(lambda tx: begin(tx, 1)) == [late]
    assert set(await rows.db.write(lambda tx: begin(tx, 20))) < many, "nobody else has anything to send"
