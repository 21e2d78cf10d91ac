"""A runner says what the start of an attempt waits for, and the job says it to people until the executor is there."""

import asyncio
from typing import Any

import pytest

from terracrew.protocol import messages
from terracrew.protocol.messages import AttemptRef, WaitingStart
from terracrew.testing.deliveries import RUNNING, delivery
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


async def test_the_welcome_says_that_starts_are_read(hub: Hub) -> None:
    async with hub.connected(await hub.token()) as client:
        assert (await client.ask(hub.hello()))["reads_starting"] is True
