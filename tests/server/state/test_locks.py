"""A module has one holder at most: the attempt of its active job, or a person at a terminal."""

import asyncio
from typing import Any

import msgspec
import pytest

from terracrew import ids
from terracrew.api.locks import ModuleLock, TakeLock
from terracrew.errors import Conflict, Forbidden, Locked, NotFound
from terracrew.protocol.events import StateFact
from terracrew.server.db.seam import Tx
from terracrew.server.jobs import service
from terracrew.server.jobs.attempts import claim_store, claims, received_states
from terracrew.server.jobs.attempts.claims import ClaimWon
from terracrew.server.principals.model import Principal
from terracrew.server.scheduling import reads as scheduling_reads
from terracrew.server.state import locks, quarantine
from terracrew.server.state import store as states
from terracrew.server.state.model import Received
from tests.builders.job_rows import KEYS, JobRows, begin_code, change_modules, change_states, insert
from tests.builders.transactions import held_open, until_blocked
from tests.server.hub.hub_clients import on_postgres

pytestmark = pytest.mark.feature("J15.lock")
APPLYING = TakeLock(operation="OperationTypeApply", who="ann@laptop", client_lock_id="c1")
BY_HAND = TakeLock(reason="the network is being replaced")


def person(rows: JobRows, name: str = "ann", credential: str = "tok_1") -> Principal:
    """An administrator of the organization, so that the rows need no roles."""
    return Principal(
        "user",
        f"usr_{name}",
        name,
        rows.organization,
        is_system_admin=True,
        credential_id=credential,
        credential="token",
    )


async def take(rows: JobRows, module: str, who: Principal | None = None, asked: TakeLock = BY_HAND) -> ModuleLock:
    holder = who or person(rows)
    return await rows.db.write(lambda tx: locks.take(tx, holder, module, asked))


async def release(rows: JobRows, module: str, who: Principal | None = None, lock_id: str | None = None) -> ModuleLock:
    return await rows.db.write(lambda tx: locks.release(tx, who or person(rows), module, lock_id))


async def force(rows: JobRows, module: str, who: Principal | None = None, lock_id: str | None = None) -> ModuleLock:
    return await rows.db.write(lambda tx: locks.force(tx, who or person(rows, "bob"), module, "gone", lock_id))


async def facts(rows: JobRows, module: str) -> states.VersionFacts:
    return await rows.db.read(lambda tx: states.version_facts(tx, module))


async def test_no_job_is_claimed_while_a_person_holds_the_lock(rows: JobRows) -> None:
    runner, module = await rows.runner(), await rows.module()
    job = await rows.job(module)
    lock = await take(rows, module)
    assert (lock.holder_name, lock.reason, lock.credential_id) == ("ann", BY_HAND.reason, "tok_1")
    assert await runner.claim(job) is None
    assert await runner.claim(await rows.job(await rows.module())) is not None, "another module is free"
    busy, _ = await rows.db.read(scheduling_reads.busy)
    assert module in busy
    await release(rows, module)
    assert module not in (await rows.db.read(scheduling_reads.busy))[0]
    assert await runner.claim(job) is not None


async def test_the_lock_is_refused_while_a_job_is_active_and_not_while_one_waits_for_approval(rows: JobRows) -> None:
    runner, module = await rows.runner(), await rows.module()
    await runner.has(await rows.job(module))
    with pytest.raises(Locked, match="job 1 has the lock"):
        await take(rows, module)
    waiting = await rows.module()
    await rows.job(waiting, status="AWAITING_APPROVAL", kind="APPLY")
    assert (await take(rows, waiting)).holder_name == "ann"


async def test_of_many_people_and_jobs_at_once_exactly_one_gets_the_module(rows: JobRows) -> None:
    runners = [await rows.runner() for _ in range(4)]
    for turn in range(5):
        module = await rows.module()
        jobs = [await rows.job(module) for _ in runners]
        people = [person(rows, f"p{number}", f"tok_{number}") for number in range(4)]
        asked: list[Any] = [take(rows, module, who) for who in people]
        claimed: list[Any] = [runner.claim(job) for runner, job in zip(runners, jobs, strict=True)]
        order = [*asked, *claimed] if turn % 2 else [*claimed, *asked]
        results = await asyncio.gather(*order, return_exceptions=True)
        assert all(isinstance(each, ModuleLock | ClaimWon | Locked | None) for each in results), results
        assert sum(isinstance(each, ModuleLock | ClaimWon) for each in results) == 1, results


@on_postgres
async def test_a_claim_that_began_before_the_lock_was_committed_is_undone(rows: JobRows) -> None:
    """Its statement does not see the lock, which another transaction has written and not committed."""
    runner, module = await rows.runner(), await rows.module()
    job = await rows.job(module)
    async with held_open(rows.db, lambda tx: locks.take(tx, person(rows), module, BY_HAND)):
        claiming = asyncio.create_task(runner.claim(job))
        await until_blocked(rows.db)
    assert await claiming is None
    assert (await rows.load(job)).status == "QUEUED"
    assert await rows.attempts(job) == []


@on_postgres
async def test_a_lock_waits_for_a_claim_that_is_not_committed_and_is_refused(rows: JobRows) -> None:
    runner, module = await rows.runner(), await rows.module()
    job = await rows.job(module)

    async def claim(tx: Tx) -> None:
        claimant = claim_store.Claimant(job, 1, runner.runner_id, runner.id, 1)
        request = claim_store.ClaimRequest(claimant, claims.make_credentials())
        assert (await claims.ClaimGroup(KEYS, "online").work(tx, [request]))[0] is not None

    async with held_open(rows.db, claim):
        taking = asyncio.create_task(take(rows, module))
        await until_blocked(rows.db)
    with pytest.raises(Locked, match="job 1 has the lock"):
        await taking


async def test_a_second_terminal_does_not_get_the_lock_even_with_the_same_token(rows: JobRows) -> None:
    module = await rows.module("net")
    first = await take(rows, module, asked=APPLYING)
    assert await take(rows, module, asked=APPLYING) == first, "a request whose answer was lost is repeated"
    for who, asked in (
        (person(rows), BY_HAND),
        (person(rows), msgspec.structs.replace(APPLYING, client_lock_id="c2")),
        (person(rows, credential="tok_2"), APPLYING),
        (person(rows, "bob"), APPLYING),
    ):
        with pytest.raises(Locked, match="`net` is locked by ann's terminal since "):
            await take(rows, module, who, asked)


async def test_only_the_credential_of_the_lock_releases_it_in_order(rows: JobRows) -> None:
    module = await rows.module()
    await take(rows, module, asked=APPLYING)
    for who in (person(rows, credential="tok_2"), person(rows, "bob")):
        with pytest.raises(Locked):
            await release(rows, module, who)
    with pytest.raises(Locked, match="another id"):
        await release(rows, module, lock_id="c9")
    await release(rows, module, lock_id="c1")
    with pytest.raises(NotFound, match="nobody holds"):
        await release(rows, module)
    assert (await facts(rows, module)).lock_doubt == ""


@pytest.mark.parametrize(
    ("asked", "is_in_doubt"),
    [(APPLYING, True), (BY_HAND, False), (TakeLock(operation=locks.PLAN_OPERATION), False)],
)
async def test_a_lock_of_an_engine_that_was_removed_by_force_leaves_a_doubt(
    rows: JobRows, asked: TakeLock, is_in_doubt: bool
) -> None:
    module = await rows.module()
    await take(rows, module, asked=asked)
    before = (await facts(rows, module)).version
    await force(rows, module)
    after = await facts(rows, module)
    assert (after.lock_doubt == "the lock that ann's terminal held was removed by force") == is_in_doubt
    assert (after.version > before) == is_in_doubt, "no plan from before it is applied any more"
    assert not after.is_locked


async def test_an_apply_after_a_doubt_waits_for_a_person_and_its_state_ends_the_doubt(rows: JobRows) -> None:
    runner, module = await rows.runner(), await rows.module()
    await take(rows, module, asked=APPLYING)
    await force(rows, module)
    ref = await runner.start(await rows.job(module, kind="APPLY"))
    version = (await facts(rows, module)).version
    assert await begin_code(rows.db, ref, version) == "approval"
    await change_modules(rows.db, module, lock_doubt="")
    assert await begin_code(rows.db, ref, version) == "begun"


async def test_a_late_state_of_a_job_does_not_replace_the_state_while_a_person_works(rows: JobRows) -> None:
    runner, module = await rows.runner(), await rows.module()
    ref = await runner.start(await rows.job(module, kind="APPLY"))
    assert await begin_code(rows.db, ref, 0) == "begun"
    await rows.gone(ref)
    await service.cancel(rows.db, person(rows), ref.job_id, "interrupt")
    await take(rows, module)
    [attempt] = await rows.attempts(ref.job_id)
    job = await rows.load(ref.job_id)
    late = Received(StateFact("0" * 64, 1, 1, "a", True), b"x", None)
    await rows.db.write(lambda tx: received_states.receive(tx, job, attempt, 9, late))
    assert (await facts(rows, module)).has_quarantine


async def test_what_blocks_jobs_blocks_the_lock(rows: JobRows) -> None:
    module = await rows.module()
    state_id = ids.new("sta")
    await rows.db.write(
        lambda tx: insert(
            tx,
            "states",
            id=state_id,
            module_id=module,
            status="quarantined",
            job_id=state_id,
            attempt=0,
            event=0,
            origin="engine",
            serial=1,
            lineage="a",
            sha256="",
            size=1,
            content=b"x",
            created_at=tx.now,
        )
    )
    with pytest.raises(Conflict, match="is in quarantine"):
        await take(rows, module)
    await change_states(rows.db, state_id, status="discarded")
    await take(rows, module)
    await change_states(rows.db, state_id, status="quarantined")
    with pytest.raises(Locked, match="locked by ann's terminal"):
        await rows.db.write(lambda tx: quarantine.adopt(tx, person(rows, "bob"), state_id))
    await rows.db.write(lambda tx: quarantine.adopt(tx, person(rows), state_id))


async def test_a_machine_cannot_hold_a_lock(rows: JobRows) -> None:
    module = await rows.module()
    for who in (
        msgspec.structs.replace(person(rows), kind="runner"),
        msgspec.structs.replace(person(rows), credential_id=None),
    ):
        with pytest.raises(Forbidden):
            await take(rows, module, who)


async def test_a_lock_of_a_database_that_was_set_back_ends_where_a_later_claim_proves_it(rows: JobRows) -> None:
    module = await rows.module()
    lock = await take(rows, module, asked=APPLYING)
    at = lock.created_at.timestamp()

    async def remove(before: float) -> bool:
        return await rows.db.write(lambda tx: locks.remove_outdated(tx, module, rows.organization, before))

    assert not await remove(at - 1)
    assert (await facts(rows, module)).is_locked
    assert await remove(at + 1)
    after = await facts(rows, module)
    assert not after.is_locked
    assert after.lock_doubt
    assert await remove(at + 1), "nobody holds it any more"
