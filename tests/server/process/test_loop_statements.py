"""Statements that loops run every few seconds use indexes on both databases."""

import re
from typing import Any, LiteralString

import pytest

from terracrew.api.fleet_jobs import FleetJobType
from terracrew.server.connections.heartbeats import Heartbeats
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database, Param, Tx
from terracrew.server.discovery import reads as discovery_reads
from terracrew.server.drift.loop import DriftChecks
from terracrew.server.fleet_jobs.loop import FleetJobs
from terracrew.server.group_runs.loop import GroupRuns
from terracrew.server.identity.access.roles import RoleExpiry
from terracrew.server.jobs import approvals
from terracrew.server.jobs.lost_resources.search import LostResourceSearch
from terracrew.server.jobs.reaper import Reaper
from terracrew.server.jobs.triggers import Triggers
from terracrew.server.notifications.mail import Mailer
from terracrew.server.notifications.senders import Senders
from terracrew.server.notifications.sending import Sending
from terracrew.server.objects import open_objects
from terracrew.server.outgoing.client import OutgoingClient
from terracrew.server.overview.loop import FigureFolding
from terracrew.server.pull_requests import reads as pull_request_reads
from terracrew.server.registry import reads as registry_reads
from terracrew.server.retention.leftovers import Leftovers
from terracrew.server.runners import eligibility
from terracrew.server.runners.removal.service import Removals
from terracrew.server.schedules.loop import Schedules
from terracrew.server.schedules.starting import Sources
from terracrew.server.scheduling import reads
from terracrew.server.scheduling.scheduler import Scheduler
from terracrew.server.tree.groups.quotas import Quotas
from terracrew.settings.server import ServerSettings
from tests.builders.job_rows import KEYS, JobRows, change_runners
from tests.server.fleet_jobs.fleet_rows import FleetRows
from tests.server.fleet_jobs.simulated_fleet import PlayedHandler, PlayedRunner
from tests.server.hub.statement_counts import RecordingTx, on_each_unit
from tests.server.scheduling.recorded_claims import record

SMALL = (
    "api_tokens",
    "release_tokens",
    "service_account_secrets",
    "one_time_links",
    "leases",
    "removed",
    "triggered_modules",
    "runners",
    "forge_connections",
    "forge_repositories",
    "discovery_rules",
    "batch",
)
"""Tables that the loops may read whole: they stay small, or are read once an hour."""


INTERMEDIATE = re.compile(r"(?:WITH(?: RECURSIVE)?|,)\s+(\w+)\s*(?:\([\w, ]*\)\s*)?AS\s*\(")
"""The names of results that a statement uses itself."""


async def test_no_loop_reads_a_large_table_from_end_to_end(rows: JobRows, monkeypatch: pytest.MonkeyPatch) -> None:
    """With hundreds of thousands of jobs, a statement without an index stops a server on SQLite every second."""
    instance = await rows.runner()
    await instance.has(await rows.job(await rows.module()))
    await instance.finish(await rows.job(await rows.module()))
    said: list[tuple[LiteralString, dict[str, Param]]] = []
    on_each_unit(rows.db, monkeypatch, lambda tx: RecordingTx(tx, said))
    registry = Registry()
    await Reaper(rows.db, registry).step()
    await Scheduler(rows.db, registry, record).sweep()
    await Heartbeats(rows.db, registry, "srv").step()
    await approvals.expire(rows.db)
    await Leftovers(rows.db, "srv", 30.0).step()
    await FigureFolding("srv", rows.db).step()
    await RoleExpiry(rows.db).step()
    await Triggers(rows.db, KEYS, ()).step()
    await GroupRuns(rows.db, KEYS, ()).step()
    handlers = dict.fromkeys(FleetJobType, PlayedHandler())
    fleet_jobs = FleetJobs(rows.db, "srv", PlayedRunner(), handlers)
    await FleetRows(rows).job()
    await fleet_jobs.step()
    await fleet_jobs.step()
    await fleet_jobs.stop()
    await change_runners(rows.db, is_draining=True, removing_since=1.0)
    await Removals(rows.db).step()
    objects = open_objects("memory:///")
    await LostResourceSearch(rows.db, objects, KEYS).step()
    quotas = Quotas(rows.db, ServerSettings())
    await Schedules(rows.db, Sources(KEYS, (), quotas)).step()
    await DriftChecks(rows.db, objects, KEYS, (), quotas, 25).step()
    await Sending(rows.db, KEYS, Senders(OutgoingClient(), Mailer(None)), "").step()
    await rows.db.read(lambda tx: pull_request_reads.new(tx, 10, 3600))
    await rows.db.read(lambda tx: pull_request_reads.due(tx, 10))
    await rows.db.read(lambda tx: discovery_reads.due(tx, 10))
    await rows.db.read(lambda tx: registry_reads.due(tx, 10))
    await rows.db.read(registry_reads.next_due)
    monkeypatch.undo()
    assert len(said) > 10
    for sql, params in said:
        if sql.lstrip().startswith(("SELECT", "WITH", "DELETE", "UPDATE")):
            read = await _tables_read_whole(rows.db, sql, params)
            large = {each for each in read - {*SMALL, *INTERMEDIATE.findall(sql)} if not each.startswith("(")}
            assert not large, f"{large} by {sql}"


async def test_selection_reads_neither_the_assignments_of_other_runners_nor_every_module(
    rows: JobRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To count the jobs ahead of one took 10 s with 5,000 assigned runners, because SQLite read all of their assignments for each job."""
    if rows.db.kind != "sqlite":
        pytest.skip("PostgreSQL chooses by its statistics")
    said: list[tuple[LiteralString, dict[str, Param]]] = []
    on_each_unit(rows.db, monkeypatch, lambda tx: RecordingTx(tx, said))
    await rows.db.read(reads.running)
    monkeypatch.undo()
    plan = await rows.db.read(lambda tx: tx.all("EXPLAIN QUERY PLAN " + said[-1][0]))
    assert [row["detail"].split()[1] for row in plan if row["detail"].startswith("SCAN")] == ["jobs"]
    plan = await rows.db.read(
        lambda tx: tx.all(
            "EXPLAIN QUERY PLAN SELECT 1 FROM modules CROSS JOIN runners WHERE " + eligibility.IS_ASSIGNED
        )
    )
    assert [
        row["detail"] for row in plan if " assignments " in row["detail"] and "(runner_id=?" not in row["detail"]
    ] == []


async def test_running_jobs_below_a_group_and_instances_that_left_lately_are_ranges_of_an_index(
    rows: JobRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each claim below a cap read all running jobs with their modules: 50 ms with 4,800 of them."""
    counted = eligibility.running_below("CAST(:organization AS text)", "CAST(:path AS text)")
    below = await _index_conditions(rows.db, f"SELECT {counted} AS jobs", organization="org", path="a/b")
    said: list[tuple[LiteralString, dict[str, Param]]] = []
    on_each_unit(rows.db, monkeypatch, lambda tx: RecordingTx(tx, said))
    await reads.connected_a_moment_ago(rows.db, ())
    monkeypatch.undo()
    left = await _index_conditions(rows.db, said[-1][0], **said[-1][1])
    assert any("organization_id=" in each and "module_path>" in each and "module_path<" in each for each in below)
    assert any("disconnected_at>" in each for each in left)


async def _index_conditions(db: Database, sql: Any, **params: Param) -> list[str]:
    """Return the conditions with which a statement searches indexes, without spaces and parentheses."""

    async def explain(tx: Tx) -> list[str]:
        if db.kind == "sqlite":
            lines = [str(row["detail"]) for row in await tx.all("EXPLAIN QUERY PLAN " + sql, **params)]
            return [line.replace(" ", "") for line in lines if line.startswith("SEARCH")]
        await tx.run("SET LOCAL enable_seqscan = off")
        lines = [str(row["QUERY PLAN"]) for row in await tx.all("EXPLAIN " + sql, **params)]
        return ["".join(line.split()).replace("(", "") for line in lines if "Index Cond" in line]

    return await db.write(explain)


async def _tables_read_whole(db: Database, sql: Any, params: dict[str, Param]) -> set[str]:
    async def explain(tx: Tx) -> set[str]:
        if db.kind == "sqlite":
            lines = [str(row["detail"]).split() for row in await tx.all("EXPLAIN QUERY PLAN " + sql, **params)]
            return {words[1] for words in lines if words[0] == "SCAN" and "INDEX" not in words}
        await tx.run("SET LOCAL enable_seqscan = off")
        lines = [str(row["QUERY PLAN"]).split() for row in await tx.all("EXPLAIN " + sql, **params)]
        return {words[words.index("Scan") + 2] for words in lines if "Seq" in words}

    return await db.write(explain)
