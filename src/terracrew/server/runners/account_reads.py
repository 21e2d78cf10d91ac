"""Reads the runners that a service account serves."""

from typing import LiteralString

from terracrew.api.runners import Runner
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Visible
from terracrew.server.runners.store import RUNNERS

_OF_ACCOUNT: LiteralString = (
    f"SELECT {RUNNERS.columns} FROM runners"
    " WHERE organization_id = :organization_id AND service_account_id = :account_id ORDER BY path LIMIT :count"
)


async def of_account(tx: Tx, seen: Visible, organization_id: str, account_id: str, count: int) -> list[Runner]:
    """Return the first `count` runners of a service account, ordered by path, without those that the reader may not see."""
    rows = await tx.all(_OF_ACCOUNT, organization_id=organization_id, account_id=account_id, count=count)
    found = rows_to(Runner, rows)
    return [each for each in found if seen.covers(authorize.group(organization_id, each.group or ""))]
