"""Reads what the overview shows beside the sums: slots of runners, and what waits and runs now."""

from typing import LiteralString

from terracrew.server.db.seam import Tx
from terracrew.server.runners import eligibility

_SLOTS: LiteralString = f"""
SELECT coalesce(runners.group_id, '') AS group_id, sum({eligibility.SLOTS}) AS slots
FROM instances JOIN runners ON runners.id = instances.runner_id
WHERE instances.is_connected AND NOT runners.is_disabled
GROUP BY coalesce(runners.group_id, '')"""


async def slots_by_group(tx: Tx) -> dict[str, int]:
    """Return how many jobs the connected instances may run at once, by the group of their runner; '' for the shared runners."""
    return {row["group_id"]: int(row["slots"]) for row in await tx.all(_SLOTS)}
