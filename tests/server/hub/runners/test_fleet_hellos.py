"""The cost of a hello does not depend on how many instances its runner has or had."""

import asyncio
from collections.abc import Sequence
from typing import Any, LiteralString

import pytest

from terracrew.server.db.seam import Columns, Database, Param, Row, Tx
from terracrew.server.db.topics import InstanceKey
from terracrew.server.hub.notify import HubNotifier
from terracrew.server.hub.runners.context import Arriving
from terracrew.server.hub.runners.places import places
from tests.builders.job_rows import change_runners, insert_instance
from tests.builders.transactions import held_open
from tests.server.hub.hub_clients import Client, Hub, on_postgres
from tests.server.hub.statement_counts import on_each_unit

OLD_INSTANCES = 300


class CountingTx:
    """Passes everything on to a transaction and counts the rows that it returns."""

    value, each_id = Tx.value, Tx.each_id

    def __init__(self, tx: Tx, counts: list[int]) -> None:
        self._tx, self._counts = tx, counts

    async def all(self, sql: LiteralString, /, **params: Param) -> list[Row]:
        return self._counted(await self._tx.all(sql, **params))

    async def each(self, sql: LiteralString, columns: Columns, rows: Sequence[Sequence[Param]]) -> list[Row]:
        return self._counted(await self._tx.each(sql, columns, rows))

    def _counted(self, rows: list[Row]) -> list[Row]:
        self._counts.append(len(rows))
        return rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)


def counted(db: Database, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each statement returns from now on."""
    counts: list[int] = []
    on_each_unit(db, monkeypatch, lambda tx: CountingTx(tx, counts))
    return counts


@pytest.fixture
async def fleet(hub: Hub) -> Hub:
    """The runner takes many instances, and has had many."""

    async def work(tx: Tx) -> None:
        await change_runners(tx, allow_multiple_instances=True)
        for number in range(OLD_INSTANCES):
            await insert_instance(tx, hub.runner_id, name=f"old-{number}")

    await hub.server.db.write(work)
    return hub


async def test_a_hello_reads_nothing_of_the_other_instances_of_its_runner(
    fleet: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each hello read every connected instance of its runner: 18 ms with 5,000, so a fleet that came back cost O(n²)."""
    db = fleet.server.db
    who = await fleet.server.identity.tokens.principal(await fleet.token())
    counts = counted(db, monkeypatch)
    assert await places(db, "srv")(Arriving(who, fleet.hello())) is not None
    assert max(counts) <= 1
    async with fleet.connected(await fleet.token()) as client:
        counts = counted(db, monkeypatch)
        assert (await client.ask(fleet.hello(instance="another one")))["type"] == "welcome"
    assert max(counts, default=0) <= 1


async def test_an_instance_that_comes_makes_nobody_look_at_the_other_instances(
    fleet: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its wake-up named the runner, so the records of all connections of that runner were read again."""
    with fleet.server.db.listen("instances", "runners") as woken:
        async with fleet.runner(), fleet.runner(instance="two"), fleet.runner(instance="three") as _:
            wakes = await woken.get(5)
            assert {topic for topic, _ in wakes} == {"instances"}
            instance_id = fleet.server.registry.of(fleet.runner_id)[2].instance_id
            (third,) = (key for _, key in wakes if InstanceKey.decode(key).instance_id == instance_id)
            counts = counted(fleet.server.db, monkeypatch)
            await HubNotifier(fleet.server.hub.runners).step({("instances", third)})
            assert sum(counts) == 1


@on_postgres
async def test_hellos_of_one_fleet_do_not_wait_for_each_other(fleet: Hub) -> None:
    """Each locked the record of its runner until it was committed: of a whole fleet, one came at a time."""
    record = "SELECT id FROM runners WHERE id = :id FOR NO KEY UPDATE"
    async with (
        held_open(fleet.server.db, lambda tx: tx.one(record, id=fleet.runner_id)),
        asyncio.timeout(5),
        fleet.runner(),
    ):
        pass


@pytest.mark.feature("R4.one")
async def test_of_two_processes_of_a_fleet_with_one_name_that_come_at_once_one_is_welcome(fleet: Hub) -> None:
    running = asyncio.create_task(HubNotifier(fleet.server.hub.runners).run())
    welcomed: list[str] = []
    have_all_come = asyncio.Event()
    count = 0

    async def process(client: Client, key: str) -> None:
        nonlocal count
        is_welcome = (await client.ask(fleet.hello(instance_key=key * 32)))["type"] == "welcome"
        count += 1
        if count == 3:
            have_all_come.set()
        if is_welcome:
            welcomed.append(key)
            async with client.living():
                await have_all_come.wait()

    token = await fleet.token()
    async with fleet.connected(token) as one, fleet.connected(token) as two, fleet.connected(token) as three:
        await asyncio.gather(process(one, "a"), process(two, "b"), process(three, "c"))
    running.cancel()
    assert len(welcomed) == 1
