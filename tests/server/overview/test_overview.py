"""The overview counts and lists what its reader may see, over a day, a week and a month, by place."""

from typing import Any, LiteralString, cast

import pytest

from terracrew.api.overview import FigureSums
from terracrew.protocol.events import Result, StepStatus
from terracrew.protocol.spec import Step
from terracrew.server.db.seam import Tx
from terracrew.server.db.sqlite.database import SqliteDatabase
from terracrew.server.db.statements import sql as texts
from terracrew.server.drift import reads as drift_reads
from terracrew.server.figures import model
from terracrew.server.figures import store as figure_store
from terracrew.server.overview import figures, reads, service
from terracrew.server.overview.loop import FigureFolding
from terracrew.server.overview.service import OldRunners
from terracrew.server.principals.authorize import Visible
from tests.builders.clock import ShiftedClock
from tests.builders.deliveries import DONE, RUNNING, fact
from tests.builders.job_rows import JobRows, change_jobs
from tests.server.application import Person
from tests.server.drift.checked import SOURCE
from tests.server.simulated_runner import SimulatedRunner

FAILED = fact(Result("FAILED", "plan failed: no"))
PLAN_FAILED = fact(StepStatus(Step.PLAN, "FAILED", 1))


async def overview(member: Person, **query: str) -> dict[str, Any]:
    answer = await member.get("/api/v1/overview", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def run(runner: SimulatedRunner, module: str, *records: Any) -> None:
    made = await runner.app.admin.made(f"/api/v1/modules/{module.replace('/', '%2F')}/jobs", {"type": "PLAN"})
    attempt, _ = await runner.granted(made["id"])
    await attempt.deliver(RUNNING, *records)


@pytest.mark.feature("P2.overview", "P2.rights")
async def test_only_what_somebody_may_see_is_counted_and_listed(runner: SimulatedRunner) -> None:
    application = runner.app
    for path in ("shop", "bank"):
        await application.admin.made("/api/v1/groups", {"path": path})
    for path in ("shop/net", "bank/net"):
        await application.admin.made("/api/v1/modules", {"path": path, "source": SOURCE})
    await run(runner, "shop/net", DONE)
    await run(runner, "bank/net", PLAN_FAILED, FAILED)
    db = application.server.db
    for span in ("day", "week", "month"):
        everything = await overview(application.admin, span=span)
        assert (everything["total"]["succeeded"], everything["total"]["failed_engine"]) == (1, 1)
        assert sum(each["failed"] for each in everything["parts"]) == 1
        assert everything["total"]["starts"] == 2
    await FigureFolding("srv", db).step()
    vera = await application.person("vera", "viewer", "shop")
    for query in ({}, {"place": "shop"}, {"mine": "true"}):
        found = await overview(vera, **query)
        assert (found["total"]["succeeded"], found["total"]["failed"], found["needs"]) == (1, 0, [])
    assert (await overview(vera))["is_partial"]
    assert not (await overview(vera, place="shop"))["is_partial"]
    for place in ("bank", "bank/net", "nowhere"):
        assert (await vera.get("/api/v1/overview", params={"place": place})).status_code == 404
    found = await overview(application.admin, place="bank")
    assert [(each["kind"], each["path"]) for each in found["needs"]] == [("failed", "bank/net")]
    assert (await overview(application.admin, place="shop"))["needs"] == []
    nobody = await application.person("nora")
    empty = await overview(nobody)
    assert (empty["total"]["starts"], empty["queue"]["running"], empty["needs"]) == (0, 0, [])


@pytest.mark.feature("P2.overview")
async def test_what_runs_and_waits_is_counted_now(runner: SimulatedRunner) -> None:
    admin = runner.app.admin
    await admin.made("/api/v1/groups", {"path": "shop"})
    for name in ("a", "b"):
        await admin.made("/api/v1/modules", {"path": f"shop/{name}", "source": SOURCE})
    made = await admin.made("/api/v1/modules/shop%2Fa/jobs", {"type": "PLAN"})
    await runner.granted(made["id"])
    waiting = await admin.made("/api/v1/modules/shop%2Fa/jobs", {"type": "PLAN"})
    for place in ("", "shop"):
        queue = (await overview(admin, place=place))["queue"]
        assert (queue["running"], queue["waiting"], queue["oldest_number"]) == (1, 1, waiting["number"])
    assert (await overview(admin, place="shop"))["total"]["busy_seconds"] == 0, "the runner is not in this group"


@pytest.mark.feature("P2.overview", "P2.rights")
async def test_who_sees_a_single_module_is_told_what_waits_there(runner: SimulatedRunner) -> None:
    """ "No job waits for a runner" stood above the job that did."""
    admin = runner.app.admin
    await admin.made("/api/v1/groups", {"path": "shop"})
    for name in ("a", "b"):
        await admin.made("/api/v1/modules", {"path": f"shop/{name}", "source": SOURCE})
        waiting = await admin.made(f"/api/v1/modules/shop%2F{name}/jobs", {"type": "PLAN"})
    vera = await runner.app.person("vera")
    grant = {"principal": "vera", "role": "viewer", "path": "shop/b", "kind": "module"}
    await admin.made("/api/v1/roles", grant)
    for query in ({}, {"place": "shop"}, {"mine": "true"}):
        found = await overview(vera, **query)
        assert (found["queue"]["waiting"], found["queue"]["oldest_number"]) == (1, waiting["number"])
        assert found["is_partial"]
    for path in ("bank", "club"):
        await admin.made("/api/v1/groups", {"path": path})
        await admin.made("/api/v1/roles", {"principal": "vera", "role": "viewer", "path": path})
        await admin.made("/api/v1/modules", {"path": f"{path}/net", "source": SOURCE})
        await admin.made(f"/api/v1/modules/{path}%2Fnet/jobs", {"type": "PLAN"})
    found = await overview(vera)
    assert (found["queue"]["waiting"], found["queue"]["oldest_number"]) == (3, waiting["number"])


@pytest.mark.feature("P2.figures")
async def test_what_ended_just_before_its_group_was_deleted_counts_in_the_groups_above(runner: SimulatedRunner) -> None:
    """The entry of a job waits for up to five seconds. A group that was deleted meanwhile took it along."""
    admin = runner.app.admin
    for path in ("shop", "shop/prod"):
        await admin.made("/api/v1/groups", {"path": path})
    await admin.made("/api/v1/modules", {"path": "shop/prod/net", "source": SOURCE})
    await run(runner, "shop/prod/net", DONE)
    assert (await admin.delete("/api/v1/modules/shop%2Fprod%2Fnet", params={"force": "true"})).status_code == 204
    assert (await admin.delete("/api/v1/groups/shop%2Fprod")).status_code == 204
    for _ in range(2):
        for place in ("", "shop"):
            assert (await overview(admin, place=place))["total"]["succeeded"] == 1
        await FigureFolding("srv", runner.app.server.db).step()


@pytest.mark.feature("P2.overview")
async def test_the_job_that_waits_longest_is_not_one_that_was_queued_anew(clock: ShiftedClock, rows: JobRows) -> None:
    """A plan that was approved after a day is the oldest job of the queue, and waits since a moment ago."""
    approved, waiting = await rows.job(await rows.module()), await rows.job(await rows.module())
    clock.advance(60)
    await rows.db.write(lambda tx: change_jobs(tx, approved, queued_at=tx.now))
    for place in ("", "nowhere"):
        found = await rows.db.read(lambda tx, place=place: reads.oldest_queued(tx, rows.organization, [place]))
        assert (found and found["id"]) == (None if place else waiting)


@pytest.mark.feature("P2.figures")
async def test_the_total_is_that_of_its_parts_also_after_the_clock_was_set_back(rows: JobRows) -> None:
    async def work(tx: Tx) -> tuple[FigureSums, list[FigureSums]]:
        for hours in (0, 5):
            start = model.start_of(tx.now, 3600) + hours * 3600
            await figure_store.add(tx, {(rows.root, 3600, start, "ended:FAILED"): 1.0})
        return await figures.sums(tx, rows.organization, [""], [""], "day", is_shared=False)

    total, parts = await rows.db.write(work)
    assert total.failed == sum(each.failed for each in parts) == 1


@pytest.mark.feature("P2.utilisation")
async def test_slots_that_are_occupied_now_count(clock: ShiftedClock, runner: SimulatedRunner) -> None:
    admin = runner.app.admin
    await admin.made("/api/v1/groups", {"path": "shop"})
    await admin.made("/api/v1/modules", {"path": "shop/a", "source": SOURCE})
    made = await admin.made("/api/v1/modules/shop%2Fa/jobs", {"type": "PLAN"})
    await runner.granted(made["id"])
    clock.advance(7200)
    found = await overview(admin)
    assert found["total"]["busy_seconds"] == pytest.approx(7200, abs=30)
    assert sum(each["busy_seconds"] for each in found["parts"]) == pytest.approx(7200, abs=30)
    assert sum(each["busy_seconds"] > 0 for each in found["parts"]) in (2, 3)


@pytest.mark.feature("P2.utilisation")
async def test_slots_count_until_now_and_not_only_until_the_last_look(clock: ShiftedClock, rows: JobRows) -> None:
    """In the first minutes of each hour, runners that were half in use were shown as used completely."""
    folding = FigureFolding("srv", rows.db)
    clock.advance(3600 - clock() % 3600 - 20)
    runner = await rows.runner(slots=2)
    await folding.step()
    clock.advance(20)
    await runner.start(await rows.job(await rows.module()))
    clock.advance(40)
    await folding.step()
    clock.advance(58)
    _, parts = await rows.db.read(lambda tx: figures.sums(tx, rows.organization, [""], [""], "day", is_shared=False))
    assert parts[-1].utilisation == pytest.approx(0.5, abs=0.1)


def test_the_topmost_visible_groups_count_each_thing_once() -> None:
    def seen(*paths: str) -> Visible:
        return Visible("org", tuple(("group", path) for path in paths))

    assert figures.visible_paths(seen("a", "a/b", "c"), "org", [""]) == ["a", "c"]
    assert figures.visible_paths(seen("a/b", "ab"), "org", ["a"]) == ["a/b"]
    assert figures.visible_paths(seen("a"), "org", ["a/b"]) == ["a/b"]
    assert figures.visible_paths(seen(""), "org", ["", "a"]) == [""]
    assert figures.visible_paths(Visible("org", (("module", "a/m"),)), "org", [""]) == []
    assert figures.visible_paths(Visible("org"), "org", ["a"]) == []


def test_utilisation_is_a_share_of_the_slots_and_never_more_than_all_of_them() -> None:
    def share(busy: float, capacity: float) -> float | None:
        times: Any = {"starts_at": None, "ends_at": None}
        return FigureSums(**times, busy_seconds=busy, capacity_seconds=capacity).utilisation

    assert (share(5, 10), share(11, 10), share(1, 0)) == (0.5, 1.0, None)


@pytest.mark.parametrize("span", ["day", "week", "month"])
def test_the_last_part_of_a_span_contains_this_moment(span: Any) -> None:
    shape = figures.SPANS[span]
    first = figures.first_part(1_795_111_234.5, shape)
    last = first + (shape.part_count - 1) * shape.part_seconds
    assert last <= 1_795_111_234.5 < last + shape.part_seconds


@pytest.mark.feature("P2.figures")
async def test_sqlite_reads_figures_by_their_indexes(rows: JobRows) -> None:
    if not isinstance(rows.db, SqliteDatabase):
        pytest.skip("PostgreSQL shows its plans in another way")
    explained: list[str] = []

    class ExplainingTx:
        """Asks for the plan of each statement instead of running it."""

        def __init__(self, tx: Any) -> None:
            self._tx = tx

        async def all(self, sql: str, **params: Any) -> list[Any]:
            plan: list[dict[str, Any]] = await self._tx.all("EXPLAIN QUERY PLAN " + sql, **params)
            return self._explained([each["detail"] for each in plan])

        async def each(self, sql: str, columns: Any, values: Any) -> list[Any]:
            text = "EXPLAIN QUERY PLAN " + texts.batch_from_row(cast("LiteralString", sql), tuple(columns))
            return self._explained([each[-1] for each in self._tx.connection.execute(text, values[0])])

        def _explained(self, details: list[str]) -> list[Any]:
            explained.append("\n".join(details))
            return []

    async def read(tx: Any) -> None:
        explaining: Any = ExplainingTx(tx)
        await reads.occupied_slots(explaining, rows.organization)
        for place in ("", "shop"):
            await reads.open_jobs(explaining, rows.organization, [place])
            await reads.oldest_queued(explaining, rows.organization, [place])
        await drift_reads.newest_drifted(explaining, rows.organization, 10)

    await rows.db.read(read)
    of_modules = "jobs_open_of_module", "jobs_queue_of_module"
    indexes = ("jobs_running", "jobs_open ", "jobs_open ", *of_modules, "drift_modules_drifted")
    for plan, index in zip(explained, indexes, strict=True):
        assert index in plan, plan


@pytest.mark.feature("P2.overview")
def test_outdated_runners_are_one_row_however_many_there_are() -> None:
    one = service.outdated_need(OldRunners("0.2.0", [("rnr_1", "shop/a", "0.1.0")]))
    assert (one.runner_id, one.text) == ("rnr_1", "0.1.0 is older than 0.2.0, the latest release")
    many = [(f"rnr_{n}", f"shop/r{n}", "0.1.0") for n in range(3)]
    found = service.outdated_need(OldRunners("0.2.0", many))
    assert (found.runner_id, found.path) == (None, "shop/r0")
    assert found.text == "it and 2 other runners: 0.1.0 is older than 0.2.0, the latest release"
