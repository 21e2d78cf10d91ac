"""A runner says how it was installed, whether it updates itself and how its trial ended; a hostile one gains nothing by it."""

from typing import Any

import pytest

from terracrew import ids
from terracrew.protocol import messages
from terracrew.protocol.messages import Installation, UpdateReport
from terracrew.server.db.seam import Row
from terracrew.server.db.topics import UpdateKey
from terracrew.server.hub.notify import HubNotifier
from terracrew.server.releases import store as releases
from terracrew.server.runner_updates import store
from terracrew.server.runner_updates.model import InstanceUpdate
from tests.builders.job_rows import change_runners
from tests.server.application import on_one
from tests.server.hub.asked_updates import asked
from tests.server.hub.hostile_clients import PING
from tests.server.hub.hub_clients import Client, Hub, refusal
from tests.server.releases.release_rows import new_release, wheel

pytestmark = pytest.mark.feature("V3.self")


async def shown(hub: Hub) -> dict[str, Any]:
    (instance,) = (await hub.crew.app.admin.get(f"/api/v1/runners/{hub.runner_id}")).json()["instances"]
    return instance


async def row(hub: Hub) -> Row:
    sql = "SELECT is_on_trial, trial_passed, trial_words, retire_reason FROM instances WHERE runner_id = :id"
    found = await hub.server.db.read(lambda tx: tx.one(sql, id=hub.runner_id))
    assert found is not None
    return found


async def stored(hub: Hub, update: InstanceUpdate) -> tuple[str, str, str]:
    found = await hub.server.db.read(lambda tx: store.get(tx, update.id))
    assert found is not None
    return found.status, found.step, found.words


async def taken(client: Client) -> None:
    """Wait until the server has taken what was sent before: messages of a connection are taken one after the other."""
    assert (await client.ask(PING))["type"] == "settled"


async def test_how_a_runner_was_installed_is_shown(hub: Hub) -> None:
    systemd = Installation("systemd", "/opt/terracrew", "terracrew-runner.service")
    async with hub.runner(installation=systemd, is_self_updating=True):
        found = await shown(hub)
        assert found["installation"] == {
            "kind": "systemd",
            "place": "/opt/terracrew",
            "detail": "terracrew-runner.service",
        }
        assert found["is_self_updating"]
    async with hub.runner():
        found = await shown(hub)
        assert (found["installation"]["kind"], found["is_self_updating"]) == ("", False), "the newest hello counts"


@on_one
@pytest.mark.parametrize(
    "hostile",
    [
        Installation("pip\x1b[2J", "/opt\n; rm -rf /", "\0"),
        Installation("x" * 101, "/" + "y" * 500, "z" * 501),
        Installation("pip\u202e", "/opt\u2028", "unit\ud7ff\ue000"),
    ],
)
async def test_an_installation_that_cannot_be_shown_is_left_out_and_the_runner_works(
    hub: Hub, hostile: Installation
) -> None:
    async with hub.runner(installation=hostile):
        found = (await shown(hub))["installation"]
        assert set(found.values()) == {""}


async def test_a_trial_is_stored_and_a_later_connection_keeps_its_result(hub: Hub) -> None:
    async with hub.runner(is_on_trial=True, is_draining=True, drain_reason="on trial") as runner:
        assert dict(await row(hub)) == {
            "is_on_trial": True,
            "trial_passed": None,
            "trial_words": "",
            "retire_reason": "",
        }
        await runner.send(messages.TrialReport(True, "tofu 1.12.6 \x1b[2Jran a\nno-op plan" + "x" * 9_000, 4.2))
        await taken(runner)
        found = await row(hub)
        assert (bool(found["is_on_trial"]), bool(found["trial_passed"])) == (False, True)
        assert found["trial_words"].startswith("tofu 1.12.6 ran a no-op plan")
        assert len(found["trial_words"]) <= 1_000
    async with hub.runner():
        assert (await row(hub))["trial_passed"], "an ordinary connection says nothing about the trial"
    async with hub.runner(is_on_trial=True) as runner:
        assert (await row(hub))["trial_passed"] is None, "a new process on trial has no result yet"
        await runner.send(messages.TrialReport(False, "tofu exits with 1"))
        await taken(runner)
        found = await row(hub)
        assert (bool(found["is_on_trial"]), bool(found["trial_passed"])) == (True, False)


async def test_reports_of_an_update_are_stored_once_and_late_ones_change_nothing(hub: Hub) -> None:
    async with hub.runner(is_self_updating=True) as runner:
        update = await asked(hub)
        for report in (
            UpdateReport(update.id, "running", "fetch", "12 of 40 MB"),
            UpdateReport(update.id, "running", "verify"),
            UpdateReport(update.id, "failed", "verify", "the signature is of another key"),
            UpdateReport(update.id, "failed", "verify", "the signature is of another key"),
            UpdateReport(update.id, "running", "fetch"),
            UpdateReport(update.id, "done"),
            UpdateReport(ids.new("upd"), "done", "", "an update that nobody knows any more"),
        ):
            await runner.send(report)
        await taken(runner)
        assert await stored(hub, update) == ("failed", "verify", "the signature is of another key")


async def test_a_report_about_a_withdrawn_update_changes_nothing(hub: Hub) -> None:
    async with hub.runner(is_self_updating=True) as runner:
        update = await asked(hub)
        await hub.server.db.write(lambda tx: store.withdraw(tx, update.job_id))
        await runner.send(UpdateReport(update.id, "done"))
        await taken(runner)
        assert (await stored(hub, update))[0] == "withdrawn"


async def test_what_a_report_says_is_shortened_to_one_line_that_can_be_shown(hub: Hub) -> None:
    async with hub.runner(is_self_updating=True) as runner:
        update = await asked(hub)
        await runner.send(
            UpdateReport(update.id, "running", "fetch\n\x1b[2J" + "s" * 900, "a\0b\r\n\u202ec" + "w" * 9_000)
        )
        await taken(runner)
        status, step, words = await stored(hub, update)
        assert (status, step[:6], words[:5]) == ("running", "fetch ", "a\ufffdb c")
        assert len(step) <= 40
        assert len(words) <= 1_000
        assert (step + words).isprintable()


@on_one
@pytest.mark.parametrize("update_id", ["", "x" * 100_000, "upd_\0", "fjb_" + "0" * 32, "' OR 1=1 --"])
async def test_a_report_without_the_id_of_an_update_is_refused(hub: Hub, update_id: str) -> None:
    async with hub.runner(is_self_updating=True) as runner:
        await runner.send(UpdateReport(update_id, "done"))
        assert await refusal(runner) == ("invalid", True)


@on_one
async def test_an_update_is_asked_for_on_each_connection_once_also_if_a_wake_up_was_lost(hub: Hub) -> None:
    release = new_release("0.2.0", artifacts=[wheel("0.2.0")])
    await hub.server.db.write(lambda tx: releases.insert(tx, release))
    notifier = HubNotifier(hub.server.hub.runners)
    async with hub.runner(is_self_updating=True) as runner:
        update = await asked(hub)
        await notifier.sweep()
        await notifier.sweep()
        await notifier.step({("updates", UpdateKey(update.job_id, update.instance_id).encode())})
        await runner.send(UpdateReport(update.id, "running", "fetch"))
        await runner.send(PING)
        assert [(await runner.get())["type"] for _ in range(2)] == ["update", "settled"], "it is sent once"
    async with hub.runner(is_self_updating=False) as runner:
        await taken(runner)  # which fails if anything else is sent before
    async with hub.runner(is_self_updating=True) as runner:
        found = await runner.get()
        assert (found["type"], found["update_id"], found["version"]) == ("update", update.id, "0.2.0")
        await runner.send(UpdateReport(update.id, "done"))
        await taken(runner)
    async with hub.runner(is_self_updating=True) as runner:
        await taken(runner)  # it has ended


async def test_a_report_about_the_update_of_another_instance_is_refused(hub: Hub) -> None:
    await change_runners(hub.crew.rows.db, hub.runner_id, allow_multiple_instances=True)
    async with hub.runner(is_self_updating=True):
        update = await asked(hub)
        async with hub.runner(instance="two", instance_key="o" * 32, is_self_updating=True) as other:
            await other.send(UpdateReport(update.id, "done"))
            assert await refusal(other) == ("invalid", True)
        assert (await stored(hub, update))[0] == "asked"
