"""What a forge delivers is checked, stored and answered at once; the same delivery counts once."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest

from terracrew import ids
from terracrew.server.db.seam import Database
from terracrew.server.forges import deliveries, delivery_store, receiving, store
from terracrew.server.forges.hooks import PATH
from tests.builders.clock import ShiftedClock
from tests.forges.fake_gitea import FakeGitea
from tests.server.application import Application, Person, on_one
from tests.server.forges import forge_rows
from tests.server.forges.forge_rows import HOOK_SECRET
from tests.server.forges.watched import FAKES, KEYS, Watched, watched

BODY = b'{"number": 1, "repository": {"full_name": "acme/network"}}'


@pytest.fixture
async def place(database: Database, clock: ShiftedClock) -> AsyncIterator[Watched]:
    async with watched(database, clock) as found:
        yield found


def signed(body: bytes = BODY, secret: str = HOOK_SECRET) -> dict[str, str]:
    return FakeGitea().signed("pull_request", secret, body)


async def hook_of(application: Application) -> tuple[Person, str]:
    """Somebody without a token, and the address of the hooks of a connection."""
    connection = await forge_rows.connection(application.server.db, application.server.keys)
    return application.stranger(), f"{PATH}/{connection.id}"


@pytest.mark.feature("F2.once")
async def test_a_delivery_is_stored_and_counts_once(application: Application) -> None:
    sender, url = await hook_of(application)
    headers = signed()
    with application.server.db.listen("forge_deliveries") as wakeups:
        for _ in range(3):
            answer = await sender.post(url, content=BODY, headers=headers)
            assert (answer.status_code, answer.content) == (202, b"")
        assert await wakeups.get(timeout=5)
    connection_id = url.rpartition("/")[2]
    [found] = await application.server.db.read(lambda tx: delivery_store.of_connection(tx, connection_id, "", 10))
    assert (found.event, found.delivery_id) == ("pull_request", headers["x-gitea-delivery"])
    assert found.handled_at is None
    connection = await application.server.db.read(lambda tx: store.get(tx, connection_id))
    assert connection.delivered_at is not None
    assert connection.wrong_delivery_at is None


@pytest.mark.feature("F2.signature")
@on_one
async def test_a_wrong_signature_and_an_unknown_hook_look_the_same(application: Application) -> None:
    sender, url = await hook_of(application)
    unknown = f"{PATH}/{ids.new('fcn')}"
    wrong = [signed(secret="another"), signed(BODY + b" "), {"x-gitea-signature": "0" * 64}, {}]
    answers = [await sender.post(url, content=BODY, headers=headers) for headers in wrong]
    answers += [
        await sender.post(each, content=BODY, headers=signed()) for each in (unknown, f"{PATH}/x", f"{PATH}/%00")
    ]
    assert {each.status_code for each in answers} == {401}
    assert len({_words(each) for each in answers}) == 1
    connection_id = url.rpartition("/")[2]
    assert await application.server.db.read(lambda tx: delivery_store.of_connection(tx, connection_id, "", 10)) == []
    connection = await application.server.db.read(lambda tx: store.get(tx, connection_id))
    assert connection.wrong_delivery_at is not None
    assert connection.delivered_at is None


@on_one
async def test_a_body_that_is_too_large_is_refused_before_it_is_read(application: Application) -> None:
    sender, url = await hook_of(application)
    large = b"x" * (receiving.MAX_BODY_BYTES + 1)
    assert (await sender.post(url, content=large, headers=signed())).status_code == 413
    assert (await sender.post(f"{PATH}/{ids.new('fcn')}", content=large)).status_code == 413


@on_one
async def test_slow_senders_do_not_keep_those_of_another_organization_waiting(
    place: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = asyncio.Event()

    async def never() -> bytes:
        reading.set()
        await asyncio.Event().wait()
        return b""

    monkeypatch.setattr(receiving, "READING_SECONDS", 0.5)
    place.fake.open(place.state, "feature")
    [delivery] = place.fake.deliveries
    other = await forge_rows.connection(place.db, KEYS, organization_name="other")
    size = receiving.MAX_BODY_BYTES
    slow = [asyncio.create_task(place.receiver.receive(other.id, {}, size, never)) for _ in range(8)]
    await reading.wait()
    assert await place.post(delivery)
    problems = await asyncio.gather(*slow, return_exceptions=True)
    assert {type(each) for each in problems} == {receiving.Unavailable}
    assert any("did not arrive" in str(each) for each in problems)
    with pytest.raises(receiving.WrongSignature):
        await place.receiver.receive(other.id, {}, size, _nothing)


@on_one
async def test_what_is_signed_and_cannot_be_read_is_shown_to_people_and_not_refused(application: Application) -> None:
    sender, url = await hook_of(application)
    for body in (b"", b"[]", b"\xff", b'{"number": -1, "repository": {"full_name": "../x"}}', b"[" * 100_000):
        assert (await sender.post(url, content=body, headers=signed(body))).status_code == 202
    connection_id = url.rpartition("/")[2]
    found = await application.server.db.read(lambda tx: delivery_store.of_connection(tx, connection_id, "", 10))
    assert len(found) == 5
    assert all(each.problem and each.handled_at is not None for each in found)


@pytest.mark.parametrize("kind", FAKES)
@on_one
async def test_the_deliveries_of_each_forge_are_taken(database: Database, clock: ShiftedClock, kind: str) -> None:
    async with watched(database, clock, kind) as place:
        number = place.fake.open(place.state, "feature").number
        [delivery] = place.fake.deliveries
        asked = await place.counted()
        assert await place.post(delivery)
        assert not await place.post(delivery)
        assert await place.counted() == asked  # the forge waits for the answer, so it is not asked
        assert await place.is_refused(replace(delivery, body=delivery.body + b" ")) == (kind != "gitlab")
        unsigned = {name: each for name, each in delivery.headers.items() if "sign" not in name and "token" not in name}
        assert await place.is_refused(replace(delivery, headers=unsigned))
        await place.handle()
        assert (await place.facts()) == (await place.truth())
        assert (await place.known(number)) is not None


@pytest.mark.feature("F2.once")
async def test_a_replay_under_another_id_changes_nothing(place: Watched) -> None:
    """The id of a delivery of GitHub is not signed. What a delivery says is no fact, so a replay is only one more question."""
    number = place.fake.open(place.state, "feature").number
    place.fake.write(place.state, number, "terracrew plan")
    old = list(place.fake.deliveries)
    await place.arrive(old)
    await place.handle()
    place.fake.merge(place.state, number)
    await place.arrive(place.fake.deliveries[len(old) :])
    await place.handle()
    before = await place.known(number)
    place.clock.advance(86400.0)  # nothing in a delivery depends on a clock
    await place.arrive(
        replace(each, headers=each.headers | {"x-github-delivery": f"again-{each.url}-{index}"})
        for index, each in enumerate(old)
    )
    await place.handle()
    after = await place.known(number)
    assert before is not None
    assert after is not None
    assert (after.state, after.revision) == ("merged", before.revision)
    assert await place.commands(number) == ["terracrew plan"]


def _words(answer: httpx.Response) -> str:
    return str({name: text for name, text in answer.json().items() if name != "instance"})


async def _nothing() -> bytes:
    return b""


@on_one
async def test_one_delivery_that_is_repeated_under_many_ids_fills_no_table(
    place: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "MAX_KEPT", 10)
    place.fake.open(place.state, "feature")
    [delivery] = place.fake.deliveries
    for number in range(30):
        headers = delivery.headers | {"x-github-delivery": f"again-{number}"}
        await place.post(replace(delivery, headers=headers))
    await place.loops.deliveries.step()
    await place.loops.deliveries.prune()
    left = [each.delivery_id for each in await place.delivered()]
    assert left == [f"again-{number}" for number in range(20, 30)]
