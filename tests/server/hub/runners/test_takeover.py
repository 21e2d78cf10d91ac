"""An instance has one process: one that returns replaces itself at once, and a stranger replaces only one that does not answer."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from terracrew.protocol import messages
from terracrew.server.hub.notify import HubNotifier
from terracrew.server.hub.presence import Presence
from terracrew.server.hub.runners import takeover
from tests.builders.job_rows import change_instances, change_runners
from tests.server.hub.hub_clients import TIMEOUT_SECONDS, Client, Hub

STRANGER: dict[str, Any] = {"instance_key": "s" * 32}
SECOND: dict[str, Any] = {"instance": "two", "instance_key": "s" * 32}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that lives answers sooner or later, also on a busy machine. Where none answers, tests set a short time."""
    monkeypatch.setattr(takeover, "ANSWER_TIMEOUT_SECONDS", 600.0)


@pytest.fixture
async def notify(hub: Hub) -> AsyncIterator[None]:
    running = asyncio.create_task(HubNotifier(hub.server.hub.runners).run())
    yield
    running.cancel()


async def come(hub: Hub, client: Client, hello: dict[str, Any]) -> dict[str, Any]:
    return await client.ask(hub.hello(**hello))


@pytest.mark.feature("R4.one")
@pytest.mark.usefixtures("notify")
@pytest.mark.parametrize("hello", [STRANGER, SECOND])
async def test_a_stranger_is_refused_when_the_first_has_answered_and_the_first_is_undisturbed(
    hub: Hub, hello: dict[str, Any]
) -> None:
    async with hub.runner() as first, hub.connected(await hub.token()) as stranger:
        before = hub.session()
        async with first.living():
            refused = await come(hub, stranger, hello)
        assert (refused["type"], refused["code"], refused["is_final"]) == ("refused", "conflict", True)
        assert "one process, and one is connected" in refused["message"]
        assert hub.session() is before
        await first.granted(await hub.job())


@pytest.mark.feature("R4.takeover")
@pytest.mark.usefixtures("notify")
@pytest.mark.parametrize("hello", [STRANGER, SECOND])
async def test_a_stranger_gets_the_place_of_one_that_does_not_answer(
    hub: Hub, hello: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was refused for a minute, though nobody was there."""
    monkeypatch.setattr(takeover, "ANSWER_TIMEOUT_SECONDS", 0.3)
    async with hub.runner() as first, hub.connected(await hub.token()) as stranger:
        assert (await come(hub, stranger, hello))["type"] == "welcome"
        ended = await first.get("refused")
        assert (ended["code"] in ("superseded", "unavailable"), ended["is_final"]) == (True, False)
        assert hub.session().name == hello.get("instance", "one")
        connected = "SELECT count(*) FROM instances WHERE is_connected AND runner_id = :id"
        assert await hub.crew.app.scalar(connected, id=hub.runner_id) == 1
        await stranger.granted(await hub.job())


@pytest.mark.feature("R4.takeover")
async def test_the_process_that_was_welcomed_takes_its_place_again_without_a_wait(hub: Hub) -> None:
    async with hub.connected(await hub.token()) as first, hub.connected(await hub.token()) as again:
        welcome = await come(hub, first, {})
        assert (await come(hub, again, {"resume": welcome["resume"]}))["type"] == "welcome"


@pytest.mark.feature("R4.one")
@pytest.mark.usefixtures("notify")
@pytest.mark.parametrize("hello", [{}, {"instance": "renamed"}, {"resume": "f" * 64}])
async def test_the_key_of_a_working_directory_does_not_displace_a_connection_that_answers(
    hub: Hub, hello: dict[str, Any]
) -> None:
    """A client with the key and the token of a runner took the place of the living one in 2 ms, and its jobs."""
    async with hub.runner() as first, hub.connected(await hub.token()) as thief:
        before = hub.session()
        async with first.living():
            refused = await come(hub, thief, hello)
        assert (refused["type"], refused["code"], refused["is_final"]) == ("refused", "unavailable", False), refused
        assert "answers; try again when it has ended" in refused["message"]
        assert hub.session() is before
        await first.granted(await hub.job())
    noted = "SELECT count(*) FROM audit WHERE action = 'runner.takeover_refused' AND target_id = :id"
    assert await hub.crew.app.scalar(noted, id=hub.runner_id) == 1


@pytest.mark.feature("R4.takeover")
@pytest.mark.usefixtures("notify")
@pytest.mark.parametrize("hello", [{}, {"instance": "renamed"}])
async def test_a_restarted_process_gets_the_place_of_its_predecessor_that_does_not_answer(
    hub: Hub, hello: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash of the machine the server still has the old connection, and hears nothing on it."""
    monkeypatch.setattr(takeover, "ANSWER_TIMEOUT_SECONDS", 0.3)
    async with hub.runner(), hub.connected(await hub.token()) as again:
        hub.server.registry.pause()  # also where the server itself has just been away
        assert (await come(hub, again, hello))["type"] == "welcome"


@pytest.mark.feature("R4.takeover")
@pytest.mark.usefixtures("notify")
async def test_a_process_that_is_restarted_at_once_does_not_wait_for_its_predecessor(hub: Hub) -> None:
    """The connection of a process that was killed is closed by the kernel, before or while the new one is at the door."""
    async with hub.runner() as first, hub.connected(await hub.token()) as again:
        coming = asyncio.create_task(come(hub, again, {}))
        await first.get("configure")
        await first.connection.close()
        async with asyncio.timeout(TIMEOUT_SECONDS):
            assert (await coming)["type"] == "welcome"


@pytest.mark.feature("R4.names")
@pytest.mark.usefixtures("notify")
async def test_one_name_of_a_record_for_many_belongs_to_one_process_and_other_names_are_free(hub: Hub) -> None:
    await change_runners(hub.server.db, allow_multiple_instances=True)
    async with hub.runner() as first, hub.connected(await hub.token()) as stranger, first.living():
        assert "named one of crew is already connected" in (await come(hub, stranger, STRANGER))["message"]
        async with hub.connected(await hub.token()) as second:
            assert (await come(hub, second, SECOND))["type"] == "welcome"


@pytest.mark.feature("R4.takeover")
async def test_a_question_whose_wake_up_was_lost_is_asked_all_the_same(hub: Hub) -> None:
    async with hub.runner() as first, hub.connected(await hub.token()) as stranger:
        coming = asyncio.create_task(come(hub, stranger, STRANGER))
        presence = Presence(hub.server.hub.runners)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not hub.session().is_asked:
                await presence.step()
                await asyncio.sleep(0.01)
        await first.get("configure")
        await first.send(messages.Heartbeat("0.1.0", is_draining=False, attempts=[]))
        assert (await coming)["code"] == "conflict"


@pytest.mark.usefixtures("notify")
@pytest.mark.feature("O6.blameless", "R4.takeover")
async def test_after_a_gap_a_stranger_does_not_get_the_place_of_one_that_may_be_on_its_way_back(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(takeover, "ANSWER_TIMEOUT_SECONDS", 0.1)
    async with hub.runner(), hub.connected(await hub.token()) as stranger:
        hub.server.registry.pause()
        refused = await come(hub, stranger, STRANGER)
        assert (refused["code"], refused["is_final"]) == ("unavailable", False), refused
        monkeypatch.setattr(hub.server.registry, "now", lambda: time.monotonic() + 61)
        async with hub.connected(await hub.token()) as later:
            assert (await come(hub, later, STRANGER))["type"] == "welcome"


@pytest.mark.feature("R4.one")
@pytest.mark.usefixtures("notify")
async def test_of_processes_that_come_at_once_one_is_welcome(hub: Hub) -> None:
    answers: list[str] = []
    all_have_come = asyncio.Event()

    async def process(number: int) -> None:
        async with hub.connected(await hub.token()) as client:
            hello = {"instance": f"process-{number}", "instance_key": f"{number}" * 32}
            answers.append((await come(hub, client, hello))["type"])
            if len(answers) == 6:
                all_have_come.set()
            if answers[-1] == "welcome":
                async with client.living():
                    await all_have_come.wait()

    await asyncio.gather(*map(process, range(6)))
    assert sorted(answers) == ["refused"] * 5 + ["welcome"]


# ---- traces of a takeover


async def takeovers(hub: Hub) -> list[dict[str, Any]]:
    rows = await hub.server.db.read(
        lambda tx: tx.all("SELECT * FROM audit WHERE action = 'runner.takeover' ORDER BY id")
    )
    return [{**row, "details": msgspec.json.decode(row["details"])} for row in rows]


@pytest.mark.feature("X3.audit")
async def test_a_stranger_that_takes_a_place_is_written_down(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takeover, "ANSWER_TIMEOUT_SECONDS", 0.2)
    async with hub.runner(), hub.connected(await hub.token()) as stranger:
        assert (await stranger.ask(hub.hello(instance_key="s" * 32)))["type"] == "welcome"
    [entry] = await takeovers(hub)
    assert (entry["actor_kind"], entry["target_id"], entry["address"]) == ("runner", hub.runner_id, "127.0.0.1")
    assert entry["details"]["replaced"] == "one"


@pytest.mark.feature("X3.audit")
async def test_who_has_the_key_and_comes_from_elsewhere_is_written_down_and_a_reconnection_is_not(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(takeover, "ANSWER_TIMEOUT_SECONDS", 0.2)
    async with hub.runner(), hub.connected(await hub.token()) as again:
        assert (await again.ask(hub.hello()))["type"] == "welcome"
    assert await takeovers(hub) == []
    async with hub.runner():
        await change_instances(hub.server.db, address="192.0.2.1")
        async with hub.connected(await hub.token()) as thief:
            assert (await thief.ask(hub.hello()))["type"] == "welcome"
    [entry] = await takeovers(hub)
    assert (entry["address"], entry["details"]["from"]) == ("127.0.0.1", "192.0.2.1")
