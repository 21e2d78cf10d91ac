"""The place of a runner's process: its record, the row of its instance with a new epoch for every connection, and its leaving."""

from typing import TYPE_CHECKING, LiteralString

import msgspec

from terracrew import ids
from terracrew.errors import Conflict, NotFound, Superseded, Unauthenticated
from terracrew.protocol import messages
from terracrew.protocol.messages import AttemptRef
from terracrew.server.db.mapping import row_to
from terracrew.server.db.seam import Row, Tx
from terracrew.server.hub.heartbeats import HEARD, HEARD_COLUMNS
from terracrew.server.hub.registry import RunnerSession
from terracrew.server.identity import authorize, credentials
from terracrew.server.identity.model import Principal
from terracrew.server.runners.model import SILENCE_SECONDS

if TYPE_CHECKING:
    from terracrew.server.context import Server


class Record(msgspec.Struct, frozen=True):
    """What the hub needs to know of a runner's record."""

    id: str
    organization_id: str | None
    service_account_id: str | None
    path: str
    is_disabled: bool
    is_draining: bool
    allow_multiple_instances: bool
    max_jobs: int


class Place(msgspec.Struct, frozen=True):
    instance_id: str
    epoch: int
    current: set[AttemptRef]
    """The attempts that it was granted and that have not ended."""


async def record(tx: Tx, principal: Principal, runner_id: str) -> Record:
    """The record that the principal may serve, held until the transaction ends: of two processes that come, one is first."""
    row = await tx.one(
        """SELECT id, organization_id, service_account_id, path, is_disabled, is_draining, allow_multiple_instances,
            max_jobs FROM runners WHERE id = :id FOR NO KEY UPDATE""",
        id=ids.parse("rnr", runner_id),
    )
    if row is None:
        raise NotFound("there is no such runner for this credential")
    found = row_to(Record, row)
    authorize.require_runner(principal, found)
    return found


async def take(tx: Tx, server_id: str, owner: Record, hello: messages.RunnerHello) -> Place:
    """The instance's row, with a new epoch. Its key gives it its old place at once; a stranger must find the place free."""
    key = credentials.digest(hello.instance_key)
    await _check_free(tx, owner, hello.instance, key)
    row = await tx.one(
        """INSERT INTO instances (id, runner_id, name, key_sha256, epoch, server_id, version, capacity, engines, is_connected,
            is_draining, connected_at, heard_at)
        VALUES (:id, :runner_id, :name, :key, 1, :server_id, :version, :capacity, :engines, true, :is_draining, :now, :now)
        ON CONFLICT (runner_id, name) DO UPDATE SET key_sha256 = excluded.key_sha256, epoch = instances.epoch + 1,
            server_id = excluded.server_id, version = excluded.version, capacity = excluded.capacity,
            engines = excluded.engines, is_connected = true, is_draining = excluded.is_draining,
            connected_at = excluded.connected_at, heard_at = excluded.heard_at, disconnected_at = NULL
        RETURNING id, epoch""",
        id=ids.new("ins"), runner_id=owner.id, name=hello.instance, key=key, server_id=server_id, version=hello.version,
        capacity=hello.capacity, engines=messages.encode(hello.engines).decode(), is_draining=hello.is_draining, now=tx.now,
    )  # fmt: skip
    assert row is not None
    held = await tx.all(
        "SELECT id, attempt FROM jobs WHERE instance_id = :id AND status IN ('CLAIMED', 'PROCESSING')", id=row["id"]
    )
    current = {AttemptRef(job["id"], job["attempt"]) for job in held}
    named = sorted(current & set(hello.attempts))
    await tx.each(HEARD, HEARD_COLUMNS, [(ref.job_id, ref.attempt, row["id"], tx.now) for ref in named])
    tx.wake("runners", owner.id)
    return Place(row["id"], row["epoch"], current)


async def _check_free(tx: Tx, owner: Record, name: str, key: str) -> None:
    """A place whose process has been silent for as long as it takes to be offline is free, whatever became of its connection."""
    rows = await tx.all(
        "SELECT name, key_sha256 FROM instances WHERE runner_id = :id AND is_connected AND heard_at > :since",
        id=owner.id, since=tx.now - SILENCE_SECONDS,
    )  # fmt: skip
    for row in rows:
        if row["name"] == name:
            if row["key_sha256"] != key:
                raise Conflict(
                    f"an instance named {name} of {owner.path} is connected already; name this one otherwise"
                )
        elif not owner.allow_multiple_instances:
            raise Conflict(
                f"{owner.path} takes one process, and {row['name']} is connected; allow several instances, or stop that one"
            )


async def leave(server: "Server", session: RunnerSession) -> None:
    async def work(tx: Tx) -> None:
        await tx.run(
            """UPDATE instances SET is_connected = false, disconnected_at = :now
            WHERE id = :id AND epoch = :epoch AND is_connected""",
            id=session.instance_id, epoch=session.epoch, now=tx.now,
        )  # fmt: skip
        tx.wake("runners", session.runner_id)

    await server.db.write(work)


_STANDING: LiteralString = """
SELECT instances.id AS instance_id, instances.epoch, instances.capacity, runners.id, runners.organization_id,
    runners.service_account_id, runners.path, runners.is_disabled, runners.is_draining, runners.allow_multiple_instances,
    runners.max_jobs
FROM instances JOIN runners ON runners.id = instances.runner_id"""


async def refresh(server: "Server", *, runner_id: str | None = None, session: RunnerSession | None = None) -> None:
    """Bring what the records say now to open connections: slots, drain and disable; what a record no longer has, ends.

    To one, to those of a runner, or to all.
    """
    registry = server.registry
    if session is not None:
        asked = [session]
        rows = await server.db.read(lambda tx: tx.all(_STANDING + " WHERE instances.id = :id", id=session.instance_id))
    elif runner_id is not None:
        if not (asked := list(registry.of_runner.get(runner_id, {}).values())):
            return
        rows = await server.db.read(lambda tx: tx.all(_STANDING + " WHERE runners.id = :id", id=runner_id))
    else:
        asked = list(registry.runners.values())
        rows = await server.db.read(lambda tx: tx.all(_STANDING + " WHERE instances.is_connected"))
    found = {row["instance_id"]: row for row in rows}
    for each in asked:
        _bring(server, each, found.get(each.instance_id))


def _bring(server: "Server", session: RunnerSession, row: Row | None) -> None:
    if row is None:
        session.socket.drop(NotFound("this runner has been removed"))
    elif row["epoch"] != session.epoch:
        session.socket.drop(Superseded("a newer connection of this instance has taken its place"))
    elif not authorize.may_serve_runner(session.principal, owner := row_to(Record, row)):
        session.socket.drop(Unauthenticated("this credential does not serve this runner any more"))
    else:
        _apply(server, session, owner, min(row["capacity"], owner.max_jobs))


def _apply(server: "Server", session: RunnerSession, owner: Record, slots: int) -> None:
    before = session.slots, session.is_closed
    session.slots, session.is_closed = slots, owner.is_draining or owner.is_disabled
    if session.is_drained != owner.is_draining:
        session.is_drained = owner.is_draining
        session.socket.post(messages.Drain(owner.is_draining))
    if before != (session.slots, session.is_closed):
        server.scheduler.serve(session)
