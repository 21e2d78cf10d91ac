"""The rows of a connected runner process: its runner, and its instance, which gets a new epoch for every connection."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice

import msgspec

from terracrew import ids
from terracrew.api import fields
from terracrew.errors import Removed, Superseded, Unauthenticated, Unavailable
from terracrew.protocol import limits, messages
from terracrew.protocol.messages import Installation
from terracrew.server.connections import heartbeats, reads
from terracrew.server.connections import store as instance_store
from terracrew.server.connections.reads import ServedRunner
from terracrew.server.connections.registry import MAX_REPORTED_ATTEMPTS, RunnerSession
from terracrew.server.connections.store import Connected, PlacedProcess
from terracrew.server.db.seam import Database, Row, Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.engines import model as engines
from terracrew.server.engines import store as engine_store
from terracrew.server.engines.model import AvailableEngines
from terracrew.server.hub.runners import reports, takeover
from terracrew.server.hub.runners.context import Arriving, InstanceRow, RunnerContext
from terracrew.server.hub.runners.takeover_audit import FormerInstance
from terracrew.server.principals import authorize
from terracrew.server.principals.model import Principal
from terracrew.server.secrets import credentials
from terracrew.server.tree.groups import tree_path as paths

REMOVED = "this runner was removed; its running attempts deliver their results without it. To use this machine again, register a runner"


async def runner_row(tx: Tx, principal: Principal, runner_id: str, path: str = "") -> ServedRunner:
    """Return the runner with this id, or with this path in the principal's organization, if the principal may serve it.

    A credential gets the same answer for a path that does not exist and for the path of a runner that it may not serve.
    The row of a runner for one process is locked until the transaction ends, so that of two processes one is first. Processes
    of a runner with several instances do not wait for each other; `connect` decides between two with the same name.
    """
    if path and not runner_id:
        wanted = await reads.runner_at(tx, principal.organization_id, paths.parse(path))
        if wanted is None:
            raise authorize.no_runner()
    else:
        wanted = ids.parse("rnr", runner_id)
    found = await reads.runner(tx, wanted)
    if found is None:
        if await reads.is_removed(tx, wanted):
            raise Removed(REMOVED)
        raise authorize.no_runner()
    authorize.require_runner(principal, found)
    return found


async def connect(
    tx: Tx, server_id: str, arriving: Sequence[tuple[Arriving, ServedRunner, FormerInstance | None]]
) -> list[InstanceRow | None]:
    """Give these processes the places of their instances, with new epochs: each that of its former instance, or a new one.

    The result of a process is None if its instance has changed, or was made, since it was read.
    """
    processes = [_placed(server_id, *each) for each in arriving]
    epochs = await instance_store.connect(tx, [process for _, process in processes])
    arrived = {
        process.instance_id: (each.hello, Connected(process.instance_id, epochs[process.instance_id]), resume)
        for (each, _, _), (resume, process) in zip(arriving, processes, strict=True)
        if process.instance_id in epochs
    }
    rows = dict(zip(arrived, await _rows_of(tx, list(arrived.values())), strict=True))
    return [rows.get(process.instance_id) for _, process in processes]


def _placed(
    server_id: str, arriving: Arriving, owner: ServedRunner, former: FormerInstance | None
) -> tuple[str, PlacedProcess]:
    """Return a new secret for the next connection of a process, and what is stored of the process and its place."""
    who, hello = arriving
    resume, process = _connecting(server_id, owner, hello, who.once_token_id)
    instance_id, epoch = (ids.new("ins"), 0) if former is None else (former.id, former.epoch)
    return resume, PlacedProcess(process, instance_id, epoch, who.address, takeover.resume_digest(hello))


def _connecting(
    server_id: str, owner: ServedRunner, hello: messages.RunnerHello, once_token_id: str | None
) -> tuple[str, instance_store.Connecting]:
    """Return a new secret for the next connection of the process, and what is stored of the process."""
    resume = secrets.token_hex(32)
    return resume, fields.created(
        instance_store.Connecting,
        hello,
        runner_id=owner.id,
        name=hello.instance,
        key_sha256=credentials.digest(hello.instance_key),
        server_id=server_id,
        is_draining=hello.is_draining or hello.is_on_trial,
        installation=_readable(hello.installation),
        resume_sha256=credentials.digest(resume),
        once_token_id=once_token_id,
    )


def _readable(installation: Installation) -> Installation:
    """Leave out what is too long or cannot be shown: a runner at an unusual place still takes jobs."""
    return Installation(
        kind=installation.kind if limits.is_label(installation.kind) else "",
        place=installation.place if limits.is_label(installation.place, limits.MAX_PLACE_CHARACTERS) else "",
        detail=installation.detail if limits.is_label(installation.detail, limits.MAX_PLACE_CHARACTERS) else "",
    )


async def _rows_of(tx: Tx, arrived: Sequence[tuple[messages.RunnerHello, Connected, str]]) -> list[InstanceRow]:
    """Store what these processes said of their engines and attempts, and return their rows; each has its secret beside it."""
    await engine_store.set_available(tx, {it.instance_id: available_engines(hello) for hello, it, _ in arrived})
    active = await reads.active_attempts(tx, [it.instance_id for _, it, _ in arrived])
    named = [(it.instance_id, ref) for hello, it, _ in arrived for ref in hello.attempts[:MAX_REPORTED_ATTEMPTS]]
    await heartbeats.named(tx, named)
    return [
        InstanceRow(
            it.instance_id,
            it.epoch,
            set(active[it.instance_id]),
            {ref: reason for ref, reason in active[it.instance_id].items() if reason},
            resume,
        )
        for _, it, resume in arrived
    ]


def available_engines(hello: messages.RunnerHello) -> AvailableEngines:
    dispatchers = msgspec.json.encode(hello.dispatchers).decode()
    return engines.available(hello.engines, hello.engine_versions, hello.installable_engines, dispatchers)


async def disconnect(db: Database, session: RunnerSession) -> None:
    await db.write(lambda tx: instance_store.disconnect(tx, session.runner_id, session.instance_id, session.epoch))


REFRESH_BATCH_ROWS = 100
"""The number of connections in one batch. Between two batches, other tasks of the event loop run."""


def session_rows(db: Database) -> Callable[[str], Awaitable[Row | None]]:
    """Return the function that reads what the rows of an instance and of its runner say, for many at once."""

    async def work(tx: Tx, instance_ids: list[str]) -> Sequence[Row | None]:
        found = {row["instance_id"]: row for row in await reads.session_rows(tx, instance_ids)}
        return [found.get(each) for each in instance_ids]

    return db.grouped_reads(work)


async def refresh_new(hub: RunnerContext, session: RunnerSession) -> None:
    """Apply the current rows to a connection that was just made; many of them are read at once."""
    row = await hub.session_row(session.instance_id)
    if hub.registry.has(session):
        await _bring_up_to_date(hub, session, row)


async def refresh(hub: RunnerContext, sessions: Iterable[RunnerSession]) -> None:
    """Apply the current rows to open connections: slots, drain, disable. Connections whose row is gone are dropped."""
    asked = iter(sessions)
    while few := list(islice(asked, REFRESH_BATCH_ROWS)):
        names = [session.instance_id for session in few]
        rows = await hub.db.read(lambda tx, names=names: reads.session_rows(tx, names))
        found = {row["instance_id"]: row for row in rows}
        for session in few:
            if hub.registry.has(session):
                await _bring_up_to_date(hub, session, found.get(session.instance_id))
        await asyncio.sleep(0)


async def _bring_up_to_date(hub: RunnerContext, session: RunnerSession, row: Row | None) -> None:
    if row is None:
        await _dismiss(hub, session)  # at once: its credential is looked at next, and would be the reason otherwise
    elif row["epoch"] != session.epoch:
        session.socket.drop(Superseded("a newer connection of this instance has taken its place"))
    elif not row["is_connected"]:
        session.socket.give_up(
            Unavailable("this instance was silent for too long and counts as disconnected; connect again")
        )
    elif not authorize.may_serve_runner(session.principal, owner := row_to(ServedRunner, row)):
        session.socket.drop(Unauthenticated("this credential is no longer valid for this runner"))
    else:
        if row["asked_at"] is not None:
            session.ask()
        session.retire(row["retire_reason"])
        _apply(hub, session, owner, min(row["capacity"], owner.max_jobs))
        await reports.send_update(hub, session, row["update_id"])


async def _dismiss(hub: RunnerContext, session: RunnerSession) -> None:
    """Drop a connection whose row is gone: its runner was removed, or the database was set back to before it connected."""
    is_known = await hub.db.read(lambda tx: reads.runners(tx, [session.runner_id]))
    again = Unavailable("this server does not know this instance any more; connect again")
    session.socket.drop(again if is_known else Removed(REMOVED))


def _apply(hub: RunnerContext, session: RunnerSession, owner: ServedRunner, slots: int) -> None:
    before = session.slots, session.is_closed, session.tags
    session.slots, session.is_closed, session.tags = slots, owner.is_draining or owner.is_disabled, owner.tags
    if session.drain_sent != owner.is_draining:
        session.drain_sent = owner.is_draining
        session.socket.post(messages.Drain(owner.is_draining))
    session.configure(owner.configuration)
    if before != (session.slots, session.is_closed, session.tags):
        hub.scheduler.serve_soon(session)
