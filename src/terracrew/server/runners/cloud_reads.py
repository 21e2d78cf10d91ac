"""Reads the records of cloud-hosted runners, as far as their clouds and the decision to start instances need them."""

from collections.abc import Collection
from typing import LiteralString

import msgspec

from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to

_RECORDS: LiteralString = """
SELECT runners.id, runners.organization_id, runners.path, runners.region, runners.max_jobs,
    runners.is_disabled OR runners.is_draining AS is_closed,
    coalesce(CASE WHEN groups.path = '' THEN service_accounts.name ELSE groups.path || '/' || service_accounts.name END, '')
        AS account_path
FROM batch JOIN runners ON runners.id = batch.id
LEFT JOIN service_accounts ON service_accounts.id = runners.service_account_id
LEFT JOIN groups ON groups.id = service_accounts.group_id
WHERE runners.organization_id IS NOT NULL"""


class CloudHostedRecord(msgspec.Struct, frozen=True):
    """The record of a cloud-hosted runner. A shared runner is never one."""

    id: str
    organization_id: str
    path: str
    region: str | None
    max_jobs: int
    is_closed: bool
    """Whether it is disabled or drains, so that nothing is started."""
    account_path: str
    """The service account (`group/name`) that its processes use; empty if there is none."""


async def records(tx: Tx, runner_ids: Collection[str]) -> dict[str, CloudHostedRecord]:
    """Return the records of these runners by their ids."""
    rows = await tx.each(_RECORDS, {"id": "text"}, [(each,) for each in sorted(runner_ids)])
    return {each.id: each for each in rows_to(CloudHostedRecord, rows)}
