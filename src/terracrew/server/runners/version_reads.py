"""Reads which versions of Terracrew runners have, limited to runners that the reader may see, and says which are outdated."""

from collections.abc import Sequence
from typing import LiteralString

from terracrew.server.db.seam import Tx
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb, Visible
from terracrew.server.principals.model import Principal
from terracrew.server.runners import reads, service
from terracrew.server.runners.reads import RunnerScope

MAX_VERSIONS = 200
"""A runner can report any text as its version, so the number of different ones is limited."""
_CONNECTED: LiteralString = """
SELECT instances.version, count(*) AS instances FROM own JOIN instances ON instances.runner_id = own.id
WHERE instances.is_connected GROUP BY instances.version ORDER BY count(*) DESC, instances.version LIMIT :count"""
_SERVING: LiteralString = "here.runner_id = own.id AND here.is_connected AND here.retire_reason = ''"
_CURRENT: LiteralString = f"""current AS (
    SELECT own.id, own.path, here.version FROM own JOIN instances AS here ON {_SERVING}
    UNION ALL SELECT own.id, own.path, cloud_deployments.version
        FROM own JOIN cloud_deployments ON cloud_deployments.runner_id = own.id
        WHERE cloud_deployments.version <> '' AND NOT EXISTS (SELECT 1 FROM instances AS here WHERE {_SERVING})
    UNION ALL SELECT own.id, own.path, (SELECT gone.version FROM instances AS gone WHERE gone.runner_id = own.id
            ORDER BY gone.heard_at DESC LIMIT 1)
        FROM own WHERE NOT EXISTS (SELECT 1 FROM instances AS here WHERE {_SERVING})
        AND NOT EXISTS (SELECT 1 FROM cloud_deployments
            WHERE cloud_deployments.runner_id = own.id AND cloud_deployments.version <> ''))"""
"""The versions of each runner, of which the lowest one counts. It is the second form of `current_version`."""
_KNOWN: LiteralString = f", {_CURRENT} SELECT DISTINCT version FROM current WHERE version IS NOT NULL LIMIT :count"
_HAVING: LiteralString = (
    f", {_CURRENT} SELECT DISTINCT id, path, version FROM current WHERE version = CAST(:version AS text)"
    " ORDER BY path, id LIMIT :count"
)


async def seen_by(tx: Tx, who: Principal) -> dict[str, int]:
    """Return how many connected instances the reader may see, by version."""
    seen = await authorize.visible(tx, who, Verb.RUNNER_READ)
    start, given = reads.own(seen, RunnerScope(who.organization_id or "", is_shared=service.is_shared_seen(who)))
    rows = await tx.all(start + _CONNECTED, count=MAX_VERSIONS, **given)
    return {row["version"]: row["instances"] for row in rows}


async def current(tx: Tx, seen: Visible, within: RunnerScope) -> list[str]:
    """Return the different versions that these runners have."""
    start, given = reads.own(seen, within)
    return [row["version"] for row in await tx.all(start + _KNOWN, count=MAX_VERSIONS, **given)]


async def having(
    tx: Tx, seen: Visible, within: RunnerScope, versions: Sequence[str], count: int
) -> dict[str, tuple[str, str]]:
    """Return the runners that have one of these versions: their paths and the first of these versions, by their ids.

    They are at most `count` for each version.
    """
    start, given = reads.own(seen, within)
    found: dict[str, tuple[str, str]] = {}
    for version in versions:
        for row in await tx.all(start + _HAVING, version=version, count=count, **given):
            found.setdefault(row["id"], (row["path"], version))
    return found
