"""What is in the outbox reaches its receivers: at least once, again after failures, and without waiting for slow ones."""

import asyncio
import base64
import hashlib
import hmac
from datetime import datetime
from typing import Any

import pytest

from terracrew.server.notifications import sending
from terracrew.server.notifications.model import Outbound, SendResult
from terracrew.server.notifications.senders import Senders
from tests.builders.clock import ShiftedClock
from tests.machine import receiver as receivers
from tests.machine.receiver import Received, Receiver
from tests.server.application import Application
from tests.server.notifications.telling import CHANNELS, Telling

pytestmark = pytest.mark.feature("M3.delivery")


def is_signed(secret: str, received: Received) -> bool:
    """Check a signature as a receiver does, from the specification alone."""
    headers = received.headers
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + received.body
    expected = hmac.new(base64.b64decode(secret.split("_", 1)[1]), signed, hashlib.sha256).digest()
    return headers["webhook-signature"] == "v1," + base64.b64encode(expected).decode()


@pytest.mark.feature("M3.webhook")
async def test_a_webhook_gets_a_signed_message(telling: Telling, receiver: Receiver) -> None:
    channel = await telling.webhook(receiver)
    await telling.announce(text="Error: no such region", facts={"Failure": "time_limit"})
    await telling.sending.step()
    [got] = receiver.received
    assert channel["secret"].startswith("whsec_")
    assert is_signed(channel["secret"], got)
    assert not is_signed("whsec_" + base64.b64encode(bytes(32)).decode(), got)
    assert got.target == "/secret-path"
    assert got.json["type"] == "job_failed"
    assert datetime.fromisoformat(got.json["timestamp"])
    assert got.json["data"] == {
        "organization_id": telling.server.organization_id,
        "place": "",
        "subject_id": "job_1",
        "title": "Job #1 failed",
        "text": "Error: no such region",
        "url": "https://crew.example/dashboard/jobs/job_1",
        "facts": {"Failure": "time_limit"},
    }
    found = await telling.delivery()
    assert (found["status"], found["tries"], found["answer_status"], found["error"]) == ("DELIVERED", 1, 200, "")
    await telling.sending.step()
    assert len(receiver.received) == 1, "it is delivered once if nothing goes wrong"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (500, "the receiver answered 500"),
        (404, "the receiver answered 404"),
        (302, "the receiver answered 302: redirects are not followed, so enter the address that it leads to"),
    ],
)
async def test_a_refused_message_is_tried_again_until_it_is_taken(
    telling: Telling, receiver: Receiver, clock: ShiftedClock, status: int, error: str
) -> None:
    await telling.webhook(receiver)
    receiver.status, receiver.body, receiver.headers = status, b"internal page", {"Location": "http://10.0.0.1/"}
    await telling.announce()
    wait = await telling.sending.step()
    found = await telling.delivery()
    assert (found["status"], found["answer_status"], found["error"]) == ("WAITING", status, error)
    assert 4 < wait <= 15.5, "the first retry comes after about ten seconds"
    await telling.sending.step()
    assert len(receiver.received) == 1
    receiver.status, receiver.headers = 204, {}
    receiver.body = b""
    clock.advance(16)
    await telling.sending.step()
    found = await telling.delivery()
    assert (found["status"], found["tries"], found["error"]) == ("DELIVERED", 2, "")
    first, second = receiver.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"], "so that a receiver can tell a repetition"


async def test_a_message_is_given_up_after_a_day_and_can_be_sent_again(
    telling: Telling, receiver: Receiver, clock: ShiftedClock
) -> None:
    await telling.webhook(receiver)
    receiver.status = 503
    await telling.announce()
    await telling.sending.step()
    clock.advance(24 * 3600)
    await telling.sending.step()
    found = await telling.delivery()
    assert (found["status"], found["next_at"]) == ("GIVEN_UP", None)
    await telling.sending.step()
    assert len(receiver.received) == 2
    receiver.status = 200
    path = f"{CHANNELS}/ops/deliveries/{found['notification_id']}/send-again"
    again = (await telling.application.admin.post(path)).json()
    assert (again["status"], again["tries"]) == ("WAITING", 0)
    await telling.sending.step()
    assert (await telling.delivery())["status"] == "DELIVERED"
    assert len(receiver.received) == 3


async def test_a_receiver_that_is_gone_is_not_asked_again(telling: Telling, receiver: Receiver) -> None:
    await telling.webhook(receiver)
    receiver.status = 410
    await telling.announce()
    await telling.sending.step()
    found = await telling.delivery()
    assert (found["status"], found["error"]) == ("GIVEN_UP", "the receiver answered 410: it wants no more messages")


async def test_a_receiver_may_ask_to_wait_longer(telling: Telling, receiver: Receiver) -> None:
    await telling.webhook(receiver)
    receiver.status, receiver.headers = 429, {"Retry-After": "600"}
    await telling.announce()
    await telling.sending.step()
    found = await telling.delivery()
    wait = datetime.fromisoformat(found["next_at"]) - datetime.fromisoformat(found["created_at"])
    assert 600 <= wait.total_seconds() < 620


async def test_a_server_that_is_killed_between_sending_and_marking_sends_again(
    telling: Telling, receiver: Receiver, clock: ShiftedClock
) -> None:
    await telling.webhook(receiver)
    await telling.announce()

    class Killed(Senders):
        async def send(self, outbound: Outbound) -> SendResult:
            await telling.server.senders.send(outbound)
            raise asyncio.CancelledError

    senders = Killed(telling.server.outgoing, telling.server.senders.mailer)
    await sending.Sending(telling.server.db, telling.server.keys, senders, "https://crew.example").step()
    assert len(receiver.received) == 1
    found = await telling.delivery()
    assert (found["status"], found["tries"]) == ("WAITING", 1)
    other = telling.another_server()
    await other.step()
    assert len(receiver.received) == 1, "the killed server holds the row for a while"
    clock.advance(sending.HOLD_SECONDS + 1)
    await other.step()
    assert len(receiver.received) == 2
    assert (await telling.delivery())["status"] == "DELIVERED"


async def test_two_servers_never_send_the_same_message_at_once(telling: Telling, receiver: Receiver) -> None:
    await telling.webhook(receiver)
    for number in range(10):
        await telling.announce(f"Job #{number} failed", subject=f"job_{number}")
    servers = [telling.another_server() for _ in range(4)]
    for _ in range(12):
        await asyncio.gather(*(each.step() for each in servers))
    titles = [each.json["data"]["title"] for each in receiver.received]
    assert titles == [f"Job #{number} failed" for number in range(10)], "once each, and in their order"


async def test_a_receiver_that_hangs_holds_up_no_other_one(
    telling: Telling, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "MAX_SENDING", 2)
    async with receivers.running() as slow:
        slow.open.clear()
        await telling.webhook(slow, name="slow")
        await telling.webhook(receiver)
        running = asyncio.create_task(telling.sending.run())
        try:
            for number in range(5):
                await telling.announce(f"Job #{number} failed")
            await asyncio.wait_for(slow.is_asked.wait(), 5)
            async with asyncio.timeout(5):
                while len(receiver.received) < 5:
                    receiver.is_asked.clear()
                    await receiver.is_asked.wait()
            assert len(slow.received) == 1
            held = [each for each in await telling.deliveries("slow") if each["sending_until"]]
            assert len(held) == 1
            path = f"{CHANNELS}/slow/deliveries/{held[0]['notification_id']}/send-again"
            words = await telling.application.admin.refused("POST", path, 409)
            assert words == "the message is being sent at this moment"
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_a_private_address_gets_nothing_unless_the_settings_allow_it(telling: Telling) -> None:
    async with receivers.running("127.0.0.2") as private:
        await telling.webhook(private)
        await telling.announce()
        await telling.sending.step()
        assert not private.received
    found = await telling.delivery()
    assert found["error"] == "127.0.0.2 has an address that is not public, and the server's settings do not allow that"


async def test_a_disabled_channel_is_told_of_nothing_and_what_waits_stays(telling: Telling, receiver: Receiver) -> None:
    await telling.webhook(receiver)
    await telling.announce("before")
    await telling.application.admin.patch(f"{CHANNELS}/ops", json={"is_enabled": False})
    await telling.announce("meanwhile")
    await telling.sending.step()
    assert not receiver.received
    await telling.application.admin.patch(f"{CHANNELS}/ops", json={"is_enabled": True})
    await telling.sending.step()
    assert [each.json["data"]["title"] for each in receiver.received] == ["before"]


async def test_only_the_newest_deliveries_are_kept(
    telling: Telling, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "MAX_KEPT_DELIVERIES", 2)
    await telling.webhook(receiver)
    for number in range(4):
        await telling.announce(str(number))
        await telling.sending.step()
    assert [each["content"]["title"] for each in await telling.deliveries()] == ["3", "2"]


async def test_what_waits_for_a_receiver_that_is_away_is_bounded(
    telling: Telling, receiver: Receiver, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A receiver that was away for a day left as many rows as there were events."""
    monkeypatch.setattr(sending, "MAX_WAITING_DELIVERIES", 3)
    await telling.webhook(receiver)
    receiver.status = 503
    for number in range(6):
        await telling.announce(str(number))
    await telling.sending.step()
    found = await telling.deliveries()
    assert [each["status"] for each in found] == ["WAITING"] * 3 + ["GIVEN_UP"] * 3
    assert found[-2]["error"] == "more than 3 messages waited for the receiver, so the oldest ones were given up"
    receiver.status = 200
    path = f"{CHANNELS}/ops/deliveries/{found[-2]['notification_id']}/send-again"
    assert (await telling.application.admin.post(path)).json()["status"] == "WAITING"
    clock.advance(20)
    for _ in range(4):
        await telling.sending.step()
    sent = [each["content"]["title"] for each in await telling.deliveries() if each["status"] == "DELIVERED"]
    assert sorted(sent) == ["1", "3", "4", "5"], "what a person sends again is no old message"


async def test_secrets_that_cannot_be_decrypted_are_an_error_of_the_delivery(
    telling: Telling, receiver: Receiver
) -> None:
    channel = await telling.webhook(receiver)
    await telling.announce()
    damaged: Any = "UPDATE notification_channels SET sealed = :x WHERE id = :id"
    await telling.server.db.write(lambda tx: tx.run(damaged, x=b"\1" * 60, id=channel["id"]))
    await telling.sending.step()
    found = await telling.delivery()
    assert found["status"] == "WAITING"
    assert "was encrypted under master key" in found["error"]


async def test_the_loop_waits_for_what_is_announced(application: Application, receiver: Receiver) -> None:
    telling = Telling(application)
    await telling.webhook(receiver)
    running = asyncio.create_task(telling.sending.run())
    try:
        await asyncio.sleep(0)
        await telling.announce()
        await asyncio.wait_for(receiver.is_asked.wait(), 5)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_an_error_of_our_own_is_a_failed_try_and_not_the_end_of_the_loop(
    telling: Telling, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await telling.webhook(receiver)

    async def fail(*_: Any) -> SendResult:
        raise ValueError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr(Senders, "send", fail)
        await telling.announce("first")
        await telling.sending.step()
    found = await telling.delivery()
    assert (found["status"], found["error"]) == ("WAITING", "this server could not send it: its log says why")
    await telling.announce("second")
    await telling.sending.step()
    assert [each.json["data"]["title"] for each in receiver.received] == ["second"]
