"""Processes that connect at the same time share a transaction, and each gets what it would have got alone."""

import asyncio
from typing import Any

import msgspec

from terracrew import ids
from terracrew.protocol.messages import AttemptRef
from terracrew.server.connections import store
from terracrew.server.db.seam import Row
from terracrew.server.hub.runners import places
from terracrew.server.hub.runners.context import Arriving, Placed
from terracrew.server.principals.model import Principal
from tests.builders import deliveries
from tests.builders.job_rows import JobRows, change_instances
from tests.server.hub.hub_clients import on_postgres
from tests.server.metrics.counted import counted

ADDRESS = "192.0.2.7"


async def runner(rows: JobRows, *, several: bool = False) -> str:
    runner_id = ids.new("rnr")
    names = {"id": runner_id, "name": runner_id, "path": runner_id, "allow_multiple_instances": several}
    await rows.insert("runners", group_id=rows.root, type="self-hosted", max_jobs=100, **names)
    return runner_id


def arriving(rows: JobRows, runner_id: str, who: str = "", **changes: Any) -> Arriving:
    principal = Principal("runner", who or runner_id, "runner", rows.organization, address=ADDRESS)
    return Arriving(principal, deliveries.runner_hello(runner_id, **changes))


async def take(rows: JobRows, *those: Arriving, server_id: str = "srv") -> list[Placed | None]:
    return await rows.db.write(lambda tx: places.take(tx, server_id, those))


async def instances(rows: JobRows) -> list[Row]:
    return await rows.db.read(lambda tx: tx.all("SELECT * FROM instances ORDER BY id"))


async def disconnect_all(rows: JobRows) -> None:
    for row in await instances(rows):
        await rows.db.write(lambda tx, row=row: store.disconnect(tx, row["runner_id"], row["id"], row["epoch"]))


async def test_each_of_many_gets_a_row_of_its_own_runner(rows: JobRows) -> None:
    runners = [await runner(rows, several=number % 2 == 0) for number in range(6)]
    found = await take(rows, *(arriving(rows, each, version=f"0.{index}") for index, each in enumerate(runners)))
    assert [placed and placed[0].id for placed in found] == runners
    stored = {row["id"]: row for row in await instances(rows)}
    for index, placed in enumerate(found):
        assert placed is not None
        row = stored[placed[1].instance_id]
        assert (row["runner_id"], row["version"], row["epoch"]) == (runners[index], f"0.{index}", 1)
        assert (row["is_connected"], row["address"], row["server_id"]) == (True, ADDRESS, "srv")
    engines = await rows.db.read(lambda tx: tx.all("SELECT instance_id FROM instance_engines"))
    assert {row["instance_id"] for row in engines} == set(stored)


async def test_a_process_that_comes_back_gets_its_row_with_the_next_epoch_and_its_attempts(rows: JobRows) -> None:
    instance = await rows.runner()
    job_id = await rows.job(await rows.module())
    await instance.has(job_id)
    await change_instances(rows.db, name="one")
    await disconnect_all(rows)
    [placed] = await take(rows, arriving(rows, instance.runner_id, attempts=[AttemptRef(job_id, 1)]))
    assert placed is not None
    assert (placed[1].instance_id, placed[1].current) == (instance.id, {AttemptRef(job_id, 1)})
    [row] = await instances(rows)
    assert (row["epoch"], row["disconnected_at"]) == (placed[1].epoch, None)
    [again] = await take(rows, arriving(rows, instance.runner_id, resume=placed[1].resume))
    assert again is not None
    assert again[1].epoch == placed[1].epoch + 1


async def test_a_process_gets_no_place_here_that_would_take_something_over_and_nothing_is_written_for_it(
    rows: JobRows,
) -> None:
    single, several = await runner(rows), await runner(rows, several=True)
    await take(rows, arriving(rows, single), arriving(rows, several))
    before = await instances(rows)
    those = [
        arriving(rows, single),  # the same name and key, without the secret of the last welcome
        arriving(rows, single, instance="two"),
        arriving(rows, several),
        arriving(rows, several, instance_key="x" * 32),
        arriving(rows, several, resume="guessed"),
    ]
    for each in those:
        assert await take(rows, each) == [None]
    assert await take(rows, *those) == [None] * len(those)
    assert await instances(rows) == before


async def test_a_process_at_another_address_or_machine_gets_no_place_here_because_an_alert_is_due(
    rows: JobRows,
) -> None:
    single = await runner(rows)
    [placed] = await take(rows, arriving(rows, single, machine="a" * 32))
    assert placed is not None
    moved = arriving(rows, single, resume=placed[1].resume)
    elsewhere = Arriving(msgspec.structs.replace(moved.principal, address="192.0.2.8"), moved.hello)
    other_machine = arriving(rows, single, resume=placed[1].resume, machine="b" * 32)
    assert await take(rows, elsewhere) == [None]
    assert await take(rows, other_machine) == [None]
    assert await take(rows, moved) != [None]


async def test_a_credential_gets_no_place_of_another_runner_and_does_not_harm_the_others(rows: JobRows) -> None:
    mine, other = await runner(rows), await runner(rows)
    found = await take(
        rows, arriving(rows, other, who=mine), arriving(rows, ids.new("rnr"), who=mine), arriving(rows, mine)
    )
    assert [placed and placed[0].id for placed in found] == [None, None, mine]
    assert [row["runner_id"] for row in await instances(rows)] == [mine]


async def test_of_processes_that_want_one_place_in_one_group_the_first_gets_it(rows: JobRows) -> None:
    single, several = await runner(rows), await runner(rows, several=True)
    found = await take(
        rows,
        arriving(rows, single),
        arriving(rows, single, instance="two"),
        arriving(rows, single, instance_key="x" * 32),
        arriving(rows, several),
        arriving(rows, several, instance_key="x" * 32),
        arriving(rows, several, instance="two"),
    )
    assert [placed is not None for placed in found] == [True, False, False, True, False, True]
    assert len(await instances(rows)) == 3


@on_postgres
async def test_of_two_servers_that_give_away_the_same_places_at_once_each_place_has_one(rows: JobRows) -> None:
    runners = [await runner(rows, several=number % 2 == 0) for number in range(10)]

    async def server(name: str, key: str) -> list[Placed | None]:
        return await take(rows, *(arriving(rows, each, instance_key=key * 32) for each in runners), server_id=name)

    for _ in range(5):
        first, second = await asyncio.gather(server("srv_1", "a"), server("srv_2", "b"))
        assert all((one is None) is not (two is None) for one, two in zip(first, second, strict=True))
        rows_now = {row["runner_id"]: row for row in await instances(rows)}
        for runner_id, one in zip(runners, first, strict=True):
            assert rows_now[runner_id]["server_id"] == ("srv_2" if one is None else "srv_1")
        await disconnect_all(rows)


@on_postgres
async def test_two_servers_that_make_the_same_places_in_another_order_do_not_wait_for_each_other(rows: JobRows) -> None:
    runners = [await runner(rows, several=True) for _ in range(100)]
    for number in range(5):
        those = [arriving(rows, each, instance=f"{number}") for each in runners]
        await asyncio.gather(take(rows, *those), take(rows, *reversed(those), server_id="srv_2"))
    assert counted(rows.db.health.errors, kind="deadlock") == 0
