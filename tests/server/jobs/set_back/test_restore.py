"""An attempt that a database which was set back has lost is taken again by its receipt, and its module is held."""

import pytest

from terracrew.api.jobs import JobStatus
from terracrew.errors import Forbidden, NotFound, Unavailable
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import Credentials
from terracrew.server.db.seam import Database
from terracrew.server.history import store as history
from terracrew.server.jobs import decide, service
from terracrew.server.jobs.set_back import receipts, restore
from terracrew.server.principals.model import Principal
from terracrew.server.secrets.keyring import Keyring
from tests.builders.deliveries import APPLIED, DONE, delivery, state
from tests.builders.job_rows import KEYS, begin_code, change_attempts, change_groups, change_jobs, change_organizations
from tests.server.jobs.set_back.sites import Site
from tests.server.scheduling.recorded_claims import ClaimRecorder

ADMIN = Principal("user", "usr_1", "olga", None, is_system_admin=True)
FORGET_ATTEMPT = ("DELETE FROM steps", "DELETE FROM attempts")
FORGET_JOB = (*FORGET_ATTEMPT, "DELETE FROM jobs")


async def claimed_and_forgotten(site: Site, *statements: str) -> tuple[AttemptRef, Credentials]:
    """Claim an apply, and set the database back to before it."""
    job_id = await site.rows.job(site.module, kind="APPLY")
    granted = await site.runner.has(job_id)
    for sql in statements:
        await site.rows.run(sql)
    return AttemptRef(job_id, 1), granted.credentials


async def claimed_and_queued_again(site: Site, priority: int = 0) -> tuple[AttemptRef, Credentials]:
    """Claim an apply, and set the database back to when it was queued."""
    found = await claimed_and_forgotten(site, *FORGET_ATTEMPT)
    unclaimed = {"status": "QUEUED", "instance_id": None, "runner_id": None, "module_path": None}
    await change_jobs(site.rows.db, **unclaimed, priority=priority)
    return found


async def claimed_twice(site: Site) -> tuple[str, Credentials]:
    """Lose the first attempt of an apply, claim it a second time, and set the database back to before that.

    Returns the job and the credentials of the second attempt.
    """
    job_id = await site.rows.job(site.module, kind="APPLY")
    await site.runner.start(job_id)
    await service.settle(
        site.rows.db, AttemptRef(job_id, 1), lambda job, attempt, now: decide.missing(job, attempt, "", now)
    )
    granted = await site.runner.has(job_id, 2)
    await site.rows.run("DELETE FROM attempts WHERE number = 2")
    return job_id, granted.credentials


async def show_receipt(database: Database, own: Credentials) -> None:
    await restore.restore(database, receipts.open_receipt(KEYS, own.receipt, own.hub))


async def test_an_attempt_of_a_job_that_does_not_exist_any_more_goes_on_and_its_job_succeeds(
    database: Database,
) -> None:
    """Its module had neither lock nor doubt: a new apply ran beside it, and what it logged and made could not be delivered."""
    site = await Site.make(database)
    ref, own = await claimed_and_forgotten(site, *FORGET_JOB)
    await show_receipt(database, own)
    await restore.recall(database, ref, has_begun=True, is_proven=True)
    job = await site.rows.load(ref.job_id)
    assert (job.status, job.attempt) == (JobStatus.CLAIMED, 1)
    assert await site.runner.claim(await site.rows.job(site.module, kind="PLAN")) is None, "the module is locked"
    await site.rows.take(delivery(ref, 1, DONE))
    assert (await site.rows.load(ref.job_id)).status is JobStatus.SUCCEEDED
    hold = await database.read(history.open_hold)
    assert hold is not None
    assert hold.reason == f"attempt 1 of job {job.number} is not in the database"


async def test_an_attempt_of_a_job_that_was_queued_at_the_backup_takes_it_again(database: Database) -> None:
    site = await Site.make(database)
    ref, own = await claimed_and_queued_again(site)
    await show_receipt(database, own)
    assert (await site.rows.load(ref.job_id)).status is JobStatus.CLAIMED
    assert await begin_code(database, ref, 0) == "held"


@pytest.mark.feature("S5.caps")
@pytest.mark.parametrize("is_queued", [True, False])
async def test_a_restored_job_counts_below_the_caps_of_its_groups_and_stops_no_scheduler(
    database: Database, is_queued: bool
) -> None:
    """Its row had no path of a module: no cap below the root counted it, and the scheduler of every organization failed with an
    AttributeError as soon as any group had a cap."""
    site = await Site.make(database)
    group = await site.rows.group("team")
    site.module = await site.rows.module("team/net", group)
    _, own = await (claimed_and_queued_again(site) if is_queued else claimed_and_forgotten(site, *FORGET_JOB))
    await show_receipt(database, own)
    await change_groups(database, group, max_running_jobs=1)
    recorder = ClaimRecorder(site.rows)
    _, socket = recorder.connect(site.runner)
    capped = await site.rows.job(await site.rows.module("team/dns", group), kind="PLAN")
    other = await site.rows.job(await site.rows.module(), kind="PLAN")
    await recorder.scheduler.sweep()
    assert socket.claims == [other], "the restored job has the only place in its group"
    assert await site.runner.claim(capped) is None, "the claim counts it, too"
    assert await site.runner.claim(other) is not None


async def test_a_later_attempt_replaces_the_one_that_the_database_knows(database: Database) -> None:
    site = await Site.make(database)
    job_id, second = await claimed_twice(site)
    await change_attempts(site.rows.db, ended_at=None, outcome=None)
    await change_jobs(site.rows.db, attempt=1, status="PROCESSING")
    await show_receipt(database, second)
    first, later = await site.rows.attempts(job_id)
    assert (first.outcome, first.is_in_doubt, later.ended_at) == ("lost", True, None)
    assert (await site.rows.load(job_id)).attempt == 2


async def test_a_later_attempt_waits_for_one_that_has_a_permit(database: Database) -> None:
    """Attempt 1 was claimed again after the release, with the approval of a person, and was changing the module when attempt 2 of
    the lost time came back and took its place."""
    site = await Site.make(database)
    job_id, second = await claimed_twice(site)
    await change_attempts(site.rows.db, ended_at=None, outcome=None)
    await change_jobs(site.rows.db, attempt=1, status="PROCESSING")
    assert await begin_code(database, AttemptRef(job_id, 1), 0) == "begun"
    with pytest.raises(Unavailable):
        await show_receipt(database, second)
    [first] = await site.rows.attempts(job_id)
    assert first.ended_at is None
    assert (await site.rows.load(job_id)).attempt == 1
    assert await database.read(history.open_hold) is not None


async def test_a_state_that_builds_on_another_one_is_quarantined(database: Database) -> None:
    """Another job had changed the module since the release, and the state of the attempt, which knows nothing of that, became the
    current one."""
    site = await Site.make(database)
    ref, own = await claimed_and_forgotten(site, *FORGET_JOB)
    other = await site.runner.start(await site.rows.job(site.module, kind="APPLY"))
    assert await begin_code(database, other, 0) == "begun"
    record, received = state(1)
    await site.rows.take(delivery(other, 2, record, APPLIED, DONE, received={2: received}))
    await show_receipt(database, own)
    await restore.recall(database, ref, has_begun=True, is_proven=True)
    record, received = state(2)
    await site.rows.take(delivery(ref, 1, record, received={1: received}))
    found = await database.read(lambda tx: tx.all("SELECT status FROM states ORDER BY serial"))
    assert [row["status"] for row in found] == ["current", "quarantined"]


async def test_an_attempt_that_may_have_begun_is_not_handed_back(database: Database) -> None:
    """Its runner was killed before it had noted the process, which changed the module meanwhile."""
    site = await Site.make(database)
    job_id = await site.rows.job(site.module, kind="APPLY")
    await site.runner.has(job_id)
    await site.hold()
    ref = AttemptRef(job_id, 1)
    for settle in (decide.hand_back, decide.unconnected):
        await service.settle(
            database, ref, lambda job, attempt, now, settle=settle: settle(job, attempt, "no process", now)
        )
        assert (await site.rows.load(job_id)).status is JobStatus.CLAIMED


async def test_beside_another_job_of_the_module_it_is_lost_and_the_module_in_doubt(database: Database) -> None:
    site = await Site.make(database)
    ref, own = await claimed_and_queued_again(site)
    await service.cancel(database, ADMIN, ref.job_id, "interrupt")
    await site.runner.start(await site.rows.job(site.module, kind="PLAN"))
    await show_receipt(database, own)
    [attempt] = await site.rows.attempts(ref.job_id)
    assert (attempt.outcome, attempt.is_in_doubt) == ("lost", True)
    assert ref in [doubt.ref for doubt in await site.doubts()]


async def test_a_queued_job_that_it_cannot_own_never_gets_an_attempt_of_the_same_number(database: Database) -> None:
    site = await Site.make(database)
    ref, own = await claimed_and_queued_again(site, priority=-9)
    await change_jobs(site.rows.db, status="AWAITING_APPROVAL")
    await site.runner.start(await site.rows.job(site.module, kind="PLAN"))
    await change_jobs(site.rows.db, ref.job_id, status="QUEUED")
    await show_receipt(database, own)
    assert (await site.rows.load(ref.job_id)).attempt == 2


async def test_a_job_gets_another_number_if_its_own_was_given_again(database: Database) -> None:
    site = await Site.make(database)
    ref, own = await claimed_and_forgotten(site, *FORGET_JOB)
    await site.rows.job(await site.rows.module())
    await change_jobs(site.rows.db, number=1)
    await change_organizations(site.rows.db, next_job_number=2)
    await show_receipt(database, own)
    assert (await site.rows.load(ref.job_id)).number == 2


async def test_a_receipt_is_good_for_its_own_attempt_and_server_only(database: Database) -> None:
    site = await Site.make(database)
    _, own = await claimed_and_forgotten(site, *FORGET_JOB)
    with pytest.raises(Forbidden, match="another attempt"):
        receipts.open_receipt(KEYS, own.receipt, "tch_" + "x" * 43)
    for text in ("", "x", "\u20ac", own.receipt[:-8], own.receipt.swapcase()):
        with pytest.raises(Forbidden, match="cannot be read"):
            receipts.open_receipt(KEYS, text, own.hub)
    with pytest.raises(Forbidden, match="cannot be read"):
        receipts.open_receipt(Keyring([bytes([1]) * 32]), own.receipt, own.hub)


async def test_the_receipt_of_a_deleted_module_neither_writes_nor_holds_anything(database: Database) -> None:
    """Otherwise everybody who may delete a module could stop the jobs of all others."""
    site = await Site.make(database)
    _, own = await claimed_and_forgotten(site, *FORGET_JOB, "DELETE FROM modules")
    with pytest.raises(NotFound, match="module of job 1 does not exist"):
        await show_receipt(database, own)
    assert await database.read(history.open_hold) is None


async def test_a_receipt_of_an_attempt_that_the_database_has_changes_nothing(database: Database) -> None:
    site = await Site.make(database)
    _, own = await claimed_and_forgotten(site)
    await show_receipt(database, own)
    assert await database.read(history.open_hold) is None


async def test_a_restored_attempt_counts_as_begun_until_it_says_otherwise(database: Database) -> None:
    """Before its hello was handled, the reaper took it for one that had not begun, and queued its job again."""
    site = await Site.make(database)
    ref, own = await claimed_and_forgotten(site, *FORGET_JOB)
    await show_receipt(database, own)
    [attempt] = await site.rows.attempts(ref.job_id)
    assert attempt.may_have_begun
    assert attempt.heard_at is not None
    assert decide.missing(await site.rows.load(ref.job_id), attempt, "", attempt.claimed_at) is None


async def test_a_receipt_whose_number_was_given_again_holds_the_server_and_is_refused(database: Database) -> None:
    """Two engines changed one module, and nobody was told."""
    site = await Site.make(database)
    ref, own = await claimed_and_queued_again(site)
    await site.runner.start(ref.job_id)
    with pytest.raises(Forbidden, match="has got its number"):
        await show_receipt(database, own)
    assert await database.read(history.open_hold) is not None
    assert await site.doubts() != []


async def test_a_late_receipt_does_not_hold_a_released_server_again(database: Database) -> None:
    site = await Site.make(database)
    ref, own = await claimed_and_forgotten(site, *FORGET_JOB)
    hold = await site.hold()
    await database.write(lambda tx: history.release(tx, hold.id, "olga", is_untouched=True))
    await show_receipt(database, own)
    assert await database.read(history.open_hold) is None
    assert await site.doubts() != [], "its own module is in doubt"
    assert (await site.rows.load(ref.job_id)).status is JobStatus.CLAIMED


async def test_a_restored_job_that_has_lost_its_own_inputs_fails_instead_of_running_without_them(
    database: Database,
) -> None:
    site = await Site.make(database)
    ref, own = await claimed_and_forgotten(site, *FORGET_JOB)
    await show_receipt(database, own)
    await change_jobs(site.rows.db, has_lost_inputs=True)
    assert await begin_code(database, ref, 0) == "held"
    job = await site.rows.load(ref.job_id)
    assert job.status is JobStatus.FAILED
    assert "lost the inputs" in job.message


async def test_a_cancel_that_was_asked_for_since_is_kept(database: Database) -> None:
    site = await Site.make(database)
    job_id, second = await claimed_twice(site)
    await change_jobs(site.rows.db, attempt=1, cancel_mode="kill")
    await show_receipt(database, second)
    assert (await site.rows.load(job_id)).cancel_mode == "kill"
