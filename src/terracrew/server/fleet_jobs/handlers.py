"""What the types of fleet jobs mean to the rest of the server: each has a handler, which `app.build` puts into the registry."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from terracrew.api.fleet_jobs import FleetJob, FleetJobType
from terracrew.clouds.contract import Reporter
from terracrew.clouds.model import CloudIdentity
from terracrew.fleet.messages import FleetWork
from terracrew.server.db.seam import Tx

T = TypeVar("T")


class FleetGrant(msgspec.Struct, frozen=True):
    """What the fleet process gets for an attempt."""

    identity: CloudIdentity
    work: FleetWork


class ServerReporter(Reporter, Protocol):
    """The reporter of the parts of a job that the server does itself, before and after the part of the fleet process."""

    def describe(self, step: str, words: str, reference: str = "") -> None:
        """Say what a running step does at this moment, such as `pulling the image, 21 s of about 40 s`; it adds no line to the log."""
        ...

    async def write(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run a unit of work, provided that the attempt still has the job. Raises Superseded otherwise."""
        ...

    async def run(self, work: FleetWork) -> dict[str, str]:
        """Have more done by the fleet process as a part of this job, for example to remove what was made. Raises CloudRefused."""
        ...

    async def wait(self, seconds: float) -> None:
        """Wait, and raise Canceled as soon as a person cancels the job."""
        ...


class FleetHandler(Protocol):
    """The meaning of one type of fleet job. An attempt can be cut off anywhere and is then repeated from its start."""

    later_steps: Sequence[tuple[str, str]]
    """The names and words of the steps of `after`. They are shown as steps to come from the beginning."""

    async def on_claim(self, tx: Tx, job: FleetJob) -> FleetGrant | None:
        """Build what the process gets, in the transaction that claims the job. An error of ours fails the job with its message.

        None means that the process has no part in the job: `before` and `after` do all of it.

        If `job.is_unwinding`, a person has canceled it after an earlier attempt was lost: the work is to remove what that one left.
        """
        ...

    async def before(self, job: FleetJob, reporter: ServerReporter) -> None:
        """Do the server's own part before the work of the process, for example wait for something. Not called for a job that unwinds."""
        ...

    async def after(self, job: FleetJob, facts: Mapping[str, str], reporter: ServerReporter) -> dict[str, str]:
        """Do the server's own part after the work of the process has succeeded, and return the facts for `on_end`.

        Not called for a job that unwinds. Its errors fail the job; Canceled ends it as CANCELED.
        """
        ...

    async def on_end(self, tx: Tx, job: FleetJob, facts: Mapping[str, str]) -> None:
        """Store what the end means, in the transaction that ends the job. `job.status` says how it ended; without success, there
        are no facts."""
        ...


class HandlersByPlace(msgspec.Struct, frozen=True):
    """The two meanings of one type of fleet job: for a runner in a cloud, and for one on machines that people look after."""

    in_cloud: FleetHandler
    self_hosted: FleetHandler


FleetHandlers = Mapping[FleetJobType, FleetHandler | HandlersByPlace]
"""The handlers of this server. Jobs of a type without one wait for a server that has it."""


def handler_of(handlers: FleetHandlers, job: FleetJob) -> FleetHandler | None:
    """Return the handler of a job; None if this server has none."""
    found = handlers.get(job.type)
    if isinstance(found, HandlersByPlace):
        return found.in_cloud if job.identity_id else found.self_hosted
    return found
