"""Reads what is known of the runners of roll-outs, and roll-outs as far as their readers see the runners."""

from collections.abc import Iterable, Sequence
from typing import LiteralString

import msgspec

from terracrew.api.rollouts import Rollout, RolloutRunner
from terracrew.api.runners import Runner
from terracrew.server.db.seam import Columns, Row, Tx
from terracrew.server.db.statements.mapping import row_to, rows_to
from terracrew.server.rollouts.store import ROLLOUT_RUNNERS, ROLLOUTS
from terracrew.server.runners import view_reads

NEWEST_ROLLOUT_ID = "rlo_zzzz"
"""Sorts after the id of every roll-out."""
_RECORD: LiteralString = """SELECT runners.*,
    runners.removing_since IS NOT NULL OR coalesce(cloud_deployments.status, '') = 'removing' AS is_removing,
    coalesce(cloud_deployments.version, '') AS deployed_version,
    coalesce((SELECT gone.version FROM instances AS gone WHERE gone.runner_id = runners.id AND NOT gone.is_connected
        ORDER BY gone.heard_at DESC LIMIT 1), '') AS last_version """
_RECORDS: LiteralString = (
    _RECORD
    + """FROM batch JOIN runners ON runners.id = batch.id
    LEFT JOIN cloud_deployments ON cloud_deployments.runner_id = runners.id"""
)
_OF_ORGANIZATION: LiteralString = (
    _RECORD
    + """FROM runners LEFT JOIN cloud_deployments ON cloud_deployments.runner_id = runners.id
    WHERE runners.organization_id = :organization_id ORDER BY runners.path"""
)
_SHARED: LiteralString = (
    _RECORD
    + """FROM runners LEFT JOIN cloud_deployments ON cloud_deployments.runner_id = runners.id
    WHERE runners.organization_id IS NULL ORDER BY runners.path"""
)
_VERSIONS: LiteralString = """SELECT DISTINCT instances.runner_id, instances.version FROM batch
    JOIN instances ON instances.runner_id = batch.id AND instances.is_connected
        AND instances.retire_reason = '' AND NOT instances.is_on_trial"""
_OPEN_JOBS: LiteralString = """SELECT fleet_jobs.target_id, min(fleet_jobs.number) AS number FROM batch
    JOIN fleet_jobs ON fleet_jobs.target_id = batch.id AND fleet_jobs.finished_at IS NULL GROUP BY fleet_jobs.target_id"""
_AWAY: LiteralString = """SELECT runners.id FROM batch JOIN runners ON runners.id = batch.id AND runners.type = 'self-hosted'
    WHERE EXISTS (SELECT 1 FROM instances WHERE instances.runner_id = runners.id AND NOT instances.is_connected
            AND instances.disconnected_at > batch.since)
        AND NOT EXISTS (SELECT 1 FROM instances WHERE instances.runner_id = runners.id AND instances.is_connected)"""
_AWAITING: LiteralString = """SELECT DISTINCT runners.organization_id FROM cloud_deployments
    JOIN runners ON runners.id = cloud_deployments.runner_id
    WHERE runners.organization_id > :after AND cloud_deployments.status = 'deployed' AND cloud_deployments.version NOT IN ('', :version)
        AND NOT runners.is_disabled AND runners.removing_since IS NULL
        AND NOT EXISTS (SELECT 1 FROM rollout_runners JOIN rollouts ON rollouts.id = rollout_runners.rollout_id
            WHERE rollout_runners.runner_id = runners.id AND rollouts.version = :version)
        AND NOT EXISTS (SELECT 1 FROM rollouts WHERE rollouts.organization_id = runners.organization_id
            AND rollouts.ended_at IS NULL)
    ORDER BY runners.organization_id LIMIT :count"""


class RunnerState(msgspec.Struct, frozen=True):
    """A runner, and what an update needs to know of it beside its record."""

    runner: Runner
    is_removing: bool
    version: str
    """The lowest version that it takes jobs with; empty if it is not known."""


async def states(tx: Tx, runner_ids: Iterable[str]) -> dict[str, RunnerState]:
    """Return what is known of these runners, by their ids. Those that were removed are left out."""
    rows = await tx.each_id(_RECORDS, sorted(runner_ids))
    return {each.runner.id: each for each in await _with_versions(tx, rows)}


async def states_of_organization(tx: Tx, organization_id: str) -> list[RunnerState]:
    """Return what is known of all runners of an organization, by path."""
    return await _with_versions(tx, await tx.all(_OF_ORGANIZATION, organization_id=organization_id))


async def states_of_shared(tx: Tx) -> list[RunnerState]:
    """Return what is known of the runners that serve every organization."""
    return await _with_versions(tx, await tx.all(_SHARED))


async def _with_versions(tx: Tx, rows: Sequence[Row]) -> list[RunnerState]:
    connected: dict[str, list[str]] = {}
    for row in await tx.each(_VERSIONS, {"id": "text"}, [(each["id"],) for each in rows]):
        connected.setdefault(row["runner_id"], []).append(row["version"])
    return [
        RunnerState(
            row_to(Runner, row),
            bool(row["is_removing"]),
            view_reads.current_version(connected.get(row["id"], ()), row["deployed_version"], row["last_version"]),
        )
        for row in rows
    ]


async def open_jobs(tx: Tx, runner_ids: Iterable[str]) -> dict[str, int]:
    """Return the numbers of the jobs of the fleet that change these runners and have not ended, by runner."""
    rows = await tx.each_id(_OPEN_JOBS, sorted(runner_ids))
    return {row["target_id"]: int(row["number"]) for row in rows}


async def away(tx: Tx, runner_ids: Iterable[str], since: float) -> set[str]:
    """Return those of the self-hosted runners that have no connection, and had one after this time."""
    columns: Columns = {"id": "text", "since": "double precision"}
    return {row["id"] for row in await tx.each(_AWAY, columns, [(each, since) for each in sorted(runner_ids)])}


async def running_steps(tx: Tx, job_ids: Iterable[str]) -> dict[str, str]:
    """Return what these jobs of the fleet do at this moment, by job."""
    rows = await tx.each_id(
        """SELECT fleet_steps.job_id, fleet_steps.words FROM batch JOIN fleet_jobs ON fleet_jobs.id = batch.id
        JOIN fleet_steps ON fleet_steps.job_id = fleet_jobs.id AND fleet_steps.attempt = fleet_jobs.attempt
            AND fleet_steps.status = 'running' ORDER BY fleet_steps.position""",
        sorted(job_ids),
    )
    return {row["job_id"]: row["words"] for row in rows}


async def awaiting(tx: Tx, version: str, after: str, count: int) -> list[str]:
    """Return the next organizations with a cloud-hosted runner that no roll-out of this version had yet, and without an open roll-out,
    in the order of their ids."""
    return [row["organization_id"] for row in await tx.all(_AWAITING, version=version, after=after, count=count)]


async def had(tx: Tx, organization_id: str, version: str) -> set[str]:
    """Return the runners of an organization that a roll-out of this version has or had."""
    rows = await tx.all(
        """SELECT rollout_runners.runner_id FROM rollouts JOIN rollout_runners ON rollout_runners.rollout_id = rollouts.id
        WHERE rollouts.organization_id = :organization_id AND rollouts.version = :version""",
        organization_id=organization_id,
        version=version,
    )
    return {row["runner_id"] for row in rows}


async def listing(tx: Tx, organization_id: str, before: str, count: int) -> list[Rollout]:
    """Return the roll-outs of an organization, the newest first."""
    return await ROLLOUTS.all(
        tx,
        "FROM rollouts WHERE organization_id = :organization_id AND id < :before ORDER BY id DESC LIMIT :count",
        organization_id=organization_id,
        before=before or NEWEST_ROLLOUT_ID,
        count=count,
    )


async def runners_with_groups(tx: Tx, rollout_ids: Sequence[str]) -> list[tuple[RolloutRunner, str]]:
    """Return the runners of roll-outs by wave and path, each with the path of its group: empty if that group is gone."""
    rows = await tx.each(
        "SELECT "
        + ROLLOUT_RUNNERS.columns
        + """, coalesce(groups.path, '') AS group_path FROM batch
        JOIN rollout_runners ON rollout_runners.rollout_id = batch.wanted
        LEFT JOIN groups ON groups.id = rollout_runners.group_id
        ORDER BY CASE WHEN rollout_runners.wave IS NULL THEN 1 ELSE 0 END, rollout_runners.wave, rollout_runners.path,
            rollout_runners.runner_id""",
        {"wanted": "text"},
        [(each,) for each in rollout_ids],
    )
    return [(each, row["group_path"]) for each, row in zip(rows_to(RolloutRunner, rows), rows, strict=True)]
