"""Roll-outs and their runners go exactly by their tables, and the database enforces the same rules."""

from datetime import UTC, datetime
from itertools import product

import pytest
from msgspec.structs import replace

from terracrew import ids
from terracrew.api.rollouts import (
    ROLLOUT_RUNNER_TRANSITIONS,
    ROLLOUT_TRANSITIONS,
    Rollout,
    RolloutRunner,
    RolloutRunnerStatus,
    RolloutStatus,
)
from terracrew.errors import Conflict, Invalid, Superseded
from terracrew.server.rollouts import store
from tests.builders.job_rows import JobRows

pytestmark = pytest.mark.feature("V2.rollouts")
NOW = datetime(2026, 11, 16, 14, 40, tzinfo=UTC)
R, S = RolloutStatus, RolloutRunnerStatus


def new(rows: JobRows, status: RolloutStatus = R.ROLLING) -> Rollout:
    return Rollout(
        id=ids.new("rlo"),
        organization_id=rows.organization,
        version="0.1.0-rc.2",
        status=status,
        stop_reason="it failed" if status is R.STOPPED else "",
        is_automatic=False,
        started_by="usr_1",
        started_by_name="marta",
        started_at=NOW,
        ended_at=NOW if status in (R.STOPPED, R.DONE) else None,
    )


def runner(rollout: Rollout, status: RolloutRunnerStatus = S.WAITING) -> RolloutRunner:
    return RolloutRunner(
        rollout_id=rollout.id,
        runner_id=ids.new("rnr"),
        group_id="grp_1",
        path="net/a",
        wave=None if status is S.BY_HAND else 1,
        from_version="0.1.0-rc.1",
        status=status,
        job_id="fjb_1" if status in (S.UPDATING, S.UPDATED) else None,
        changed_at=NOW,
    )


async def test_every_pair_of_statuses_of_a_roll_out_goes_by_the_table(rows: JobRows) -> None:
    for before, after in product(R, R):
        rollout = new(rows, before)
        if after not in ROLLOUT_TRANSITIONS[before]:
            with pytest.raises(Conflict):
                rollout.to(after, NOW, "why")
            continue
        changed = rollout.to(after, NOW, "why" if after is R.STOPPED else "")
        await rows.db.write(lambda tx, rollout=rollout: store.insert(tx, rollout, []))
        await rows.db.write(lambda tx, rollout=rollout, changed=changed: store.save(tx, rollout, changed))
        assert await rows.db.read(lambda tx, rollout=rollout: store.get(tx, rollout.id)) == changed
        with pytest.raises(Superseded):
            await rows.db.write(lambda tx, rollout=rollout, changed=changed: store.save(tx, rollout, changed))
        await rows.db.write(lambda tx: tx.run("DELETE FROM rollouts"))


async def test_every_pair_of_statuses_of_a_runner_goes_by_the_table(rows: JobRows) -> None:
    rollout = new(rows)
    pairs = list(product(S, S))
    members = [runner(rollout, before) for before, _ in pairs]
    await rows.db.write(lambda tx: store.insert(tx, rollout, members))
    for member, (before, after) in zip(members, pairs, strict=True):
        if after not in ROLLOUT_RUNNER_TRANSITIONS[before]:
            with pytest.raises(Conflict):
                member.to(after, NOW)
            continue
        job = "fjb_1" if after in (S.UPDATING, S.UPDATED, S.FAILED) else None
        changed = member.to(after, NOW, job_id=job, words="because")
        await rows.db.write(lambda tx, member=member, changed=changed: store.save_runner(tx, member, changed))
        assert changed in await rows.db.read(lambda tx: store.runners(tx, rollout.id))
        with pytest.raises(Superseded):
            await rows.db.write(lambda tx, member=member, changed=changed: store.save_runner(tx, member, changed))


@pytest.mark.parametrize(
    "rubbish",
    [
        "UPDATE rollouts SET status = 'finished'",
        "UPDATE rollouts SET status = 'done'",
        "UPDATE rollouts SET stop_reason = 'it failed'",
        "UPDATE rollouts SET stop_runner_id = 'rnr_1'",
        "UPDATE rollout_runners SET status = 'updating'",
        "UPDATE rollout_runners SET job_id = 'fjb_1'",
        "UPDATE rollout_runners SET wave = NULL",
        "UPDATE rollout_runners SET wave = -1",
    ],
)
async def test_the_database_itself_refuses_what_the_tables_exclude(rows: JobRows, rubbish: str) -> None:
    rollout = new(rows)
    await rows.db.write(lambda tx: store.insert(tx, rollout, [runner(rollout)]))
    with pytest.raises((Invalid, Conflict)):
        await rows.db.write(lambda tx: tx.run(rubbish))  # pyright: ignore[reportArgumentType]


async def test_an_organization_has_one_open_roll_out(rows: JobRows) -> None:
    first, second = new(rows), new(rows, R.PAUSED)
    await rows.db.write(lambda tx: store.insert(tx, first, []))
    with pytest.raises(Conflict) as refused:
        await rows.db.write(lambda tx: store.insert(tx, second, []))
    assert refused.value.details["constraint"] == "rollouts_open"
    await rows.db.write(lambda tx: store.save(tx, first, first.to(R.DONE, NOW)))
    await rows.db.write(lambda tx: store.insert(tx, second, []))
    assert await rows.db.read(lambda tx: store.open_of(tx, rows.organization)) == second


async def test_a_stopped_roll_out_is_followed_while_one_of_its_runners_is_updated(rows: JobRows) -> None:
    stopped = new(rows, R.STOPPED)
    member = runner(stopped, S.UPDATING)
    await rows.db.write(lambda tx: store.insert(tx, stopped, [member]))
    assert await rows.db.read(lambda tx: store.at_work(tx, "", 10)) == [stopped.id]
    updated = replace(member, status=S.UPDATED)
    await rows.db.write(lambda tx: store.save_runner(tx, member, updated))
    assert await rows.db.read(lambda tx: store.at_work(tx, "", 10)) == []
