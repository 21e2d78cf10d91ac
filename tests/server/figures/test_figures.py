"""What has happened is counted exactly once, by group and by hour, however jobs end and however servers race."""

import asyncio
import contextlib
import math
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terracrew.api.failures import class_of
from terracrew.api.jobs import Job, JobStatus
from terracrew.errors import Superseded
from terracrew.protocol.events import KeptPlan, Result, StepStatus
from terracrew.protocol.spec import Step
from terracrew.server.db.seam import Database, Tx
from terracrew.server.figures import model, reads, store
from terracrew.server.figures.model import DAY_SECONDS, HOUR_SECONDS, PeriodSums
from terracrew.server.jobs import attempt_store, decide, service
from terracrew.server.jobs import store as jobs
from terracrew.server.jobs.decision_types import Report
from tests.builders.clock import ShiftedClock
from tests.builders.deliveries import DONE, RUNNING, delivery, fact
from tests.builders.job_rows import Instance, JobRows, change_modules

FAILED = fact(Result("FAILED", "plan failed"))
PLAN_FAILED = fact(StepStatus(Step.PLAN, "FAILED", 1))


async def known(rows: JobRows, *group_ids: str, period: int = DAY_SECONDS) -> PeriodSums:
    """Everything that is known of these groups."""
    found = await rows.db.read(lambda tx: reads.sums(tx, rows.organization, group_ids or (rows.root,), period, 0))
    return model.merged(item for amounts in found.values() for item in amounts.items())


async def fold(db: Database) -> None:
    while await db.write(store.fold):
        pass


async def end(db: Database, before: Job) -> None:
    """Cancel a job that has no attempt."""
    await db.write(lambda tx: jobs.save_transition(tx, before, decide.cancel(before, "kill", tx.moment, "olga")))


async def cancel(rows: JobRows, job_id: str) -> None:
    await end(rows.db, await rows.load(job_id))


async def folded_and_not(rows: JobRows, *group_ids: str) -> PeriodSums:
    """The same figures before and after they are folded, by hour and by day."""
    before = await known(rows, *group_ids)
    assert await known(rows, *group_ids, period=HOUR_SECONDS) == before
    await fold(rows.db)
    assert await rows.db.read(lambda tx: tx.value("SELECT count(*) FROM figure_entries")) == 0
    after = await known(rows, *group_ids)
    assert after == before == await known(rows, *group_ids, period=HOUR_SECONDS)
    return after


@pytest.mark.feature("P2.figures")
async def test_a_job_that_ends_counts_in_its_group_and_in_those_above(rows: JobRows) -> None:
    team, other = await rows.group("team"), await rows.group("other")
    below = await rows.group("team/prod", team)
    module = await rows.module("team/prod/web", below)
    runner = await rows.runner()
    await runner.finish(await rows.job(module))
    failed = await runner.start(await rows.job(module))
    await rows.take(delivery(failed, 2, PLAN_FAILED, FAILED))
    for group in (below, team, rows.root):
        found = await folded_and_not(rows, group)
        assert (found.ended, found.failed) == ({"SUCCEEDED": 1, "FAILED": 1}, {"engine": 1})
        assert sum(found.waits.values()) == 2
    assert (await folded_and_not(rows, other)).ended == {}
    assert (await known(rows, rows.root)).busy_seconds > 0
    assert (await known(rows, below)).busy_seconds == 0, "the runner is in the topmost group"


@pytest.mark.feature("P2.made-once")
async def test_an_attempt_that_is_repeated_and_a_result_that_arrives_twice_count_once(rows: JobRows) -> None:
    runner, job_id = await rows.runner(), await rows.job(await rows.module())
    first = await runner.start(job_id)
    await rows.gone(first, Report("killed"))
    second = await runner.start(job_id, 2)
    await rows.take(delivery(second, 2, DONE))
    await rows.take(delivery(second, 2, DONE))
    await rows.gone(second, Report("killed"))
    found = await folded_and_not(rows)
    assert found.ended == {"SUCCEEDED": 1}
    assert sum(found.waits.values()) == 2, "each of the attempts has waited"


@pytest.mark.feature("P2.made-once")
async def test_of_two_servers_that_end_a_job_at_once_one_is_counted(rows: JobRows) -> None:
    job_id = await rows.job(await rows.module())
    before = await rows.load(job_id)

    ended = await asyncio.gather(*(end(rows.db, before) for _ in range(4)), return_exceptions=True)
    assert [type(each) for each in ended if each] == [Superseded] * 3
    assert (await folded_and_not(rows)).ended == {"CANCELED": 1}


@pytest.mark.feature("P2.made-once")
async def test_servers_that_fold_at_once_add_each_entry_once(rows: JobRows) -> None:
    modules = [await rows.module() for _ in range(3)]
    for number in range(30):
        await cancel(rows, await rows.job(modules[number % 3]))
    seen: list[int] = []

    async def look() -> None:
        seen.extend([(await known(rows)).ended["CANCELED"] for _ in range(10)])

    await asyncio.gather(look(), *(fold(rows.db) for _ in range(4)), look())
    assert set(seen) == {30}, "a reader sees each entry once while it is folded"
    assert (await known(rows)).ended == {"CANCELED": 30}


@pytest.mark.feature("P2.invariant")
@pytest.mark.parametrize("seed", range(4))
async def test_after_a_random_history_the_figures_are_what_a_scan_finds(
    clock: ShiftedClock, rows: JobRows, seed: int
) -> None:
    """Jobs fail, wait for people, are lost and repeated; modules move, the clock jumps, and folds are killed."""
    chance = random.Random(seed)
    groups = [rows.root, await rows.group("a"), await rows.group("b")]
    modules = {await rows.module(f"m{n}", groups[n % 3]): groups[n % 3] for n in range(5)}
    runner = await rows.runner(slots=100)
    places: dict[str, str] = {}
    for module in list(modules) * 3:
        job_id = await rows.job(module, kind=chance.choice(["PLAN", "APPLY"]))
        await _live(rows, runner, job_id, clock, chance)
        places[job_id] = modules[module]
        modules[module] = chance.choice(groups)  # what has ended stays where it was
        await change_modules(rows.db, module, group_id=modules[module])
        if chance.random() < 0.5:
            await _fold_and_be_killed(rows.db)
        if chance.random() < 0.3:
            await fold(rows.db)
    for is_folded in (False, True):
        if is_folded:
            await fold(rows.db)
        for period in model.PERIODS_SECONDS:
            for group in groups:
                found = await known(rows, group, period=period)
                ended, failed = await rows.db.read(lambda tx, group=group: _scan_jobs(tx, rows.root, group, places))
                assert (found.ended, found.failed) == (ended, failed)
            found = await known(rows, period=period)
            starts, busy = await rows.db.read(_scan_attempts)
            assert sum(found.waits.values()) == starts
            assert found.busy_seconds == pytest.approx(busy, abs=0.01)


async def _scan_jobs(tx: Tx, root: str, group: str, places: dict[str, str]) -> tuple[dict[str, int], dict[str, int]]:
    """Return how many jobs ended in a group, by status, and how many failed, by class."""
    found = [
        each
        for each in await jobs.get_many(tx, sorted(places))
        if each.is_terminal and group in (root, places[each.id])
    ]
    steps = await attempt_store.failed_steps(tx, [(each.id, each.attempt) for each in found])
    classes = [
        class_of(each.status, each.failure_kind, steps.get((each.id, each.attempt)))
        for each in found
        if each.status == "FAILED"
    ]
    return dict(Counter(each.status for each in found)), dict(Counter(each for each in classes if each))


async def _scan_attempts(tx: Tx) -> tuple[int, float]:
    """Return how many attempts started and ended, and for how long attempts occupied slots."""
    found = await tx.all("SELECT claimed_at, started_at, ended_at FROM attempts WHERE ended_at IS NOT NULL")
    started = [row for row in found if row["started_at"] is not None]
    return len(started), sum(max(0.0, row["ended_at"] - row["claimed_at"]) for row in found)


async def _fold_and_be_killed(db: Database) -> None:
    async def work(tx: Tx) -> None:
        await store.fold(tx)
        raise asyncio.CancelledError

    with contextlib.suppress(asyncio.CancelledError):
        await db.write(work)


async def _live(rows: JobRows, runner: Instance, job_id: str, clock: ShiftedClock, chance: random.Random) -> None:
    """Let one of the many lives of a job happen, and leave its module free."""
    kept = KeptPlan(state_version=0, sha256="", size=0, path="")
    for number in range(1, 6):
        clock.advance(chance.choice([0, 1, 90, 7200, -3600]))
        what = chance.choice(["cancel", "finish", "fail", "refuse", "stop", "gone", "hand back", "lose", "ask"])
        if what == "cancel":
            break
        is_started = what not in ("fail", "refuse", "hand back")
        ref = await (runner.start if is_started else runner.claimed)(job_id, number)
        clock.advance(chance.choice([0, 5, 600, 5000, -10]))
        match what:
            case "finish":
                await rows.take(delivery(ref, 2, DONE))
            case "fail":
                await rows.take(delivery(ref, 1, RUNNING, PLAN_FAILED, FAILED))
            case "refuse":
                await service.settle(rows.db, ref, lambda job, attempt, now: decide.refuse(job, attempt, "no", now))
            case "stop":
                await service.settle(rows.db, ref, lambda job, attempt, now: decide.stop(job, attempt, "denied", now))
            case "gone":
                await rows.gone(ref)
            case "hand back":
                await rows.gone(ref, Report("no room"))
            case "lose":
                await service.settle(rows.db, ref, lambda job, attempt, now: decide.missing(job, attempt, "lost", now))
            case _:
                await service.settle(rows.db, ref, lambda job, attempt, now: decide.wait(job, attempt, kept, now))
                clock.advance(chance.choice([0, 60, 4000]))
                before = await rows.load(job_id)
                to = JobStatus(chance.choice(["DECLINED", "QUEUED", "QUEUED", "CANCELED"]))
                await rows.db.write(
                    lambda tx, before=before, to=to: jobs.save_transition(tx, before, before.to(to, tx.moment))
                )
        if (await rows.load(job_id)).is_terminal:
            return
    await cancel(rows, job_id)


@pytest.mark.feature("P2.figures")
async def test_the_figures_of_a_deleted_group_stay_in_those_above(rows: JobRows) -> None:
    team = await rows.group("team")
    module = await rows.module("team/web", team)
    await cancel(rows, await rows.job(module))
    await fold(rows.db)
    for sql in ("DELETE FROM jobs", "DELETE FROM modules", "DELETE FROM groups WHERE path = 'team'"):
        await rows.run(sql)
    assert (await known(rows)).ended == {"CANCELED": 1}


async def test_what_is_too_old_to_be_shown_is_deleted(rows: JobRows) -> None:
    now = int(await rows.db.read(_now))
    old = {
        (rows.root, period, model.start_of(now - age * DAY_SECONDS, period), "ended:FAILED"): 1.0
        for period in model.PERIODS_SECONDS
        for age in (1, 20, 60)
    }
    await rows.db.write(lambda tx: store.add(tx, old))
    await rows.db.write(store.prune)
    assert (await known(rows, period=HOUR_SECONDS)).ended == {"FAILED": 1}
    assert (await known(rows, period=DAY_SECONDS)).ended == {"FAILED": 2}


async def _now(tx: Any) -> float:
    return tx.now


# ---- the histogram


@given(st.lists(st.floats(0.011, 1e6), min_size=1, max_size=60), st.sampled_from([0.5, 0.95]))
def test_a_percentile_of_the_histogram_is_off_by_its_resolution_at_most(waits: list[float], share: float) -> None:
    found = model.percentile(Counter(model.bucket_of(each) for each in waits), share)
    exact = sorted(waits)[math.ceil(share * len(waits)) - 1]
    assert found is not None
    assert exact / 1.2 < found < exact * 1.2


def test_buckets_have_their_upper_bounds_and_merge_by_adding() -> None:
    assert all(model.bucket_of(model.bound_of(each)) == each for each in range(model.MAX_BUCKET + 1))
    assert (model.bucket_of(0), model.bucket_of(1e12)) == (0, model.MAX_BUCKET)
    assert model.percentile({}, 0.5) is None
    merged = model.merged([("wait:4", 1.0), ("wait:4", 2.0), ("wait:8", 1.0), ("busy", 5.0)])
    assert (merged.waits, merged.busy_seconds) == ({4: 3.0, 8: 1.0}, 5.0)


@given(st.floats(0, 1e7), st.floats(0, 1e6), st.sampled_from(model.PERIODS_SECONDS))
def test_a_time_is_divided_among_the_periods_without_loss(since: float, seconds: float, period: int) -> None:
    found = list(model.pieces(since, since + seconds, period))
    assert math.isclose(sum(each for _, each in found), (since + seconds) - since, abs_tol=1e-3)
    assert all(start % period == 0 and 0 < part <= period for start, part in found)
    assert len({start for start, _ in found}) == len(found)
