"""What is older than the settings keep it is removed; what is still needed stays, and a removed log says that it was removed."""

import json
from typing import Any

import msgspec
import pytest
from pydantic import ValidationError

from terracrew.api.operations import RetentionPolicy, Tally
from terracrew.protocol.spec import ArchiveSource, GitSource, MergeResult, Source
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import to_params
from terracrew.server.logs.mover import Mover
from terracrew.server.retention import passes, policy
from terracrew.server.retention.loop import Retention
from terracrew.server.retention.rules import RULES
from terracrew.settings.server import ServerSettings
from tests.builders.clock import ShiftedClock
from tests.builders.deliveries import DONE, RUNNING, log
from tests.builders.job_rows import change_attempts, change_jobs, change_states
from tests.server.simulated_runner import SimulatedAttempt, SimulatedRunner, watching
from tests.server.state.stored_states import applied, content
from tests.server.tree.modules.packed_modules import packed

DAY_SECONDS = 86400.0
ALL = RetentionPolicy(logs_days=90, states_days=90, states_count=3, archives_days=90)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "PAUSE_SECONDS", 0)


async def write(runner: SimulatedRunner, sql: Any, **params: Any) -> None:
    await runner.server.db.write(lambda tx: tx.run(sql, **params))


async def due(runner: SimulatedRunner, wanted: RetentionPolicy = ALL) -> dict[str, Tally]:
    found = {rule.kind: await passes.preview(runner.server.db, wanted, rule) for rule in RULES}
    return {kind: tally for kind, tally in found.items() if tally.count}


async def remove(runner: SimulatedRunner, wanted: RetentionPolicy = ALL) -> dict[str, Tally]:
    async def renew() -> bool:
        return True

    return await passes.remove_due(runner.server.db, wanted, renew)


async def moved(runner: SimulatedRunner) -> SimulatedAttempt:
    """An ended attempt whose log is in the object store."""
    attempt = await runner.run()
    await attempt.deliver(RUNNING, log("one\n"), log("two\n"), DONE)
    server = runner.server
    await Mover(server.db, server.objects, server.settings.uploads, server.id, 0.0).move(attempt.ref.job_id, 1)
    return attempt


async def test_a_removed_log_says_that_and_when_it_was_removed(runner: SimulatedRunner, clock: ShiftedClock) -> None:
    attempt = await moved(runner)
    clock.advance(89 * DAY_SECONDS)
    assert await due(runner) == {}
    clock.advance(2 * DAY_SECONDS)
    stored = await runner.app.scalar("SELECT stored_bytes FROM log_objects")
    assert await due(runner) == {"logs": Tally(1, stored)}
    assert await due(runner, RetentionPolicy()) == {}  # the default keeps it
    assert await remove(runner) == {"logs": Tally(1, stored)}
    assert await remove(runner) == {}
    path = f"/api/v1/jobs/{attempt.ref.job_id}/log"
    answer = await runner.app.admin.get(path)
    assert answer.status_code == 200
    assert answer.text.startswith("This log was removed on 20")
    assert answer.text.endswith(" by retention after 90 days.\n")
    assert answer.headers["X-Log-Lines"] == "1"
    assert (await runner.app.admin.get(f"{path}?line=1&lines=5")).text == answer.text
    found = [(await runner.app.admin.get(f"{path}/search?text={text}")).json() for text in ("was removed", "two")]
    assert [[hit["text"] for hit in page["hits"]] for page in found] == [[answer.text.rstrip()], []]
    (event,) = [json.loads(line) for line in (await runner.app.admin.get(f"{path}?format=events")).text.splitlines()]
    assert event["text"] == answer.text
    async with runner.listening() as url, watching(url, runner.app.admin, f"{path}/stream") as viewer:
        rest = await viewer.rest()
    assert [event.name for event in rest if event.name != "job"] == ["log", "end"]
    name = await runner.app.scalar("SELECT name FROM object_deletions")
    assert name.startswith(f"logs/{attempt.ref.job_id}/1/")


async def test_the_log_of_a_job_that_waits_or_of_an_attempt_in_doubt_stays(
    runner: SimulatedRunner, clock: ShiftedClock
) -> None:
    waiting, doubtful = await moved(runner), await moved(runner)
    clock.advance(1000 * DAY_SECONDS)
    await change_jobs(runner.server.db, waiting.ref.job_id, status="AWAITING_APPROVAL", finished_at=None)
    await change_attempts(runner.server.db, doubtful.ref.job_id, is_in_doubt=True)
    assert await remove(runner) == {}


async def test_old_states_go_but_never_the_current_one_one_in_quarantine_or_one_of_the_newest(
    runner: SimulatedRunner, clock: ShiftedClock
) -> None:
    await applied(runner, *(content(serial) for serial in range(1, 7)))
    clock.advance(91 * DAY_SECONDS)
    ids = [row["id"] for row in await runner.server.db.read(lambda tx: tx.all("SELECT id FROM states ORDER BY id"))]
    await change_states(runner.server.db, ids[0], status="quarantined", version=None)
    found = await due(runner)
    assert found["states"].count == 2
    assert await remove(runner) == found
    left = await runner.server.db.read(lambda tx: tx.all("SELECT id FROM states ORDER BY id"))
    assert [row["id"] for row in left] == [ids[0], *ids[3:]]
    assert await runner.app.scalar("SELECT status FROM states WHERE id = :id", id=ids[-1]) == "current"
    clock.advance(2 * DAY_SECONDS)
    keep_one = RetentionPolicy(states_days=1, states_count=1)
    assert (await remove(runner, keep_one))["states"].count == 2
    assert await runner.app.scalar("SELECT count(*) FROM states WHERE status = 'current'") == 1


async def test_states_that_were_discarded_do_not_take_the_place_of_versions(
    runner: SimulatedRunner, clock: ShiftedClock
) -> None:
    """Ten states that nobody could read, each discarded by a person, were the newest ten: every earlier version went."""
    await applied(runner, *(content(serial) for serial in range(1, 8)))
    clock.advance(91 * DAY_SECONDS)
    ids = [row["id"] for row in await runner.server.db.read(lambda tx: tx.all("SELECT id FROM states ORDER BY id"))]
    await change_states(runner.server.db, *ids[3:], status="discarded", version=None)
    await change_states(runner.server.db, ids[2], status="current")
    assert "states" not in await due(runner)


class _Row(msgspec.Struct):
    source: Source


async def archive(runner: SimulatedRunner, number: int) -> ArchiveSource:
    id_ = f"arc_{number:032x}"

    async def work(tx: Tx) -> None:
        await tx.run(
            """INSERT INTO archives (id, organization_id, sha256, size, created_by, created_at)
            VALUES (:id, :organization_id, '', 7, '', :now)""",
            id=id_,
            organization_id=runner.server.organization_id,
            now=tx.now,
        )

    await runner.server.db.write(work)
    await runner.server.objects.put(f"archives/{id_}", b"content")
    return ArchiveSource(id_, "", "", 7)


async def test_an_archive_that_was_uploaded_just_now_stays_where_the_wall_clock_is_months_behind(
    runner: SimulatedRunner, clock: ShiftedClock
) -> None:
    """It got the time of the wall clock, and was removed as unused before a module could use it."""
    clock.advance(120 * DAY_SECONDS)
    answer = await runner.app.admin.post("/api/v1/archives", content=packed(("main.tf", b"")))
    assert answer.status_code == 201, answer.text
    assert await remove(runner) == {}
    clock.advance(8 * DAY_SECONDS)
    assert list(await remove(runner)) == ["archives"]


async def test_the_pack_of_a_merge_result_stays_as_long_as_a_job_needs_it(
    runner: SimulatedRunner, clock: ShiftedClock
) -> None:
    old, running = await runner.run(), await runner.run()
    await old.deliver(RUNNING, DONE)
    packs = [await archive(runner, number) for number in range(2)]
    for attempt, pack in zip((old, running), packs, strict=True):
        result = MergeResult("b" * 40, "a" * 40, "refs/heads/main", "", 7, pack.archive_id)
        merged = GitSource("https://git.example.com/x", commit="c" * 40, merge=result)
        await change_jobs(runner.server.db, attempt.ref.job_id, source=to_params(_Row(merged))["source"])
    clock.advance(98 * DAY_SECONDS)
    assert await remove(runner) == {"archives": Tally(1, 7)}
    left = await runner.server.db.read(lambda tx: tx.all("SELECT id FROM archives"))
    assert [row["id"] for row in left] == [packs[1].archive_id]


async def test_an_archive_goes_when_no_module_and_no_job_that_counts_refers_to_it(
    runner: SimulatedRunner, clock: ShiftedClock
) -> None:
    """Archives on the server were never deleted."""
    unused, of_module, of_old_job, of_open_job = [await archive(runner, number) for number in range(4)]
    module, old, running = await runner.rows.module(), await runner.run(), await runner.run()
    await old.deliver(RUNNING, DONE)

    async def use(table: str, id_: str, source: ArchiveSource) -> None:
        # As the stores write it: the index of archives depends on the order of its fields.
        given = to_params(_Row(source))["source"]
        await write(runner, f"UPDATE {table} SET source = :source WHERE id = :id", source=given, id=id_)

    await use("modules", module, of_module)
    await use("jobs", old.ref.job_id, of_old_job)
    await use("jobs", running.ref.job_id, of_open_job)
    assert await due(runner) == {}
    clock.advance(8 * DAY_SECONDS)
    assert await due(runner, RetentionPolicy()) == {"archives": Tally(1, 7)}  # the orphan only
    clock.advance(90 * DAY_SECONDS)
    assert await remove(runner) == {"archives": Tally(2, 14)}
    left = await runner.server.db.read(lambda tx: tx.all("SELECT id FROM archives ORDER BY id"))
    assert [row["id"] for row in left] == [of_module.archive_id, of_open_job.archive_id]
    names = {row["name"] for row in await runner.server.db.read(lambda tx: tx.all("SELECT name FROM object_deletions"))}
    assert names == {f"archives/{unused.archive_id}", f"archives/{of_old_job.archive_id}"}


async def test_old_lines_of_the_audit_go_in_batches_and_the_pass_leaves_a_line(
    runner: SimulatedRunner, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "BATCH_ITEMS", 2)
    for _ in range(3):
        await moved(runner)
    clock.advance(91 * DAY_SECONDS)
    before = await runner.app.scalar("SELECT count(*) FROM audit")
    assert before >= 3

    def everything(_: ServerSettings) -> RetentionPolicy:
        return msgspec.structs.replace(ALL, audit_days=90)

    monkeypatch.setattr(policy, "of", everything)
    server = runner.server
    await Retention(server.id, server.db, server.objects, server.settings).step()
    rows = await runner.server.db.read(lambda tx: tx.all("SELECT action, details FROM audit ORDER BY id"))
    assert [row["action"] for row in rows] == ["retention.pass"]
    told = json.loads(rows[0]["details"])
    assert (told["audit"]["count"], told["logs"]["count"]) == (before, 3)
    runs = await runner.server.db.read(lambda tx: tx.all("SELECT name FROM retention_runs"))
    assert {run["name"] for run in runs} == {"pass", "sweep"}


def test_settings_that_would_remove_what_was_made_today_are_refused() -> None:
    with pytest.raises(ValidationError, match=r"(?s)retain_states_count.*retain_logs_days"):
        ServerSettings(retain_logs_days=0.5, retain_states_count=0)
    assert policy.of(ServerSettings()) == RetentionPolicy()
