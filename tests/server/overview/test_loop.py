"""The capacity of runners is added for the time that has passed, once, however many servers look."""

import asyncio

import pytest

from terracrew.server.figures import model, reads, store
from terracrew.server.figures.model import DAY_SECONDS, PeriodSums
from terracrew.server.overview import loop
from terracrew.server.overview.loop import MAX_SAMPLE_SECONDS, FigureFolding
from tests.builders.clock import ShiftedClock
from tests.builders.job_rows import JobRows


async def known(rows: JobRows, group_id: str) -> PeriodSums:
    found = await rows.db.read(lambda tx: reads.sums(tx, rows.organization, [group_id], DAY_SECONDS, 0))
    return model.merged(item for amounts in found.values() for item in amounts.items())


@pytest.mark.feature("P2.utilisation")
async def test_the_slots_of_connected_runners_are_counted_for_the_time_that_has_passed(
    clock: ShiftedClock, rows: JobRows
) -> None:
    await rows.runner(slots=3)
    shared = await rows.runner(slots=5)
    await shared.share()
    away = await rows.runner(slots=7)
    await away.disconnect()
    await FigureFolding("srv_1", rows.db).step()
    assert (await known(rows, rows.root)).capacity_seconds == 0, "nothing is known of the time before the first look"
    clock.advance(100)
    await asyncio.gather(*(rows.db.write(loop.sample) for _ in range(3)))
    assert (await known(rows, rows.root)).capacity_seconds == pytest.approx(300, abs=15)
    assert (await known(rows, model.SHARED)).capacity_seconds == pytest.approx(500, abs=25)
    clock.advance(100_000)
    await rows.db.write(loop.sample)
    added = 3 * (100 + MAX_SAMPLE_SECONDS)
    assert (await known(rows, rows.root)).capacity_seconds == pytest.approx(added, abs=15), "no server was running"


@pytest.mark.feature("P2.figures")
async def test_the_loop_folds_what_jobs_have_left(rows: JobRows) -> None:
    runner = await rows.runner()
    await runner.finish(await rows.job(await rows.module()))
    await FigureFolding("srv_1", rows.db).step()
    assert await rows.db.read(lambda tx: tx.value("SELECT count(*) FROM figure_entries")) == 0
    assert (await known(rows, rows.root)).ended == {"SUCCEEDED": 1}


@pytest.mark.feature("P2.figures")
async def test_what_is_too_old_is_deleted_at_once_however_much_it_is(rows: JobRows) -> None:
    """A thousand groups have more sums in an hour than one statement deletes, so that the table grew for ever."""
    for part in range(2):
        many = {
            (f"grp_{part}_{number}", model.HOUR_SECONDS, 0, "ended:FAILED"): 1.0
            for number in range(store.MAX_PRUNED_ROWS * 2 // 3)
        }
        await rows.db.write(lambda tx, many=many: store.add(tx, many))
    await FigureFolding("srv_1", rows.db).step()
    assert await rows.db.read(lambda tx: tx.value("SELECT count(*) FROM figures")) == 0
