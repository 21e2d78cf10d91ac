"""Reads which versions of Terracrew runners have, limited to runners that the reader may see."""

from collections.abc import Collection
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
_KNOWN: LiteralString = """
SELECT DISTINCT known.version FROM (
    SELECT instances.version FROM own JOIN instances ON instances.runner_id = own.id
    UNION ALL SELECT cloud_deployments.version FROM own JOIN cloud_deployments ON cloud_deployments.runner_id = own.id
) AS known ORDER BY known.version LIMIT :count"""
_HAVING: LiteralString = """
SELECT DISTINCT own.id, own.path FROM own LEFT JOIN instances ON instances.runner_id = own.id
LEFT JOIN cloud_deployments ON cloud_deployments.runner_id = own.id
WHERE instances.version = CAST(:version AS text) OR cloud_deployments.version = CAST(:version AS text)
ORDER BY own.id LIMIT :count"""


async def seen_by(tx: Tx, who: Principal) -> dict[str, int]:
    """Return how many connected instances the reader may see, by version."""
    seen = await authorize.visible(tx, who, Verb.RUNNER_READ)
    start, given = reads.own(seen, RunnerScope(who.organization_id or "", is_shared=service.is_shared_seen(who)))
    rows = await tx.all(start + _CONNECTED, count=MAX_VERSIONS, **given)
    return {row["version"]: row["instances"] for row in rows}


async def known(tx: Tx, seen: Visible, within: RunnerScope) -> list[str]:
    """Return all versions that instances and deployments of these runners have or had."""
    start, given = reads.own(seen, within)
    return [row["version"] for row in await tx.all(start + _KNOWN, count=MAX_VERSIONS, **given)]


async def having(tx: Tx, seen: Visible, within: RunnerScope, versions: Collection[str], count: int) -> dict[str, str]:
    """Return runners that have an instance or a deployment with one of these versions, or had one: their paths by their ids.

    They are at most `count` for each version.
    """
    start, given = reads.own(seen, within)
    found: dict[str, str] = {}
    for version in sorted(versions):
        rows = await tx.all(start + _HAVING, version=version, count=count, **given)
        found |= {row["id"]: row["path"] for row in rows}
    return found
