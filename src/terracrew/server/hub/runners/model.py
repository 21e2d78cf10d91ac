"""A process that asks for the place of its instance, and the place that it gets."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

import msgspec

from terracrew.protocol.messages import AttemptRef, RunnerHello
from terracrew.server.connections.reads import ServedRunner
from terracrew.server.principals.model import Principal


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
