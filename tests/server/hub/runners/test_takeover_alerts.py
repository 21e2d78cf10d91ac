"""An instance that is taken over or moves raises an alert, which people see and acknowledge; repetitions make no flood."""

from typing import Any

import pytest

from terracrew.api.runners import AlertKind, RunnerAlert
from terracrew.server.hub.runners import takeover
from terracrew.server.runners.alerts import raising, store
from terracrew.server.runners.alerts.store import Occurrence
from tests.builders.job_rows import change_instances
from tests.server.hub.hub_clients import Hub

pytestmark = pytest.mark.feature("R4.takeover", "X3.audit")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody answers in these tests, except where one says so."""
    monkeypatch.setattr(takeover, "ANSWER_TIMEOUT_SECONDS", 0.1)


async def alerts(hub: Hub) -> list[RunnerAlert]:
    return await hub.server.db.read(lambda tx: store.shown(tx, hub.runner_id, 100))


async def entries(hub: Hub, action: str) -> int:
    return await hub.crew.app.scalar("SELECT count(*) FROM audit WHERE action = :action", action=action)


async def come(hub: Hub, **hello: Any) -> None:
    """Connect as an instance, and go."""
    before = hub.server.registry.of_runner
    async with hub.runner(**hello):
        pass
    await hub.until(lambda: not before.get(hub.runner_id))


async def set_address(hub: Hub, address: str) -> None:
    """Pretend that the last process came from another address."""
    await change_instances(hub.server.db, address=address)


async def disconnected(hub: Hub) -> None:
    await change_instances(hub.server.db, is_connected=False)


async def test_a_process_that_takes_a_connected_instance_from_another_address_raises_an_urgent_alert(hub: Hub) -> None:
    async with hub.runner():
        await set_address(hub, "192.0.2.1")
        async with hub.connected(await hub.token()) as thief:
            assert (await thief.ask(hub.hello()))["type"] == "welcome"
    [alert] = await alerts(hub)
    assert (alert.kind, alert.is_urgent, alert.instance) == (AlertKind.TAKEN_OVER, True, "one")
    assert (alert.address, alert.former_address) == ("127.0.0.1", "192.0.2.1")
    assert alert.former_at is not None
    assert alert.former_at <= alert.last_at
    shown = (await hub.crew.app.admin.get(f"/api/v1/runners/{hub.runner_id}")).json()
    assert shown["alerts"] == 1


async def test_a_restart_from_another_address_is_shown_as_a_move_and_one_from_the_same_address_is_nothing(
    hub: Hub,
) -> None:
    await come(hub)
    await disconnected(hub)
    await come(hub)
    assert await alerts(hub) == []
    await disconnected(hub)
    await set_address(hub, "192.0.2.1")
    await come(hub)
    [alert] = await alerts(hub)
    assert (alert.kind, alert.is_urgent, alert.former_address) == (AlertKind.MOVED, False, "192.0.2.1")
    assert await entries(hub, "runner.move") == 1
    assert (await hub.crew.app.admin.get(f"/api/v1/runners/{hub.runner_id}")).json()["alerts"] == 0


async def test_the_same_address_with_another_machine_is_a_move_and_a_machine_without_an_id_is_not(hub: Hub) -> None:
    await come(hub, machine="a" * 32)
    await disconnected(hub)
    await come(hub)
    await disconnected(hub)
    await come(hub, machine="a" * 32)
    await disconnected(hub)
    assert await alerts(hub) == []
    await come(hub, machine="b" * 32)
    [alert] = await alerts(hub)
    assert (alert.kind, alert.is_other_machine) == (AlertKind.MOVED, True)


async def test_the_process_itself_that_reconnects_from_another_network_has_moved_and_was_not_taken_over(
    hub: Hub,
) -> None:
    async with hub.connected(await hub.token()) as first, hub.connected(await hub.token()) as again:
        welcome = await first.ask(hub.hello())
        await set_address(hub, "192.0.2.1")
        assert (await again.ask(hub.hello(resume=welcome["resume"])))["type"] == "welcome"
    assert [each.kind for each in await alerts(hub)] == [AlertKind.MOVED]


async def test_an_instance_that_flaps_has_one_alert_that_counts_and_one_entry_in_the_audit_log(hub: Hub) -> None:
    for number in range(5):
        await disconnected(hub)
        await set_address(hub, f"192.0.2.{number}")
        await come(hub)
    [alert] = await alerts(hub)
    assert (alert.count, alert.former_address) == (4, "192.0.2.4")
    assert await entries(hub, "runner.move") == 1


async def test_an_alert_that_repeats_is_audited_again_after_an_hour(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raising, "AUDIT_SECONDS", -1.0)
    await come(hub)
    for _ in range(2):
        await disconnected(hub)
        await set_address(hub, "192.0.2.1")
        await come(hub)
    assert await entries(hub, "runner.move") == 2
    assert len(await alerts(hub)) == 1


async def test_a_process_that_invents_names_raises_a_bounded_number_of_alerts(hub: Hub) -> None:
    who = hub.crew.app.admin.principal
    runner = raising.AlertedRunner(hub.runner_id, "crew", None)
    for number in range(raising.MAX_OPEN_PER_RUNNER + 20):
        what = Occurrence(AlertKind.REFUSED, f"name-{number}", "192.0.2.1")
        await hub.server.db.write(lambda tx, what=what: raising.occurred(tx, who, runner, what, {}))
    found = await alerts(hub)
    assert len(found) == raising.MAX_OPEN_PER_RUNNER + 1
    assert {each.count for each in found if not each.instance} == {20}


async def test_acknowledged_alerts_end_and_what_happens_later_is_a_new_one(hub: Hub) -> None:
    admin, path = hub.crew.app.admin, f"/api/v1/runners/{hub.runner_id}/alerts"
    who = admin.principal
    runner = raising.AlertedRunner(hub.runner_id, "crew", None)

    async def refused(name: str) -> None:
        what = Occurrence(AlertKind.REFUSED, name, "192.0.2.1")
        await hub.server.db.write(lambda tx: raising.occurred(tx, who, runner, what, {}))

    await refused("seen")
    [seen] = (await admin.get(path)).json()["items"]
    await refused("unseen")
    answer = await admin.post(f"{path}/acknowledge", json={"until": seen["last_at"]})
    assert [each["instance"] for each in answer.json()["items"]] == ["unseen"]
    assert (await admin.post(f"{path}/acknowledge", json={})).json()["items"] == []
    await refused("seen")
    assert [each["count"] for each in (await admin.get(path)).json()["items"]] == [1]
    assert await entries(hub, "runner.acknowledge") == 2


async def test_a_machine_that_is_not_a_short_printable_text_is_refused(hub: Hub) -> None:
    for wrong in ("x" * 101, "a\nb", "\x00"):
        async with hub.connected(await hub.token()) as client:
            assert (await client.ask(hub.hello(machine=wrong)))["code"] == "invalid"
