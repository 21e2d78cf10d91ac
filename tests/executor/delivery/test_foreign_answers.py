"""Answers that are not our server's: a proxy's 413, an ingress's 404, a firewall's 403, a login page with status 200."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from terracrew.attempt.encryption import AttemptCipher
from terracrew.attempt.exit_codes import DELIVERED, UNDELIVERED
from terracrew.attempt.record import AttemptRecord
from terracrew.client import hub as hub_client
from terracrew.errors import ForeignAnswer
from terracrew.executor.delivery.delivery import AttemptDelivery
from terracrew.executor.state.states import States
from terracrew.protocol.events import Result, Stream
from terracrew.protocol.spec import Step
from terracrew.protocol.start import LogStreamSettings
from terracrew.protocol.transfers import PART_BYTES
from terracrew.testing.fake_executor_hub import HUB, KEY, FakeExecutorHub

LARGE = b'{"version": 4, "serial": 1, "lineage": "l", "padding": "' + b"x" * (3 * PART_BYTES) + b'"}'


@pytest.fixture
async def delivery(hub: FakeExecutorHub, tmp_path: Path) -> AsyncIterator[AttemptDelivery]:
    delivery = AttemptDelivery(
        tmp_path, AttemptRecord("job_1", 1, hub.url, HUB, []), LogStreamSettings(period_seconds=0.1)
    )
    shipping = asyncio.create_task(delivery.shipper.run())
    yield delivery
    shipping.cancel()
    await asyncio.gather(shipping, return_exceptions=True)


async def write_state(delivery: AttemptDelivery) -> None:
    states = States(delivery.large_states, delivery.recorder, AttemptCipher(KEY, "job_1", 1), engine="tofu")
    states.is_writable = True
    delivery.recorder.step = Step.APPLY
    await states.write(LARGE)


@pytest.mark.feature("J15.kept")
async def test_a_large_state_goes_in_parts_that_a_proxy_accepts_by_default(
    hub: FakeExecutorHub, delivery: AttemptDelivery
) -> None:
    await write_state(delivery)
    assert await asyncio.wait_for(delivery.finish(), 30) == DELIVERED
    assert hub.states[0][2] == LARGE
    assert hub.largest_put < 1 << 20
    [(_, parts)] = hub.staged.values()
    assert len(parts) == 4


@pytest.mark.feature("J15.kept", "O1.continues")
@pytest.mark.parametrize("status", [200, 302, 401, 403, 404, 405, 409, 413, 426, 500, 502])
async def test_an_upload_that_something_else_answers_is_tried_until_it_arrives(
    hub: FakeExecutorHub, delivery: AttemptDelivery, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    """A proxy's 413 was taken for the server's own refusal: the executor gave up, and the apply was made again five times."""
    refusals = 3

    def answer(method: str, name: str, _: int) -> int | None:
        nonlocal refusals
        if method == "PUT" and name.startswith("uploads/") and refusals:
            refusals -= 1
            return status
        return None

    hub.foreign = answer
    await write_state(delivery)
    assert await asyncio.wait_for(delivery.finish(), 30) == DELIVERED
    assert delivery.control.refused is None
    assert hub.states[0][2] == LARGE
    said = [record.getMessage() for record in caplog.records if "is tried again" in record.getMessage()]
    assert len(said) == 1, "the problem is reported once, not each time"
    assert f"the upload of states/1 (2.4 MB) does not succeed and is tried again: PUT {hub.url}" in said[0]
    assert f"answered {status}" in said[0]
    assert hub.log(Stream.SYSTEM).decode().count("does not succeed and is tried again") == 1


async def test_nothing_is_added_to_the_log_after_the_result(hub: FakeExecutorHub, delivery: AttemptDelivery) -> None:
    refusals = [413, 413]
    hub.foreign = lambda _method, name, _size: refusals.pop() if name == "uploads" and refusals else None
    await write_state(delivery)
    delivery.recorder.fact(Result("SUCCEEDED", ""))
    assert await asyncio.wait_for(delivery.finish(), 30) == DELIVERED
    assert isinstance(hub.facts[-1], Result)
    assert hub.mark == 2


async def test_a_refusal_with_our_own_code_is_final(hub: FakeExecutorHub, delivery: AttemptDelivery) -> None:
    hub.own_refusal = "conflict"
    await write_state(delivery)
    assert await asyncio.wait_for(delivery.finish(), 30) == UNDELIVERED
    assert delivery.control.refused == "refused with conflict"


@pytest.mark.feature("O1.reconnect")
@pytest.mark.parametrize("status", [200, 401, 403, 404, 426, 502])
async def test_a_handshake_that_something_else_answers_is_tried_again(
    hub: FakeExecutorHub, tmp_path: Path, status: int
) -> None:
    """A firewall's 403 in the handshake ended the executor in the middle of its apply."""
    refusals = [status]
    hub.foreign = lambda _method, _name, _size: refusals.pop() if refusals else None
    with pytest.raises(ForeignAnswer, match=f"answered {status}"):
        await hub_client.connect(hub.url, HUB)
    refusals = [status]
    delivery = AttemptDelivery(
        tmp_path, AttemptRecord("job_1", 1, hub.url, HUB, []), LogStreamSettings(period_seconds=0.1)
    )
    shipping = asyncio.create_task(delivery.shipper.run())
    delivery.recorder.say("hello")
    assert await asyncio.wait_for(delivery.finish(), 30) == DELIVERED
    assert b"The connection to the runner hub does not succeed" in hub.log(Stream.SYSTEM)
    shipping.cancel()
    await asyncio.gather(shipping, return_exceptions=True)
