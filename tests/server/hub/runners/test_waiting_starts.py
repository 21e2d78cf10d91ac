"""A runner says what the start of an attempt waits for, and the job says it to people until the executor is there."""

import asyncio
import time
from typing import Any

import pytest

from terracrew.protocol import messages
from terracrew.protocol.dispatcher_choice import NO_CHOICE
from terracrew.protocol.messages import AttemptRef, WaitingStart
from tests.builders.deliveries import RUNNING, delivery
from tests.server.hub.hub_clients import TIMEOUT_SECONDS, Hub, ref_of

PULLING = "Pulling the image executor:1: 12 of 80 MiB in 3 layers"


def waiting(ref: AttemptRef, reason: str) -> messages.Heartbeat:
    return messages.Heartbeat("0.1.0", False, [ref], starting=[WaitingStart(ref.job_id, ref.attempt, reason)])


async def shown(hub: Hub, job_id: str) -> Any:
    return (await hub.crew.app.admin.get(f"/api/v1/jobs/{job_id}")).json()


async def reason(hub: Hub, job_id: str) -> str:
    found = (await shown(hub, job_id))["reason"]
    return found["text"] if found else ""


async def until_reason(hub: Hub, job_id: str, words: str) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while words not in await reason(hub, job_id):
            await asyncio.sleep(0.01)


@pytest.mark.feature("S6.words", "D6.watched")
async def test_a_job_says_what_its_start_waits_for_until_its_executor_is_there(hub: Hub) -> None:
    async with hub.runner() as runner:
        granted = await runner.granted(await hub.job())
        ref = ref_of(granted)
        await runner.send(waiting(ref, f"{PULLING}\x1b[2J" + "x" * 9999))
        await until_reason(hub, ref.job_id, PULLING)
        said = await reason(hub, ref.job_id)
        assert "\x1b" not in said
        assert len(said) < 600
        await runner.send(waiting(ref, "no node has 8 GiB of free memory"))
        await until_reason(hub, ref.job_id, "no node has 8 GiB")
        async with hub.executor(granted):
            await hub.crew.rows.take(delivery(ref, 1, RUNNING))
            await runner.send(waiting(ref, "this comes too late"))
            await runner.send(messages.Heartbeat("9.9.9", False, [ref]))
            await hub.until(lambda: hub.session().version == "9.9.9")
            found = await shown(hub, ref.job_id)
            assert (found["status"], found["attempts"][0]["reason"]) == ("PROCESSING", "")


@pytest.mark.feature("S6.words", "D6.watched")
async def test_a_reason_that_ended_while_the_runner_was_away_is_not_shown_any_more(hub: Hub) -> None:
    """The new connection did not know what the old one had said, so the job waited for an image that was there."""
    async with hub.runner() as runner:
        ref = ref_of(await runner.granted(await hub.job()))
        await runner.send(waiting(ref, PULLING))
        await until_reason(hub, ref.job_id, PULLING)
    await hub.until(lambda: not hub.server.registry.runners)
    async with hub.runner(attempts=[ref]) as runner:
        assert hub.session().starting == {ref: PULLING}
        await runner.send(messages.Heartbeat("9.9.9", False, [ref]))
        await hub.until(lambda: hub.session().version == "9.9.9")
        assert PULLING not in await reason(hub, ref.job_id)


UNREACHABLE = "its executor runs, but has not connected: can it reach http://wrong:1?"


def running(ref: AttemptRef, seconds: float, version: str = "0.1.0") -> messages.Heartbeat:
    start = WaitingStart(ref.job_id, ref.attempt, UNREACHABLE, seconds)
    return messages.Heartbeat(version, False, [ref], starting=[start])


@pytest.mark.feature("S6.words", "D6.watched")
async def test_a_job_whose_executor_never_connects_says_so_and_is_queued_again(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Symptom: with a wrong address of the server in its containers, a job was CLAIMED for ever, «a runner has it and is starting it»."""
    monkeypatch.setattr(type(hub.server.registry), "watched_for", 3600.0)
    async with hub.runner() as runner:
        ref = ref_of(await runner.granted(await hub.job()))
        await runner.send(running(ref, 599))
        await until_reason(hub, ref.job_id, "can it reach http://wrong:1?")
        assert (await shown(hub, ref.job_id))["status"] == "CLAIMED"
        await runner.send(running(ref, 600))
        assert await runner.get("cancel") == {
            "type": "cancel",
            "job_id": ref.job_id,
            "attempt": ref.attempt,
            "mode": "kill",
        }
        [ended, *_] = (await shown(hub, ref.job_id))["attempts"]
        assert (ended["outcome"], ended["reason"]) == (
            "lost",
            f"its executor did not connect within 10 minutes: {UNREACHABLE}",
        )


@pytest.mark.feature("D6.watched")
async def test_an_executor_that_connected_keeps_its_job_and_a_restarted_server_waits_again(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hub.runner() as runner:
        granted = await runner.granted(await hub.job())
        ref = ref_of(granted)
        await runner.send(running(ref, 9999, "9.9.1"))
        await hub.until(lambda: hub.session().version == "9.9.1")
        assert (await shown(hub, ref.job_id))["status"] == "CLAIMED", "the server has just started"
        await hub.crew.rows.take(delivery(ref, 1, RUNNING))  # another server has its executor
        monkeypatch.setattr(type(hub.server.registry), "watched_for", 3600.0)
        await runner.send(running(ref, 9999, "9.9.2"))
        await hub.until(lambda: hub.session().version == "9.9.2")
        assert (await shown(hub, ref.job_id))["status"] == "PROCESSING"
        assert hub.session().judged_starts == {ref}, "it is not asked again with each heartbeat"


@pytest.mark.feature("S3.offers", "D6.watched")
async def test_a_job_that_a_runner_could_not_start_is_not_given_to_it_again_at_once(hub: Hub) -> None:
    async with hub.runner() as runner:
        granted = await runner.granted(first := await hub.job())
        back = messages.HandBack(first, 1, "its image was deleted", 600.0, granted.spec.choice, 0.0)
        await runner.send(back)
        await runner.get("settled")
        second = await hub.job()
        await runner.send_credits(1, received=1)
        await hub.server.scheduler.sweep()
        assert (await runner.get("granted"))["spec"]["job_id"] == second
        assert hub.session().pauses.has(first, time.monotonic())
        assert "a runner could not start it, as its last attempt says" in await reason(hub, first)
        await runner.send(messages.HandBack(second, 1, "it does not know this attempt", 0.0, granted.spec.choice, 60.0))
        await runner.get("settled")
        assert hub.session().pauses.has(NO_CHOICE, time.monotonic())
