"""Records takeovers in the audit log, with the addresses of the new and the old process."""

import msgspec

from terracrew.protocol.messages import RunnerHello
from terracrew.server.audit import service as audit
from terracrew.server.connections import reads
from terracrew.server.connections import store as instance_store
from terracrew.server.connections.reads import ServedRunner
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.hub.runners.instances import InstanceRow
from terracrew.server.principals.model import Principal
from terracrew.server.secrets import credentials

MAX_FORMER_INSTANCES = 20


class FormerInstance(msgspec.Struct, frozen=True):
    """An instance as it was before a new process took it over."""

    id: str
    name: str
    key_sha256: str
    address: str | None
    is_connected: bool


async def former_instances(tx: Tx, owner: ServedRunner, hello: RunnerHello) -> list[FormerInstance]:
    """Return the instances that this process may take over. Their number does not depend on the size of the fleet."""
    rows = await reads.former(tx, owner, hello.instance, MAX_FORMER_INSTANCES)
    return rows_to(FormerInstance, rows)


async def record(
    tx: Tx, who: Principal, owner: ServedRunner, hello: RunnerHello, before: list[FormerInstance], place: InstanceRow
) -> None:
    """Record what the process has taken over, and its new address.

    A process that reconnects with its own key from its own address takes nothing over.
    """
    key = credentials.digest(hello.instance_key)
    for seat in before:
        is_same = seat.id == place.instance_id and seat.key_sha256 == key and seat.address in (None, who.address)
        if seat.is_connected and not is_same:
            details = {"runner": owner.path, "instance": hello.instance, "replaced": seat.name, "from": seat.address}
            await audit.record(
                tx, who, "runner.takeover", "runner", owner.id, details, organization_id=owner.organization_id
            )
    if not any(seat.id == place.instance_id and seat.address == who.address for seat in before):
        await instance_store.set_address(tx, place.instance_id, who.address)
