"""Reads what an executor is welcomed with, for all that connect at the same time with one statement for each question; and tells
them later what has changed of it."""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeAlias

from terracrew.api.runners import UNCONFIGURED, Configuration
from terracrew.errors import Forbidden
from terracrew.server.connections import reads
from terracrew.server.connections.registry import ExecutorSession
from terracrew.server.db.seam import Database, Tx
from terracrew.server.hub.context import ConnectionContext
from terracrew.server.jobs import job_inputs
from terracrew.server.jobs import service as jobs
from terracrew.server.secrets.keyring import Keyring


class Arrival(NamedTuple):
    owned: jobs.Owned
    configured: Configuration
    secrets: list[str]
    """The values that its output may contain and nobody may see."""


Arrivals: TypeAlias = Callable[[ExecutorSession], Awaitable[Arrival]]


def arrivals(db: Database, keys: Keyring) -> Arrivals:
    """Return the function that reads for an executor. It also tells the session which runner its attempt has."""

    async def work(tx: Tx, sessions: list[ExecutorSession]) -> Sequence[Arrival | Forbidden]:
        found = await jobs.owned_by_each(tx, [session.ref for session in sessions])
        own = [each for each in found if not isinstance(each, Forbidden)]
        for session, each in zip(sessions, found, strict=True):
            if not isinstance(each, Forbidden):
                session.runner_id = each.attempt.runner_id  # before its configuration is read, so that changes are sent
        configured = await reads.configurations(tx, [each.attempt.runner_id for each in own])
        secrets = await job_inputs.values_to_mask(tx, keys, [each.job for each in own])
        return [
            each
            if isinstance(each, Forbidden)
            else Arrival(each, configured.get(each.attempt.runner_id, UNCONFIGURED), secrets[each.job.id])
            for each in found
        ]

    return db.grouped_reads(work)


async def send_log_settings(hub: ConnectionContext, runner_id: str | None = None) -> None:
    """Send the settings to the executors of one runner, or to all. An executor gets only changes."""
    executors = [each for each in hub.registry.executors.values() if runner_id in (None, each.runner_id)]
    if not executors:
        return
    found = await hub.db.read(lambda tx: reads.configurations(tx, [each.runner_id for each in executors]))
    for each in executors:
        each.configure(found.get(each.runner_id, UNCONFIGURED))
