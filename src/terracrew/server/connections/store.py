"""Rows of instances (the processes of runners that are connected, or were), and the last contact of attempts."""

from collections.abc import Collection, Sequence
from typing import LiteralString

import msgspec

from terracrew.protocol.dispatcher_choice import OfferedDispatcher
from terracrew.protocol.messages import AttemptRef, Heartbeat, Installation
from terracrew.server.db.seam import Columns, Param, Row, Tx
from terracrew.server.db.statements.table import Table, batch_assignments, values
from terracrew.server.db.topics import InstanceKey


class Connecting(msgspec.Struct, frozen=True):
    """What is stored of a process that connects as an instance of a runner."""

    runner_id: str
    name: str
    key_sha256: str
    server_id: str | None
    version: str
    capacity: int
    engines: dict[str, str]
    """Each engine with the version that a job uses by default."""
    engine_versions: dict[str, list[str]]
    """Each engine with all of its versions."""
    installable_engines: list[str]
    """The engines of which missing versions are installed when a job needs them."""
    dispatchers: list[OfferedDispatcher]
    """The dispatchers that jobs may ask for, the default one first."""
    is_draining: bool
    is_disk_full: bool
    drain_reason: str
    """What announced its end; empty if nothing did."""
    ends_at: float | None
    """When it and its executors end at the latest; None if that is not known."""
    isolation: str
    machine: str
    """What the process says about the machine that it runs on; empty if it does not know."""
    resume_sha256: str
    """With the secret of this digest, the same process takes its place again at once."""
    installation: Installation = Installation()
    """How the process was installed."""
    is_self_updating: bool = False
    knows_merge_results: bool = False
    """Whether it can be given a job whose source is the result of a merge."""
    is_on_trial: bool = False
    """Whether it takes no jobs until it has reported that its trial has passed."""
    once_token_id: str | None = None
    """The once token that it came with, which its claim uses up; None if its credential is for any number of jobs."""


class PlacedProcess(msgspec.Struct, frozen=True):
    """A process that connects, with the instance whose place it gets."""

    process: Connecting
    instance_id: str
    epoch: int
    """The epoch of the last connection; 0 for a new instance."""
    address: str | None
    resumed: str
    """The digest of the secret by which the process takes its own place again."""


class Connected(msgspec.Struct, frozen=True):
    instance_id: str
    epoch: int
    """Counts the connections of the instance."""


INSTANCES = Table("instances", Connecting)
_REPLACED: tuple[LiteralString, ...] = (
    *(field for field in INSTANCES.fields if field not in ("runner_id", "name", "is_draining")),
    "is_connected",
    "connected_at",
    "heard_at",
)
"""The columns that each connection of an instance sets anew, besides those of `_kept`."""


def _kept(new: LiteralString) -> LiteralString:
    """A process on trial has no result yet. Later connections keep the one that was reported. An instance that was retired stays so."""
    return f"""is_draining = {new}.is_draining OR instances.retire_reason <> '',
    trial_passed = CASE WHEN {new}.is_on_trial THEN NULL ELSE instances.trial_passed END,
    trial_words = CASE WHEN {new}.is_on_trial THEN '' ELSE instances.trial_words END"""


_GROUPED: tuple[LiteralString, ...] = (
    *INSTANCES.fields,
    "id",
    "epoch",
    "is_connected",
    "connected_at",
    "heard_at",
    "address",
)
_GROUPED_TYPES = INSTANCES.types_of(
    *INSTANCES.fields,
    id="text",
    epoch="bigint",
    is_connected="boolean",
    connected_at="double precision",
    heard_at="double precision",
    address="text",
    resumed="text",
)
_CONNECT_NEW: LiteralString = (
    INSTANCES.insert_batch(*_GROUPED)
    + " ON CONFLICT (runner_id, name) DO NOTHING RETURNING instances.id, instances.epoch"
)
_CONNECT_AGAIN: LiteralString = f"""
UPDATE instances SET {batch_assignments(*_REPLACED)}, address = batch.address,
    {_kept("batch")}, epoch = instances.epoch + 1, disconnected_at = NULL, asked_at = NULL, is_leaving = false
FROM batch WHERE instances.id = batch.id AND instances.epoch = batch.epoch AND (NOT instances.is_connected
    OR (instances.key_sha256 = batch.key_sha256 AND instances.resume_sha256 = batch.resumed))
RETURNING instances.id, instances.epoch"""
_CONTACT_AT: LiteralString = "CAST(batch.microseconds AS double precision) / 1000000"
_NOTE_INSTANCE_CONTACTS: LiteralString = f"""
UPDATE instances SET heard_at = {_CONTACT_AT} FROM batch
WHERE instances.id = batch.id AND instances.epoch = batch.epoch AND instances.heard_at < {_CONTACT_AT}"""
"""The times are whole numbers, so that SQLite gets all rows at once: hundreds of instances are written together."""
_NOTE_ATTEMPT_CONTACTS: LiteralString = """
UPDATE attempts SET heard_at = CASE WHEN attempts.heard_at > batch.at THEN attempts.heard_at ELSE batch.at END,
    executor_server_id = coalesce(batch.server_id, attempts.executor_server_id),
    executor_heard_at = CASE WHEN batch.server_id IS NULL THEN attempts.executor_heard_at ELSE batch.at END
FROM batch
WHERE attempts.job_id = batch.job_id AND attempts.number = batch.attempt AND (attempts.ended_at IS NULL OR attempts.is_in_doubt)
    AND coalesce(batch.instance_id, attempts.instance_id) = attempts.instance_id"""
_SILENCE_EXECUTORS: LiteralString = """
UPDATE attempts SET heard_at = batch.at, executor_server_id = NULL FROM batch
WHERE attempts.job_id = batch.job_id AND attempts.number = batch.attempt AND attempts.heard_at > batch.at
    AND attempts.executor_server_id = batch.server_id"""
_ATTEMPT_CONTACT_TYPES: Columns = {
    "job_id": "text",
    "attempt": "bigint",
    "instance_id": "text",
    "server_id": "text",
    "at": "double precision",
}


async def connect(tx: Tx, placed: Sequence[PlacedProcess]) -> dict[str, int]:
    """Give each process the row of its instance, and return the new epochs by the ids of the instances.

    An instance is missing from the result if its row has changed, or was made, since it was read.
    """
    rows = {
        each.instance_id: (
            *values(each.process, *INSTANCES.fields),
            *(each.instance_id, each.epoch or 1, True, tx.now, tx.now, each.address, each.resumed),
        )
        for each in placed
    }
    # Rows are locked in the same order by every server. A new id is known to one server only, so new rows go by their names.
    named = sorted(placed, key=lambda each: (each.process.runner_id, each.process.name))
    new = [rows[each.instance_id] for each in named if not each.epoch]
    known = [rows[each.instance_id] for each in sorted(placed, key=lambda each: each.instance_id) if each.epoch]
    found = [
        *await tx.each(_CONNECT_NEW, _GROUPED_TYPES, new),
        *await tx.each(_CONNECT_AGAIN, _GROUPED_TYPES, known),
    ]
    epochs: dict[str, int] = {row["id"]: row["epoch"] for row in found}
    for each in placed:
        if each.instance_id in epochs:
            _changed(tx, each.process.runner_id, each.instance_id)
    return epochs


async def disconnect(tx: Tx, runner_id: str, instance_id: str, epoch: int) -> None:
    """Note that a connection has ended."""
    await tx.run(
        """UPDATE instances SET is_connected = false, disconnected_at = :now
        WHERE id = :id AND epoch = :epoch AND is_connected""",
        id=instance_id,
        epoch=epoch,
        now=tx.now,
    )
    _changed(tx, runner_id, instance_id)


async def disconnect_silent(tx: Tx, runner_id: str, instance_id: str, epoch: int, heard_at: float) -> None:
    """Count an instance as gone, unless there was contact since; the server that has its connection ends it."""
    if await tx.run(
        """UPDATE instances SET is_connected = false, disconnected_at = :now, asked_at = NULL
        WHERE id = :id AND epoch = :epoch AND heard_at = :heard_at AND is_connected""",
        id=instance_id,
        epoch=epoch,
        heard_at=heard_at,
        now=tx.now,
    ):
        _changed(tx, runner_id, instance_id)


async def disconnect_unanswered(tx: Tx, runner_id: str, instance_id: str, epoch: int, asked_at: float) -> bool:
    """Count an instance as gone that has not answered a question; False if it has answered."""
    touched = await tx.run(
        """UPDATE instances SET is_connected = false, disconnected_at = :now, asked_at = NULL
        WHERE id = :id AND epoch = :epoch AND is_connected AND asked_at = :asked_at""",
        id=instance_id,
        epoch=epoch,
        asked_at=asked_at,
        now=tx.now,
    )
    if touched:
        _changed(tx, runner_id, instance_id)
    return bool(touched)


async def ask(tx: Tx, instance_id: str, epoch: int) -> float:
    """Ask the process of a connection whether it is alive, and return when that was asked first."""
    row = await tx.one(
        """UPDATE instances SET asked_at = coalesce(asked_at, :now) WHERE id = :id AND epoch = :epoch AND is_connected
        RETURNING asked_at""",
        id=instance_id,
        epoch=epoch,
        now=tx.now,
    )
    tx.wake("asked", instance_id)
    return tx.now if row is None else row["asked_at"]


async def answer(tx: Tx, instance_id: str, epoch: int) -> None:
    """Record that the process of a connection has sent something after it was asked."""
    if await tx.run(
        "UPDATE instances SET asked_at = NULL, heard_at = :now WHERE id = :id AND epoch = :epoch AND asked_at IS NOT NULL",
        id=instance_id,
        epoch=epoch,
        now=tx.now,
    ):
        tx.wake("answered", instance_id)


async def set_reported(tx: Tx, runner_id: str, instance_id: str, epoch: int, beat: Heartbeat) -> None:
    """Note what an instance reported in a heartbeat: its version, whether it takes new jobs, and why not.

    One that leaves, was retired or is on trial takes none, whatever it reports.
    """
    await tx.run(
        """UPDATE instances SET version = :version,
            is_draining = CAST(:is_draining AS boolean) OR is_leaving OR is_on_trial OR retire_reason <> '',
            is_disk_full = :is_disk_full, drain_reason = :drain_reason, ends_at = :ends_at
        WHERE id = :id AND epoch = :epoch""",
        version=beat.version,
        is_draining=beat.is_draining,
        is_disk_full=beat.is_disk_full,
        drain_reason=beat.drain_reason,
        ends_at=beat.ends_at,
        id=instance_id,
        epoch=epoch,
    )
    _changed(tx, runner_id, instance_id)


async def set_trial(tx: Tx, runner_id: str, instance_id: str, epoch: int, *, is_passed: bool, words: str) -> None:
    """Note how the trial of the process of a connection ended."""
    await tx.run(
        """UPDATE instances SET trial_passed = :is_passed, trial_words = :words,
            is_on_trial = is_on_trial AND NOT CAST(:is_passed AS boolean) WHERE id = :id AND epoch = :epoch""",
        is_passed=is_passed,
        words=words,
        id=instance_id,
        epoch=epoch,
    )
    _changed(tx, runner_id, instance_id)


async def hold(tx: Tx, instance_id: str, epoch: int) -> bool:
    """Lock an instance until the transaction ends, so that nothing is claimed for it. Returns whether it has this connection."""
    row = await tx.one(
        "SELECT id FROM instances WHERE id = :id AND epoch = :epoch AND is_connected FOR UPDATE",
        id=instance_id,
        epoch=epoch,
    )
    return row is not None


async def hold_any(tx: Tx, instance_id: str) -> None:
    """Lock an instance until the transaction ends, whether or not it is connected."""
    await tx.one("SELECT id FROM instances WHERE id = :id FOR UPDATE", id=instance_id)


async def keep(tx: Tx, instance_ids: Collection[str]) -> None:
    """Keep instances from being let go until the transaction ends. A claim after this sees what was decided about them before.

    The lock does not exclude other claims for the same instance, or notes about its contact.
    """
    await tx.each_id(
        """SELECT instances.id FROM batch JOIN instances ON instances.id = batch.id
        ORDER BY instances.id FOR KEY SHARE OF instances""",
        sorted(instance_ids),
    )


async def let_go(tx: Tx, runner_id: str, instance_id: str) -> None:
    """Note that the process of an instance may end: it takes no jobs until it connects again. The transaction holds the instance."""
    await tx.run("UPDATE instances SET is_draining = true, is_leaving = true WHERE id = :id", id=instance_id)
    _changed(tx, runner_id, instance_id)


async def retire(tx: Tx, runner_id: str, instance_ids: Sequence[str], reason: str) -> None:
    """Give instances no job any more, on any server, and ask their processes to end after the last one that they have."""
    retired = await tx.each(
        """UPDATE instances SET retire_reason = batch.reason, is_draining = true FROM batch
        WHERE instances.id = batch.id AND instances.retire_reason = '' RETURNING instances.id""",
        {"id": "text", "reason": "text"},
        [(each, reason) for each in sorted(instance_ids)],
    )
    for row in retired:
        _changed(tx, runner_id, row["id"])


async def note_instance_contacts(tx: Tx, rows: Sequence[tuple[str, int, float]]) -> None:
    """Store the last contact of instances; each row has an id, an epoch and a time."""
    columns: Columns = {"id": "text", "epoch": "bigint", "microseconds": "bigint"}
    await tx.each(_NOTE_INSTANCE_CONTACTS, columns, [(id_, epoch, round(at * 1_000_000)) for id_, epoch, at in rows])


async def note_attempt_contacts(tx: Tx, rows: Sequence[tuple[Param, ...]]) -> None:
    """Store the last contact of attempts, with a runner or with their executors; each row has the columns of `_ATTEMPT_CONTACT_TYPES`."""
    await tx.each(_NOTE_ATTEMPT_CONTACTS, _ATTEMPT_CONTACT_TYPES, rows)


async def silence_executors(tx: Tx, rows: Sequence[tuple[Param, ...]]) -> None:
    """Store since when executors of this server are silent; the rows are those of `note_attempt_contacts`."""
    await tx.each(_SILENCE_EXECUTORS, _ATTEMPT_CONTACT_TYPES, rows)


async def disconnect_executor(tx: Tx, ref: AttemptRef, server_id: str) -> None:
    """Note that an executor is not connected to this server any more. A cancellation may have to reach its runner instead."""
    if await tx.run(
        """UPDATE attempts SET executor_server_id = NULL
        WHERE job_id = :job_id AND number = :attempt AND ended_at IS NULL AND executor_server_id = :server_id""",
        job_id=ref.job_id,
        attempt=ref.attempt,
        server_id=server_id,
    ):
        tx.wake("cancel", ref.job_id)


async def delete_gone(tx: Tx, before: float, count: int) -> list[Row]:
    """Delete instances that disconnected before this time and that nothing needs, and return their ids and names.

    An instance that comes back finds its row again. A row is needed while a process of that instance has an attempt, while
    an attempt in doubt may still be in contact through it, or while a plan waits to be applied where it was made.
    """
    return await tx.all(
        """DELETE FROM instances WHERE NOT is_connected AND id IN (
            SELECT id FROM instances WHERE NOT is_connected AND disconnected_at < :before AND id NOT IN (
                SELECT instance_id FROM attempts WHERE ended_at IS NULL
                UNION SELECT instance_id FROM attempts WHERE is_in_doubt
                UNION SELECT attempts.instance_id FROM plans
                    JOIN attempts ON attempts.job_id = plans.job_id AND attempts.number = plans.attempt WHERE plans.is_kept)
            ORDER BY disconnected_at LIMIT :count)
        RETURNING id, name""",
        before=before,
        count=count,
    )


def _changed(tx: Tx, runner_id: str, instance_id: str) -> None:
    tx.wake("instances", InstanceKey(runner_id, instance_id).encode())
