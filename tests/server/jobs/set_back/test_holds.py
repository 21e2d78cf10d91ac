"""A server whose database was set back hands out no change, and decides nothing about attempts that it may have forgotten."""

from functools import partial
from pathlib import Path

import pytest

from terracrew.api.jobs import JobStatus
from terracrew.errors import Unavailable
from terracrew.protocol import messages
from terracrew.protocol.messages import AttemptRef
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database
from terracrew.server.history import store as history
from terracrew.server.history.points import History
from terracrew.server.jobs import decide, service
from terracrew.server.jobs.attempts import begin as permission
from terracrew.server.jobs.set_back import detection, restore
from terracrew.server.jobs.set_back import loop as set_back
from terracrew.server.principals.model import Principal
from terracrew.server.scheduling import reads as scheduling
from tests.builders.deliveries import DONE, delivery
from tests.builders.job_rows import KEYS, begin_code, policy_checks
from tests.server.jobs.set_back.sites import Site


async def test_a_held_server_hands_out_plans_and_no_changes(database: Database) -> None:
    site = await Site.make(database)
    other = await site.rows.module()
    apply, plan = await site.rows.job(site.module, kind="APPLY"), await site.rows.job(other, kind="PLAN")
    await site.hold()
    assert await site.runner.claim(apply) is None
    assert await site.runner.claim(plan) is not None
    busy, _ = await database.read(scheduling.busy)
    assert site.module in busy


async def test_the_decision_about_a_claim_says_the_same_as_its_statement(database: Database) -> None:
    site = await Site.make(database)
    job = await site.rows.load(await site.rows.job(site.module, kind="APPLY"))
    seat = decide.ClaimContext(site.runner.runner_id, site.runner.id, True, True, 1, True)
    decided = [
        decide.claim(
            job,
            1,
            seat,
            job.created_at,
            is_module_busy=False,
            is_first_of_module=True,
            has_quarantine=False,
            made_by=None,
            is_module_held=is_held,
        )
        for is_held in (True, False)
    ]
    assert [each is not None for each in decided] == [False, True]


async def test_permission_to_apply_is_refused_and_the_job_waits_in_the_queue(database: Database) -> None:
    site = await Site.make(database)
    ref = await site.runner.start(await site.rows.job(site.module, kind="APPLY"))
    await site.hold()
    assert await begin_code(database, ref, 0) == "held"
    job = await site.rows.load(ref.job_id)
    assert (job.status, job.attempt) == (JobStatus.QUEUED, 2)


async def test_a_released_module_gets_its_jobs_and_is_in_doubt_until_an_approved_plan_begins(
    database: Database,
) -> None:
    site = await Site.make(database)
    job = await site.rows.job(site.module, kind="APPLY")
    hold = await site.hold()
    await database.write(lambda tx: history.release_module(tx, hold.id, site.module, "olga", is_untouched=False))
    ref = await site.runner.start(job)
    assert await begin_code(database, ref, 0) == "approval"
    assert [doubt.ref for doubt in await site.doubts()] == [AttemptRef(hold.id, 0)]
    [words] = decide.reasons_to_ask(
        await site.rows.load(job), decide.ModuleFacts(0, False, tuple(await site.doubts())), has_waited=False
    )
    assert words == "the server's database was or may have been set back, so this module may have been changed since"


async def test_a_module_that_is_released_twice_was_released_by_the_first_person(database: Database) -> None:
    site = await Site.make(database)
    hold = await site.hold()
    for name in ("olga", "ivan"):
        await database.write(
            partial(history.release_module, hold_id=hold.id, module_id=site.module, by=name, is_untouched=False)
        )
    row = await database.read(
        lambda tx: tx.one("SELECT released_by FROM held_modules WHERE module_id = :id", id=site.module)
    )
    assert row is not None
    assert row["released_by"] == "olga"


async def test_a_module_that_nobody_has_touched_can_be_released_without_a_doubt(database: Database) -> None:
    site = await Site.make(database)
    touched = await site.rows.module()
    hold = await site.hold()
    await database.write(lambda tx: history.note_evidence(tx, hold.id, touched, "it was changed"))
    await database.write(lambda tx: history.release(tx, hold.id, "olga", is_untouched=True))
    assert await site.doubts() == []
    site.module = touched
    assert await site.doubts() != []


async def test_an_attempt_without_contact_counts_as_begun_and_is_not_queued_again(database: Database) -> None:
    """After a restore, its runner came back without it: it had been applied since the backup, and was applied a second time."""
    site = await Site.make(database)
    ref = await site.runner.start(await site.rows.job(site.module, kind="APPLY"))
    await site.hold()
    missing = await service.settle(
        database, ref, lambda job, attempt, now: decide.missing(job, attempt, "its runner came back without it", now)
    )
    assert missing is None
    assert (await site.rows.load(ref.job_id)).status is JobStatus.PROCESSING


async def test_an_executor_that_has_not_begun_says_so_and_its_attempt_is_as_before(database: Database) -> None:
    site = await Site.make(database)
    ref = await site.runner.start(await site.rows.job(site.module, kind="APPLY"))
    await site.hold()
    await restore.recall(database, ref, has_begun=False, is_proven=False)
    [attempt] = await site.rows.attempts(ref.job_id)
    assert not attempt.may_have_changed


async def test_what_an_executor_says_of_its_begin_is_recorded_before_it_can_be_lost(database: Database) -> None:
    """A host that was killed after a restore counted as one that had not begun, and everything was made twice."""
    site = await Site.make(database)
    ref = await site.runner.start(await site.rows.job(site.module, kind="APPLY"))
    await restore.recall(database, ref, has_begun=True, is_proven=True)
    await site.rows.gone(ref, decide.Report("killed", 1, is_delivered=False))
    [attempt] = await site.rows.attempts(ref.job_id)
    assert attempt.begun_at is not None
    assert attempt.is_in_doubt


async def test_an_ended_attempt_that_has_begun_after_all_leaves_its_module_in_doubt(database: Database) -> None:
    site = await Site.make(database)
    ref = await site.runner.start(await site.rows.job(site.module, kind="APPLY"))
    await service.settle(database, ref, lambda job, attempt, now: decide.missing(job, attempt, "", now))
    await restore.recall(database, ref, has_begun=True, is_proven=True)
    assert [doubt.ref for doubt in await site.doubts()] == [ref]


async def test_a_begin_on_a_database_that_lost_the_servers_own_writes_holds_the_server(database: Database) -> None:
    """A failover to a replica that lags: the server itself knows what it has written."""
    site = await Site.make(database)
    own = History(KEYS)
    first = await site.runner.start(await site.rows.job(site.module, kind="APPLY"))
    asked = messages.Begin(0)
    assert isinstance(
        await permission.permit(database, Registry(), own, policy_checks(database), first, asked), messages.Begun
    )
    await site.rows.take(delivery(first, 2, DONE))
    second = await site.runner.start(await site.rows.job(await site.rows.module(), kind="APPLY"))
    await site.rows.run("DELETE FROM history")
    with pytest.raises(Unavailable, match="connect again"):
        await permission.permit(database, Registry(), own, policy_checks(database), second, asked)
    assert (await site.rows.load(second.job_id)).attempt == 1, "its next hello says what it had begun"
    await database.write(own.add)
    answer = await permission.permit(database, Registry(), own, policy_checks(database), second, asked)
    assert isinstance(answer, messages.BeginRefused)
    assert answer.code == "held"
    hold = await database.read(history.open_hold)
    assert hold is not None
    assert hold.reason == set_back.LOST_OWN_WRITES


async def test_a_later_point_of_the_lost_history_does_not_hold_a_released_server_again(database: Database) -> None:
    site = await Site.make(database)
    told = History(KEYS)
    points = [
        await database.write(told.add),
        await database.write(lambda tx: told.add(tx, site.module, AttemptRef("job_1", 1))),
    ]
    await site.rows.run("DELETE FROM history")
    await detection.compare(database, History(KEYS), points[:1], "runner a")
    hold = await database.read(history.open_hold)
    assert hold is not None
    await database.write(lambda tx: history.release(tx, hold.id, "olga", is_untouched=True))
    assert await site.doubts() == []
    await detection.compare(database, History(KEYS), points, "runner b")
    assert await database.read(history.open_hold) is None
    assert await site.doubts() != [], "what runner b was told is about this module"


async def test_a_runner_that_tells_the_same_again_brings_no_doubt_back(database: Database) -> None:
    """A runner tells its last points with every hello, so a module that a person had looked at was in doubt again whenever a runner
    reconnected."""
    site = await Site.make(database)
    told = History(KEYS)
    point = await database.write(lambda tx: told.add(tx, site.module))
    await site.rows.run("DELETE FROM history")
    await detection.compare(database, History(KEYS), [point], "runner a")
    assert await site.doubts() != []
    await database.write(lambda tx: history.end_doubt(tx, site.module))
    await detection.compare(database, History(KEYS), [point], "runner a")
    assert await site.doubts() == []


async def test_the_start_of_a_server_holds_it_for_a_reason_or_for_what_an_earlier_process_wrote(
    database: Database, tmp_path: Path
) -> None:
    file = tmp_path / "history"
    await set_back.at_start(database, History(KEYS, file), "")
    assert await database.read(history.open_hold) is None
    await set_back.at_start(database, History(KEYS, file), "")
    assert await database.read(history.open_hold) is None
    await database.write(lambda tx: tx.run("DELETE FROM history"))
    await database.write(History(KEYS).add)
    await set_back.at_start(database, History(KEYS, file), "")
    hold = await database.read(history.open_hold)
    assert hold is not None
    assert hold.reason.startswith("an earlier process of this server knows of")


async def test_what_an_executor_says_without_a_proof_gives_it_no_permission(database: Database) -> None:
    """Whoever had the credential of an attempt could give itself the permission to apply, around approvals and holds."""
    site = await Site.make(database)
    ref = await site.runner.start(await site.rows.job(site.module, kind="APPLY"))
    await site.hold()
    await restore.recall(database, ref, has_begun=True, is_proven=False)
    [attempt] = await site.rows.attempts(ref.job_id)
    assert (attempt.begun_at, attempt.may_have_begun) == (None, True)
    assert await begin_code(database, ref, 0) == "held"


async def test_only_the_point_of_its_own_begin_proves_it(database: Database) -> None:
    site = await Site.make(database)
    own = History(KEYS)
    ref = await site.runner.start(await site.rows.job(site.module, kind="APPLY"))
    answer = await permission.permit(database, Registry(), own, policy_checks(database), ref, messages.Begin(0))
    assert isinstance(answer, messages.Begun)
    minute = await database.write(own.add)
    assert own.prove_begin([minute, answer.history], ref)
    assert not own.prove_begin([minute], ref)
    assert not own.prove_begin([answer.history], AttemptRef(ref.job_id, 2))
    assert not own.prove_begin(["", "x.y", answer.history[:-4]], ref)


async def test_a_second_set_back_holds_released_modules_again(database: Database) -> None:
    site = await Site.make(database)
    hold = await site.hold()
    await database.write(lambda tx: history.release_module(tx, hold.id, site.module, "olga", is_untouched=True))
    later = hold.started_at.timestamp() + 60
    again = await database.write(lambda tx: detection.start(tx, "set back again", lost_at=later))
    assert again.id == hold.id
    assert await database.read(lambda tx: history.is_held(tx, site.module))
    assert await site.doubts() != []


async def test_a_hold_by_a_person_does_not_cover_what_the_database_has_lost(database: Database) -> None:
    site = await Site.make(database)
    lost = await database.write(History(KEYS).add)
    await site.rows.run("DELETE FROM history")
    admin = Principal("user", "usr_1", "olga", None, is_system_admin=True)
    asked = await database.write(lambda tx: detection.start_by(tx, admin, "maintenance"))
    await database.write(lambda tx: history.release(tx, asked.id, "olga", is_untouched=True))
    await detection.compare(database, History(KEYS), [lost], "runner a")
    found = await database.read(history.open_hold)
    assert found is not None
    assert found.is_set_back


async def test_a_server_notices_that_a_point_of_another_server_is_gone(database: Database) -> None:
    site = await Site.make(database)
    one, other = History(KEYS), History(KEYS)
    await database.write(one.add)
    lost = await database.write(other.add)
    one.note_of_others(lost.partition(".")[0])
    assert not await database.read(one.lacks_latest)
    await site.rows.run("DELETE FROM history WHERE id = :id", id=lost.partition(".")[0])
    assert await database.read(one.lacks_latest)
