"""Sends the log settings that operators set for a runner to the executors of its attempts that are connected here."""

from typing import TYPE_CHECKING, LiteralString

import msgspec

from terracrew.server.connections.configuration import UNCONFIGURED, Configuration
from terracrew.server.db.seam import Tx

if TYPE_CHECKING:
    from terracrew.server.context import Server

_CONFIGURATIONS: LiteralString = (
    "SELECT runners.id, runners.configuration FROM batch JOIN runners ON runners.id = batch.id"
)
_decode = msgspec.json.Decoder(Configuration).decode


async def of(tx: Tx, *runner_ids: str) -> dict[str, Configuration]:
    """Return the configurations of these runners. A removed one has none, and its executors keep their own settings."""
    rows = await tx.each(_CONFIGURATIONS, {"id": "text"}, [(each,) for each in sorted(set(runner_ids))])
    return {row["id"]: _decode(row["configuration"]) for row in rows}


async def send(server: "Server", runner_id: str | None = None) -> None:
    """Send the settings to the executors of one runner, or to all. An executor gets only changes."""
    executors = [each for each in server.registry.executors.values() if runner_id in (None, each.runner_id)]
    if not executors:
        return
    found = await server.db.read(lambda tx: of(tx, *(each.runner_id for each in executors)))
    for each in executors:
        each.configure(found.get(each.runner_id, UNCONFIGURED))
