"""Notices that an instance is taken over or moves: raises an alert and audits it, with the addresses of both processes."""

import msgspec

from terracrew.api.runners import AlertKind
from terracrew.protocol.messages import RunnerHello
from terracrew.server.connections import reads
from terracrew.server.connections.reads import ServedRunner
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.hub.runners import takeover
from terracrew.server.hub.runners.context import InstanceRow
from terracrew.server.principals.model import Principal
from terracrew.server.runners.alerts import raising
from terracrew.server.runners.alerts.raising import AlertedRunner
from terracrew.server.runners.alerts.store import Occurrence
from terracrew.server.secrets import credentials

MAX_FORMER_INSTANCES = 20


class FormerInstance(msgspec.Struct, frozen=True):
    """An instance as it was before a new process took it over."""

    id: str
    runner_id: str
    name: str
    epoch: int
    key_sha256: str
    resume_sha256: str | None
    address: str | None
    machine: str
    heard_at: float
    is_connected: bool
    once_token_id: str | None


async def former_instances(tx: Tx, owner: ServedRunner, hello: RunnerHello) -> list[FormerInstance]:
    """Return the instances that this process may take over. Their number does not depend on the size of the fleet."""
    rows = await reads.former(tx, owner, hello.instance, MAX_FORMER_INSTANCES)
    return rows_to(FormerInstance, rows)


async def record(
    tx: Tx, who: Principal, owner: ServedRunner, hello: RunnerHello, before: list[FormerInstance], place: InstanceRow
) -> None:
    """Record what the process has taken over.

    A process that reconnects with its own key from its own address takes nothing over.
    """
    for seat in before:
        kind = _kind(seat, who, hello, place)
        if kind is not None:
            details: dict[str, object] = {"instance": hello.instance, "replaced": seat.name}
            await raising.occurred(tx, who, _alerted(owner), _occurrence(kind, who, hello, seat), details)


async def record_refusal(tx: Tx, who: Principal, owner: ServedRunner, hello: RunnerHello, reason: str) -> None:
    """Record that a process wanted the place of a connected instance and did not get it."""
    seats = [seat for seat in await former_instances(tx, owner, hello) if seat.is_connected]
    seat = next(iter(seats), None)
    details: dict[str, object] = {"instance": hello.instance, "reason": reason}
    await raising.occurred(tx, who, _alerted(owner), _occurrence(AlertKind.REFUSED, who, hello, seat), details)


def is_free(seat: FormerInstance, who: Principal, hello: RunnerHello) -> bool:
    """Return whether a process may have the place of its own instance without a question and without an alert."""
    is_in_the_way = seat.is_connected and not _is_same_process(seat, hello)
    return not is_in_the_way and not _is_elsewhere(seat, who, hello)


def _is_same_process(seat: FormerInstance, hello: RunnerHello) -> bool:
    return seat.resume_sha256 == takeover.resume_digest(hello) and _is_same_key(seat, hello)


def _is_same_key(seat: FormerInstance, hello: RunnerHello) -> bool:
    return seat.key_sha256 == credentials.digest(hello.instance_key)


def _is_elsewhere(seat: FormerInstance, who: Principal, hello: RunnerHello) -> bool:
    return seat.address not in (None, who.address) or _is_other_machine(seat, hello)


def _kind(seat: FormerInstance, who: Principal, hello: RunnerHello, place: InstanceRow) -> AlertKind | None:
    is_same_place = seat.id == place.instance_id
    is_same_key = _is_same_key(seat, hello)
    is_elsewhere = _is_elsewhere(seat, who, hello)
    is_same_process = is_same_place and _is_same_process(seat, hello)
    if seat.is_connected and not is_same_process:
        return None if is_same_place and is_same_key and not is_elsewhere else AlertKind.TAKEN_OVER
    return AlertKind.MOVED if is_same_place and is_elsewhere else None


def _is_other_machine(seat: FormerInstance, hello: RunnerHello) -> bool:
    return bool(seat.machine and hello.machine and seat.machine != hello.machine)


def _occurrence(kind: AlertKind, who: Principal, hello: RunnerHello, seat: FormerInstance | None) -> Occurrence:
    if seat is None:
        return Occurrence(kind, hello.instance, who.address)
    is_other = _is_other_machine(seat, hello)
    return Occurrence(kind, hello.instance, who.address, seat.address, seat.heard_at, is_other)


def _alerted(owner: ServedRunner) -> AlertedRunner:
    return AlertedRunner(owner.id, owner.path, owner.organization_id)
