"""Shipping: log settings, window, order and resumption, with the real client against the test's hub in one process."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from terracrew.attempt.record import AttemptRecord
from terracrew.client import hub as hub_client
from terracrew.errors import Invalid
from terracrew.executor.control import Control
from terracrew.executor.delivery import begin, shipper
from terracrew.executor.delivery.begin import ApplyPermit, ApprovalNeeded, NotPermitted
from terracrew.executor.delivery.delivery import AttemptDelivery
from terracrew.executor.delivery.shipper import WINDOW_BATCHES
from terracrew.executor.output.engine_output import EngineOutput
from terracrew.protocol import events, version
from terracrew.protocol.events import EngineUsed, Kind, Stream
from terracrew.protocol.messages import BeginRefused, Begun, ConfigureExecutor, ExecutorWelcome, LogSettings
from terracrew.protocol.spec import Step
from terracrew.protocol.start import LogStreamSettings
from terracrew.testing.fake_executor_hub import HUB, FakeExecutorHub

LONG_PERIOD_SECONDS = 3600.0


class Shipping:
    """A delivery whose events the test writes by hand."""

    def __init__(self, hub: FakeExecutorHub, folder: Path, settings: LogStreamSettings) -> None:
        self.hub = hub
        record = AttemptRecord("job_1", 1, hub.url, HUB, ["a-secret"])
        self.delivery = AttemptDelivery(folder, record, settings)
        self._task = asyncio.create_task(self.delivery.shipper.run())

    def say(self, text: str, step: Step = Step.PLAN) -> None:
        record = events.pack(Kind.LOG, Stream.OUTPUT, step, 1.0, text.encode())
        self.delivery.outbox.append(record)

    async def deliver(self) -> bool:
        return await asyncio.wait_for(self.delivery.shipper.deliver(), 30)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@pytest.fixture
async def shipping(hub: FakeExecutorHub, tmp_path: Path) -> AsyncIterator[Shipping]:
    """Nothing leaves by itself but the first event: a period that never ends, and a batch of ten."""
    shipping = Shipping(hub, tmp_path, LogStreamSettings(batch_size_limit=10, period_seconds=LONG_PERIOD_SECONDS))
    yield shipping
    await shipping.close()


@pytest.mark.feature("L2.batches", "L2.eager")
async def test_the_first_event_leaves_at_once_and_the_next_ones_wait_for_a_full_batch(
    hub: FakeExecutorHub, shipping: Shipping
) -> None:
    shipping.say("first\n")
    await hub.until(lambda: hub.mark == 1)
    for at in range(9):
        shipping.say(f"{at}\n")
    await hub.tell(ConfigureExecutor(LogSettings()))
    assert hub.mark == 1
    shipping.say("the tenth\n")
    await hub.until(lambda: hub.mark == 11)
    assert hub.batches == 2


@pytest.mark.feature("L2.batches", "L2.eager")
async def test_the_first_event_of_each_batch_leaves_at_once(hub: FakeExecutorHub, shipping: Shipping) -> None:
    """Only the first event of an attempt left at once. A line after a pause waited for the whole period."""
    for batch in range(1, 4):
        shipping.say("first of its batch\n")
        await hub.until(lambda wanted=11 * batch - 10: hub.mark == wanted, within=5)
        for _ in range(10):
            shipping.say("waits for the others\n")
        await hub.until(lambda wanted=11 * batch: hub.mark == wanted, within=5)
    assert hub.batches == 6


@pytest.mark.feature("L2.batches")
async def test_no_event_leaves_at_once_where_that_is_not_wanted(hub: FakeExecutorHub, tmp_path: Path) -> None:
    settings = LogStreamSettings(10, LONG_PERIOD_SECONDS, eagerly_emit_first_event=False)
    shipping = Shipping(hub, tmp_path, settings)
    for _ in range(9):
        shipping.say("waits\n")
    await asyncio.wait_for(shipping.delivery.shipper.welcomed.wait(), 20)
    await hub.tell(ConfigureExecutor(LogSettings()))
    assert hub.mark == 0
    shipping.say("the tenth\n")
    await hub.until(lambda: hub.mark == 10)
    await shipping.close()


@pytest.mark.feature("L2.batches")
async def test_an_event_waits_no_longer_than_the_period(hub: FakeExecutorHub, tmp_path: Path) -> None:
    shipping = Shipping(hub, tmp_path, LogStreamSettings(period_seconds=0.05, eagerly_emit_first_event=False))
    shipping.say("alone\n")
    await hub.until(lambda: hub.mark == 1, within=5)
    await shipping.close()


@pytest.mark.feature("J15.lost", "L2.batches")
@pytest.mark.parametrize("step", [Step.APPLY, Step.DESTROY])
async def test_an_event_of_a_step_that_changes_something_does_not_wait_for_a_batch(
    hub: FakeExecutorHub, shipping: Shipping, step: Step
) -> None:
    """A machine was lost with its disk. The lines about what it had made were still waiting for their batch."""
    shipping.say("first\n")
    await hub.until(lambda: hub.mark == 1)
    shipping.say("of the plan\n")
    for number in range(3, 6):
        shipping.say("a.x: Creation complete after 0s [id=1]\n", step)
        await hub.until(lambda wanted=number: hub.mark == wanted, within=5)
    shipping.say("a.y: Creating...\n", step)
    shipping.say("a.z: Creating...\n", step)
    await hub.until(lambda: hub.mark == 7, within=5)
    shipping.say("the first of a batch\n", Step.OUTPUT)
    shipping.say("waits\n", Step.OUTPUT)
    await hub.tell(ConfigureExecutor(LogSettings()))
    await asyncio.sleep(2 * shipper.MUTATING_PERIOD_SECONDS)
    assert hub.mark < 9


@pytest.mark.feature("L2.batches")
async def test_a_fact_takes_along_what_waits(hub: FakeExecutorHub, shipping: Shipping) -> None:
    shipping.say("first\n")
    await hub.until(lambda: hub.mark == 1)
    shipping.say("waits\n")
    shipping.delivery.recorder.fact(EngineUsed("tofu", "1.12.6"))
    await hub.until(lambda: hub.mark == 3)


@pytest.mark.feature("L2.watched")
async def test_while_somebody_watches_everything_leaves_at_once(hub: FakeExecutorHub, shipping: Shipping) -> None:
    shipping.say("first\n")
    await hub.until(lambda: hub.mark == 1)
    shipping.say("waits\n")
    await hub.tell(ConfigureExecutor(LogSettings(is_watched=True)))
    await hub.until(lambda: hub.mark == 2)
    for number in range(3, 8):
        shipping.say("live\n")
        await hub.until(lambda wanted=number: hub.mark == wanted)


@pytest.mark.feature("L3.spool")
async def test_no_more_than_a_window_of_batches_is_on_its_way(hub: FakeExecutorHub, shipping: Shipping) -> None:
    hub.is_acknowledging = False
    for at in range(10 * WINDOW_BATCHES * 2):
        shipping.say(f"{at}\n")
    await hub.until(lambda: hub.mark == 10 * WINDOW_BATCHES)
    await hub.tell(ConfigureExecutor(LogSettings()))
    assert hub.most_unacknowledged == WINDOW_BATCHES
    hub.is_acknowledging = True
    await hub.drop()
    assert await shipping.deliver()
    assert hub.log() == b"".join(b"%d\n" % at for at in range(10 * WINDOW_BATCHES * 2))


@pytest.mark.feature("C4.idempotent", "L3.idempotent")
async def test_what_was_stored_but_not_acknowledged_is_not_stored_twice(
    hub: FakeExecutorHub, shipping: Shipping
) -> None:
    hub.is_acknowledging = False
    for at in range(40):
        shipping.say(f"{at}\n")
    await hub.until(lambda: hub.mark == 40)
    await hub.stop()
    shipping.say("while it was away\n")
    hub.is_acknowledging = True
    await hub.start()
    assert await shipping.deliver()
    assert hub.log() == b"".join(b"%d\n" % at for at in range(40)) + b"while it was away\n"


async def test_a_server_that_was_restored_from_a_backup_gets_what_it_lost(
    hub: FakeExecutorHub, shipping: Shipping
) -> None:
    for at in range(30):
        shipping.say(f"{at}\n")
    assert await shipping.deliver()
    del hub.records[7:]
    await hub.drop()
    await hub.until(lambda: hub.mark == 30)
    assert hub.log() == b"".join(b"%d\n" % at for at in range(30))


async def test_a_server_that_has_more_than_was_sent_is_not_believed(hub: FakeExecutorHub, shipping: Shipping) -> None:
    hub.welcome = lambda _: ExecutorWelcome(99, version.NEWEST_VERSION)
    shipping.say("first\n")
    assert not await shipping.deliver()
    assert shipping.delivery.control.refused


async def test_a_credential_that_is_not_known_ends_the_trying(hub: FakeExecutorHub, tmp_path: Path) -> None:
    record = AttemptRecord("job_1", 1, hub.url, "wrong", [])
    delivery = AttemptDelivery(tmp_path, record, LogStreamSettings())
    await asyncio.wait_for(delivery.shipper.run(), 10)
    assert delivery.control.refused


@pytest.mark.parametrize("url", ["ftp://x", "localhost:80", ""])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(Invalid):
        hub_client.address(url)


def test_the_hubs_address_follows_the_servers() -> None:
    assert hub_client.address("https://crew.example/base/") == "wss://crew.example/base/runnerhub"


# ---- the permit to apply


def asking(monkeypatch: pytest.MonkeyPatch, seconds: float) -> tuple[ApplyPermit, Control]:
    monkeypatch.setattr(begin, "PERMIT_SECONDS", seconds)
    control = Control()
    return ApplyPermit(control, lambda _: None), control


async def until_due(permit: ApplyPermit) -> None:
    due = asyncio.Event()
    permit.on_change = due.set
    if not permit.is_due:
        await asyncio.wait_for(due.wait(), 10)


@pytest.mark.feature("O3.fenced")
async def test_leave_that_comes_too_late_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(begin, "boottime", lambda: clock[0])
    permit, _ = asking(monkeypatch, 5.0)
    obtained = asyncio.create_task(permit.obtain(7))
    await until_due(permit)
    assert permit.question().state_version == 7
    clock[0] += 5.1  # suspended, say: by the clock that counts it, the permit is over when the answer is read
    permit.answered(Begun(7))
    await until_due(permit)
    assert not obtained.done()
    permit.question()
    clock[0] += 4.9
    permit.answered(Begun(7))
    await asyncio.wait_for(obtained, 10)


@pytest.mark.feature("O3.fenced")
async def test_an_answer_to_a_question_of_an_older_connection_counts_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    permit, _ = asking(monkeypatch, 5.0)
    obtained = asyncio.create_task(permit.obtain(7))
    await until_due(permit)
    permit.question()
    permit.disconnected()
    assert permit.is_due, "it is asked again on the next connection"
    permit.question()
    permit.answered(BeginRefused("approval", "look first"))
    with pytest.raises(ApprovalNeeded, match="look first"):
        await asyncio.wait_for(obtained, 10)


@pytest.mark.feature("J9.modes")
async def test_a_cancel_ends_the_wait_for_the_permit(monkeypatch: pytest.MonkeyPatch) -> None:
    permit, control = asking(monkeypatch, 5.0)
    obtained = asyncio.create_task(permit.obtain(7))
    await until_due(permit)
    control.request_cancel("after_step")
    with pytest.raises(NotPermitted):
        await asyncio.wait_for(obtained, 10)
    assert not permit.is_due


# ---- following the output


@pytest.mark.feature("L3.complete")
async def test_output_is_followed_as_it_is_written_and_an_open_line_is_not_kept_back(
    hub: FakeExecutorHub, tmp_path: Path
) -> None:
    shipping = Shipping(hub, tmp_path, LogStreamSettings(period_seconds=0))
    output = EngineOutput(tmp_path / "output", shipping.delivery.recorder)
    output.follow()
    with open(tmp_path / "output", "ab", buffering=0) as engine:
        engine.write(b"one\ntwo ")
        await hub.until(lambda: hub.log() == b"one\n")
        await hub.until(lambda: hub.log() == b"one\ntwo ")  # a second later
        engine.write(b"a-sec")
        engine.write(b"ret\nthree \xc3")
        await hub.until(lambda: hub.log() == b"one\ntwo ***\n")
        await hub.until(lambda: hub.log() == b"one\ntwo ***\nthree ")
        engine.write(b"\xa9\n")
        await hub.until(lambda: hub.log() == "one\ntwo ***\nthree é\n".encode())
    output.close()
    await shipping.close()
