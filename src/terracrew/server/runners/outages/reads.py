"""Reads which runners have been away for long enough that people are notified of it, and which are back."""

from typing import LiteralString

from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.runners.outages.model import AbsentRunner

_RUNNER: LiteralString = """runners.id, runners.name, runners.organization_id, runners.group_id,
    coalesce(groups.path, '') AS group_path"""
_ABSENT: LiteralString = f"""
SELECT {_RUNNER}, gone.since FROM (
    SELECT runner_id, max(disconnected_at) AS since FROM instances
    WHERE NOT is_connected AND disconnected_at > :after AND once_token_id IS NULL GROUP BY runner_id
) AS gone
JOIN runners ON runners.id = gone.runner_id LEFT JOIN groups ON groups.id = runners.group_id
WHERE gone.since <= :until AND runners.type = 'self-hosted' AND NOT runners.is_disabled AND NOT runners.is_draining
    AND NOT EXISTS (SELECT 1 FROM instances WHERE instances.runner_id = runners.id AND instances.is_connected)
    AND NOT EXISTS (SELECT 1 FROM runner_outages WHERE runner_outages.runner_id = runners.id)
ORDER BY runners.id LIMIT :count"""
_ENDED: LiteralString = f"""
SELECT {_RUNNER}, runner_outages.since, EXISTS (SELECT 1 FROM instances WHERE instances.runner_id = runners.id
    AND instances.is_connected AND instances.connected_at <= :connected_until) AS is_back
FROM runner_outages JOIN runners ON runners.id = runner_outages.runner_id LEFT JOIN groups ON groups.id = runners.group_id
WHERE runners.is_disabled OR runners.is_draining OR EXISTS (SELECT 1 FROM instances WHERE instances.runner_id = runners.id
    AND instances.is_connected AND instances.connected_at <= :connected_until)
ORDER BY runners.id LIMIT :count"""


async def absent(tx: Tx, after: float, until: float, count: int) -> list[AbsentRunner]:
    """Return the self-hosted runners whose last instance disconnected between these times, and of which nobody was notified yet.

    An instance with a once token ends with its job, so its end is no outage.
    """
    return rows_to(AbsentRunner, await tx.all(_ABSENT, after=after, until=until, count=count))


async def ended(tx: Tx, connected_until: float, count: int) -> list[AbsentRunner]:
    """Return the runners whose outages have ended. One that is back has been connected since this time at least."""
    return rows_to(AbsentRunner, await tx.all(_ENDED, connected_until=connected_until, count=count))
