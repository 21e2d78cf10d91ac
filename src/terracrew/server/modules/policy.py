"""What the groups above a module say about its approvals: how much it may destroy unasked, and who may approve."""

import msgspec

from terracrew.server.db.seam import Tx
from terracrew.server.jobs.destruction import DestroyLimits


class Policy(msgspec.Struct, frozen=True):
    """Each setting is the module's own where it has one, else that of the nearest group that has one."""

    limits: DestroyLimits = DestroyLimits()
    self_approval: bool = True
    """Whether the person who queued a job may approve its plan."""
    service_account_approval: bool = False
    """Whether a service account may approve plans."""


async def of_module(tx: Tx, module_id: str) -> Policy:
    rows = await tx.all(
        """SELECT groups.max_destroy, groups.max_destroy_percent, groups.self_approval, groups.service_account_approval,
            modules.max_destroy AS own_destroy, modules.max_destroy_percent AS own_percent
        FROM modules JOIN groups ON groups.organization_id = modules.organization_id
            AND (groups.path = '' OR substr(modules.path, 1, length(groups.path) + 1) = groups.path || '/')
        WHERE modules.id = :module_id ORDER BY groups.depth""",
        module_id=module_id,
    )
    count = percent = is_self = is_service = None
    for row in rows:  # the nearest group comes last
        count = row["max_destroy"] if row["max_destroy"] is not None else count
        percent = row["max_destroy_percent"] if row["max_destroy_percent"] is not None else percent
        is_self = row["self_approval"] if row["self_approval"] is not None else is_self
        is_service = row["service_account_approval"] if row["service_account_approval"] is not None else is_service
    if rows:
        count = rows[0]["own_destroy"] if rows[0]["own_destroy"] is not None else count
        percent = rows[0]["own_percent"] if rows[0]["own_percent"] is not None else percent
    return Policy(DestroyLimits(count, percent), is_self is None or bool(is_self), bool(is_service))
