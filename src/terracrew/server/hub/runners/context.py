"""What the connections of runners need of a running server, and the place that a process asks for and gets."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import msgspec

from terracrew.protocol.messages import AttemptRef, RunnerHello
from terracrew.server.connections.heartbeats import Heartbeats
from terracrew.server.connections.reads import ServedRunner
from terracrew.server.db.seam import Row
from terracrew.server.hub.context import ConnectionContext
from terracrew.server.hub.runners.grants import Grants
from terracrew.server.identity.context import Identity
from terracrew.server.principals.model import Principal
from terracrew.server.scheduling.scheduler import Scheduler


class Arriving(NamedTuple):
    principal: Principal
    hello: RunnerHello


class InstanceRow(msgspec.Struct, frozen=True):
    instance_id: str
    epoch: int
    current: set[AttemptRef]
    """The attempts that the instance was granted and that have not ended."""
    starting: dict[AttemptRef, str]
    """What the starts of some of them waited for, as it said on an earlier connection."""
    resume: str
    """The secret with which the same process reconnects without a takeover."""


Placed: TypeAlias = tuple[ServedRunner, InstanceRow]
Places: TypeAlias = Callable[[Arriving], Awaitable[Placed | None]]


@dataclass(frozen=True)
class RunnerContext(ConnectionContext):
    identity: Identity
    scheduler: Scheduler
    grants: Grants
    heartbeats: Heartbeats
    places: Places
    session_row: Callable[[str], Awaitable[Row | None]]
    """Reads what the rows of an instance and of its runner say now."""
