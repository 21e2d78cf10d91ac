"""What the hub reads about connected runners, their instances, and the attempts that these run."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import LiteralString

import msgspec

from terracrew.api.runners import Configuration
from terracrew.protocol.messages import AttemptRef, Installation
from terracrew.server.connections.heartbeats import STALE_SECONDS
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.fragments import ACTIVE_STATUSES
from terracrew.server.db.statements.mapping import row_to, rows_to
from terracrew.server.db.statements.table import Table


class ServedRunner(msgspec.Struct, frozen=True):
    """The columns of a runner that the hub uses."""

    id: str
    organization_id: str | None
    service_account_id: str | None
    path: str
    is_disabled: bool
    is_draining: bool
    allow_multiple_instances: bool
    max_jobs: int
    configuration: Configuration
    tags: frozenset[str]


_IS_ELSEWHERE: LiteralString = (
    "coalesce(attempts.executor_server_id <> :server_id AND attempts.executor_heard_at > :since, false)"
)
"""Whether an attempt's executor is connected to another server than this one."""
RUNNERS = Table("runners", ServedRunner)
_RUNNER: LiteralString = f"SELECT {RUNNERS.columns} FROM runners WHERE id = :id"
_SESSION_ROWS: LiteralString = f"""
SELECT instances.id AS instance_id, instances.epoch, instances.is_connected, instances.asked_at, instances.capacity, {RUNNERS.columns},
    instances.retire_reason,
    (SELECT instance_updates.id FROM instance_updates
        WHERE instance_updates.instance_id = instances.id AND instance_updates.status IN ('asked', 'running')) AS update_id
FROM batch JOIN instances ON instances.id = batch.id JOIN runners ON runners.id = instances.runner_id"""
_CANCELED: LiteralString = f"""
SELECT jobs.id, jobs.attempt, jobs.cancel_mode, jobs.instance_id, {_IS_ELSEWHERE} AS is_elsewhere
FROM jobs JOIN attempts ON attempts.job_id = jobs.id AND attempts.number = jobs.attempt
WHERE jobs.status IN {ACTIVE_STATUSES} AND jobs.cancel_mode IS NOT NULL"""
_NOT_GONE: LiteralString = """
SELECT attempts.job_id, attempts.number FROM batch
JOIN attempts ON attempts.job_id = batch.job_id AND attempts.number = batch.attempt
LEFT JOIN instances ON instances.id = attempts.instance_id AND instances.is_connected
WHERE attempts.executor_server_id <> batch.server_id OR instances.server_id <> batch.server_id
    OR attempts.ended_at IS NOT NULL AND NOT attempts.is_in_doubt"""
_EXCLUDING: LiteralString = """
SELECT id, name, key_sha256, epoch, connected_at, asked_at FROM instances
WHERE runner_id = :id AND is_connected AND NOT (name = :name AND key_sha256 = :key AND resume_sha256 = :resume)
ORDER BY id LIMIT :count"""
_NAMESAKE: LiteralString = """
SELECT id, name, key_sha256, epoch, connected_at, asked_at FROM instances
WHERE runner_id = :id AND name = :name AND is_connected AND NOT (key_sha256 = :key AND resume_sha256 = :resume)"""
_SEAT: LiteralString = """
SELECT instances.id, instances.runner_id, instances.name, instances.epoch, instances.key_sha256, instances.resume_sha256,
    instances.address, instances.machine, instances.heard_at, instances.is_connected, instances.once_token_id"""
_FORMER: LiteralString = _SEAT + " FROM instances"
_CONTACT: LiteralString = "instances.id, instances.runner_id, instances.name, instances.epoch, instances.heard_at"
_RUNNERS: LiteralString = f"SELECT {RUNNERS.columns} FROM batch JOIN runners ON runners.id = batch.id"
_INSTANCES_NAMED: LiteralString = (
    _SEAT
    + """ FROM batch
    JOIN instances ON instances.runner_id = batch.runner_id AND instances.name = batch.name"""
)
_WITH_ANOTHER_INSTANCE: LiteralString = """
SELECT batch.runner_id FROM batch WHERE EXISTS (SELECT 1 FROM instances
    WHERE instances.runner_id = batch.runner_id AND instances.is_connected AND instances.name <> batch.name)"""
_ACTIVE: LiteralString = f"""
SELECT jobs.instance_id, jobs.id, jobs.attempt, CASE WHEN attempts.started_at IS NULL THEN attempts.reason END AS waits_for
FROM batch JOIN jobs ON jobs.instance_id = batch.id AND jobs.status IN {ACTIVE_STATUSES}
LEFT JOIN attempts ON attempts.job_id = jobs.id AND attempts.number = jobs.attempt"""


async def runner(tx: Tx, runner_id: str) -> ServedRunner | None:
    """Return a runner. The row of a runner for one process is locked until the transaction ends."""
    row = await tx.one(_RUNNER, id=runner_id)
    if row is not None and not row["allow_multiple_instances"]:
        row = await tx.one(_RUNNER + " FOR NO KEY UPDATE", id=runner_id)
    return None if row is None else row_to(ServedRunner, row)


async def runners(tx: Tx, runner_ids: Iterable[str]) -> dict[str, ServedRunner]:
    """Return these runners by their ids, without a lock."""
    return await _runners(tx, _RUNNERS, runner_ids)


async def locked_runners(tx: Tx, runner_ids: Iterable[str]) -> dict[str, ServedRunner]:
    """Return these runners by their ids, with their rows locked until the transaction ends."""
    return await _runners(tx, _RUNNERS + " ORDER BY runners.id FOR NO KEY UPDATE OF runners", runner_ids)


async def _runners(tx: Tx, sql: LiteralString, runner_ids: Iterable[str]) -> dict[str, ServedRunner]:
    rows = await tx.each_id(sql, sorted(set(runner_ids)))
    return {row["id"]: row_to(ServedRunner, row) for row in rows}


async def runner_at(tx: Tx, organization_id: str | None, path: str) -> str | None:
    """Return the id of the organization's runner at a path; without an organization, of the shared runner."""
    if organization_id is None:
        row = await tx.one("SELECT id FROM runners WHERE path = :path AND organization_id IS NULL", path=path)
    else:
        row = await tx.one(
            "SELECT id FROM runners WHERE path = :path AND organization_id = :organization_id",
            path=path,
            organization_id=organization_id,
        )
    return None if row is None else row["id"]


async def end_of(tx: Tx, instance_id: str) -> datetime | None:
    """Return when a connected instance and its executors end at the latest; None if no end is announced."""
    row = await tx.one("SELECT ends_at FROM instances WHERE id = :id AND is_connected", id=instance_id)
    return None if row is None or row["ends_at"] is None else datetime.fromtimestamp(row["ends_at"], UTC)


async def is_removed(tx: Tx, runner_id: str) -> bool:
    return await tx.one("SELECT id FROM removed WHERE id = :id", id=runner_id) is not None


async def configurations(tx: Tx, runner_ids: Iterable[str]) -> dict[str, Configuration]:
    """Return the configurations of these runners; a removed one has none."""
    return {each.id: each.configuration for each in (await runners(tx, runner_ids)).values()}


async def active_attempts(tx: Tx, instance_ids: Sequence[str]) -> dict[str, dict[AttemptRef, str]]:
    """Return the attempts that each instance was granted and that have not ended, with what their starts wait for."""
    found: dict[str, dict[AttemptRef, str]] = {each: {} for each in instance_ids}
    for row in await tx.each_id(_ACTIVE, sorted(found)):
        found[row["instance_id"]][AttemptRef(row["id"], row["attempt"])] = row["waits_for"] or ""
    return found


async def session_rows(tx: Tx, instance_ids: Sequence[str]) -> list[Row]:
    """Return what the rows of connected instances and of their runners say now."""
    return await tx.each_id(_SESSION_ROWS, instance_ids)


class InstanceMarks(msgspec.Struct, frozen=True):
    """Why an instance takes no jobs, as far as the server knows it."""

    is_on_trial: bool = False
    is_retired: bool = False
    """Whether it was asked to end after its last job."""


async def marks(tx: Tx, instance_id: str) -> InstanceMarks:
    row = await tx.one(
        "SELECT is_on_trial, retire_reason <> '' AS is_retired FROM instances WHERE id = :id", id=instance_id
    )
    return InstanceMarks() if row is None else row_to(InstanceMarks, row)


async def excluding(
    tx: Tx, owner: ServedRunner, name: str, key_sha256: str, resume_sha256: str, count: int
) -> list[Row]:
    """Return the connected instances beside which a process cannot connect.

    The cost of both statements does not depend on how many instances the runner has: each reconnecting process of a
    large fleet runs one of them.
    """
    if owner.allow_multiple_instances:
        return await tx.all(_NAMESAKE, id=owner.id, name=name, key=key_sha256, resume=resume_sha256)
    return await tx.all(_EXCLUDING, id=owner.id, name=name, key=key_sha256, resume=resume_sha256, count=count)


async def former(tx: Tx, owner: ServedRunner, name: str, count: int) -> list[Row]:
    """Return the instances that a process of this name may take over; `count` bounds those of other names."""
    rows = await tx.all(_FORMER + " WHERE runner_id = :id AND name = :name", id=owner.id, name=name)
    if owner.allow_multiple_instances:
        return rows
    others = _FORMER + " WHERE runner_id = :id AND name <> :name AND is_connected ORDER BY id LIMIT :count"
    return [*rows, *await tx.all(others, id=owner.id, name=name, count=count)]


async def instances_named(tx: Tx, names: Sequence[tuple[str, str]]) -> list[Row]:
    """Return the instances of these runners (ids) with these names."""
    return await tx.each(_INSTANCES_NAMED, {"runner_id": "text", "name": "text"}, names)


async def runners_with_another_instance(tx: Tx, names: Sequence[tuple[str, str]]) -> set[str]:
    """Return those of these runners (ids) that have a connected instance of another name than this one."""
    return {
        row["runner_id"] for row in await tx.each(_WITH_ANOTHER_INSTANCE, {"runner_id": "text", "name": "text"}, names)
    }


async def questions(tx: Tx, asked: Sequence[tuple[str, int, float]]) -> list[Row]:
    """Return which of the connections that were asked (instance, epoch, time) are there, and what they were asked last."""
    return await tx.each(
        """SELECT batch.asked_at, instances.epoch = batch.epoch AND instances.is_connected AS is_there, instances.asked_at AS still
        FROM batch JOIN instances ON instances.id = batch.id""",
        {"id": "text", "epoch": "bigint", "asked_at": "double precision"},
        asked,
    )


async def silent(tx: Tx, silence_seconds: float) -> list[Row]:
    """Return the connected instances of all servers that were silent for this long. This reads every connected instance."""
    return await tx.all(
        f"SELECT {_CONTACT} FROM instances WHERE is_connected AND heard_at < :since", since=tx.now - silence_seconds
    )


async def contacts(tx: Tx, instance_ids: Iterable[str]) -> list[Row]:
    """Return those of these instances that are connected, with their last contact."""
    return await tx.each_id(
        f"SELECT {_CONTACT} FROM batch JOIN instances ON instances.id = batch.id WHERE instances.is_connected",
        instance_ids,
    )


async def asked(tx: Tx) -> list[Row]:
    """Return the connected instances that have to answer a question."""
    return await tx.all("SELECT id, epoch FROM instances WHERE asked_at IS NOT NULL AND is_connected")


async def not_gone(tx: Tx, refs: Iterable[AttemptRef], server_id: str) -> list[AttemptRef]:
    """Return those of these attempts that have ended, or that are connected to another server than this one."""
    rows = await tx.each(
        _NOT_GONE,
        {"job_id": "text", "attempt": "bigint", "server_id": "text"},
        [(ref.job_id, ref.attempt, server_id) for ref in refs],
    )
    return [AttemptRef(row["job_id"], row["number"]) for row in rows]


async def canceled(tx: Tx, server_id: str, job_id: str | None = None) -> list[Row]:
    """Return the active jobs that are to be canceled, or this one if it is, and whether another server has its executor."""
    since = tx.now - STALE_SECONDS
    if job_id is None:
        return await tx.all(_CANCELED, server_id=server_id, since=since)
    return await tx.all(_CANCELED + " AND jobs.id = :id", id=job_id, server_id=server_id, since=since)


async def is_elsewhere(tx: Tx, ref: AttemptRef, server_id: str) -> bool:
    """Return whether the executor of an attempt is connected to another server than this one."""
    row = await tx.one(
        "SELECT " + _IS_ELSEWHERE + " AS yes FROM attempts WHERE job_id = :job_id AND number = :attempt",
        job_id=ref.job_id,
        attempt=ref.attempt,
        server_id=server_id,
        since=tx.now - STALE_SECONDS,
    )
    return row is not None and bool(row["yes"])


async def jobs_of(tx: Tx, refs: Iterable[AttemptRef]) -> list[Row]:
    """Return the status and the current attempt of the jobs of these attempts, which are `own`."""
    return await tx.each(
        "SELECT jobs.id, jobs.status, jobs.attempt, batch.attempt AS own FROM batch JOIN jobs ON jobs.id = batch.job_id",
        {"job_id": "text", "attempt": "bigint"},
        [(ref.job_id, ref.attempt) for ref in refs],
    )


async def connected_slots(tx: Tx) -> Row | None:
    """Count the connected instances and their slots."""
    return await tx.one("SELECT count(*) AS instances, sum(capacity) AS slots FROM instances WHERE is_connected")


async def connected_versions(tx: Tx, count: int) -> dict[str, int]:
    """Count the connected instances by the version that they report; only the most frequent versions."""
    rows = await tx.all(
        "SELECT version, count(*) AS instances FROM instances WHERE is_connected"
        " GROUP BY version ORDER BY count(*) DESC, version LIMIT :count",
        count=count,
    )
    return {row["version"]: row["instances"] for row in rows}


async def is_connected(tx: Tx, runner_id: str) -> bool:
    """Return whether any instance of a runner is connected."""
    return (
        await tx.one("SELECT id FROM instances WHERE runner_id = :id AND is_connected LIMIT 1", id=runner_id)
        is not None
    )


async def has_no_instance(tx: Tx, ref: AttemptRef) -> bool:
    """Return whether the database has lost the instance of an attempt: its process is another instance of its runner since."""
    row = await tx.one(
        """SELECT 1 AS yes FROM attempts WHERE attempts.job_id = :job_id AND attempts.number = :attempt
            AND NOT EXISTS (SELECT 1 FROM instances WHERE instances.id = attempts.instance_id)""",
        job_id=ref.job_id,
        attempt=ref.attempt,
    )
    return row is not None


async def connected_names(tx: Tx, runner_ids: Sequence[str], most: int) -> list[str]:
    """Return the names of the first `most` connected instances of these runners, ordered."""
    rows = await tx.each_id(
        """SELECT DISTINCT instances.name FROM batch
        JOIN instances ON instances.runner_id = batch.id AND instances.is_connected ORDER BY instances.name""",
        runner_ids,
    )
    return [row["name"] for row in rows[:most]]


class UpdatableInstance(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of an instance that decide whether and how it is updated."""

    id: str
    runner_id: str
    name: str
    version: str
    is_connected: bool
    is_self_updating: bool
    installation: Installation
    connected_at: datetime
    disconnected_at: datetime | None = None


_UPDATABLE = Table("instances", UpdatableInstance)


async def updatable_of_runner(tx: Tx, runner_id: str, gone_since: float) -> list[UpdatableInstance]:
    """Return the connected instances of a runner, and those that disconnected after this time, in the order of their names."""
    return await _UPDATABLE.all(
        tx,
        "FROM instances WHERE runner_id = :runner_id AND (is_connected OR disconnected_at > :gone_since) ORDER BY name",
        runner_id=runner_id,
        gone_since=gone_since,
    )


async def newest_updatable(tx: Tx, runner_ids: Sequence[str]) -> dict[str, list[UpdatableInstance]]:
    """Return the connected instances of each of these runners, or else the one that disconnected last, in the order of their names."""
    rows = await tx.each(
        "SELECT "
        + _UPDATABLE.columns
        + """ FROM batch JOIN instances ON instances.runner_id = batch.wanted AND (instances.is_connected OR instances.id = (
            SELECT gone.id FROM instances AS gone WHERE gone.runner_id = batch.wanted AND NOT gone.is_connected
            ORDER BY gone.disconnected_at DESC LIMIT 1))
        ORDER BY instances.name""",
        {"wanted": "text"},
        [(each,) for each in runner_ids],
    )
    found: dict[str, list[UpdatableInstance]] = {each: [] for each in runner_ids}
    for instance in rows_to(UpdatableInstance, rows):
        found[instance.runner_id].append(instance)
    return {key: [each for each in some if each.is_connected] or some for key, some in found.items()}


async def updatable(tx: Tx, instance_id: str) -> UpdatableInstance | None:
    rows = await tx.all("SELECT " + _UPDATABLE.columns + " FROM instances WHERE id = :id", id=instance_id)
    return next(iter(rows_to(UpdatableInstance, rows)), None)
