"""Sends the log settings that operators set for a runner to the executors of its attempts that are connected here."""

from terracrew.api.runners import UNCONFIGURED
from terracrew.server.connections import reads
from terracrew.server.hub.context import ConnectionContext


async def send(hub: ConnectionContext, runner_id: str | None = None) -> None:
    """Send the settings to the executors of one runner, or to all. An executor gets only changes."""
    executors = [each for each in hub.registry.executors.values() if runner_id in (None, each.runner_id)]
    if not executors:
        return
    found = await hub.db.read(lambda tx: reads.configurations(tx, [each.runner_id for each in executors]))
    for each in executors:
        each.configure(found.get(each.runner_id, UNCONFIGURED))
