"""The counts beside the main menu. Every page shows them, so nothing is counted beyond a bound."""

from datetime import datetime

import msgspec

from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.history import store as holds
from terracrew.server.identity.access import organizations
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import service as runners
from terracrew.server.runs import to_approve
from terracrew.server.tree.groups import reads

MAX_COUNTED = 999
"""A larger count is shown as `999+`."""


class Nav(msgspec.Struct, frozen=True):
    """The counts of what the reader may see; each is at most one more than MAX_COUNTED."""

    organization: str = ""
    awaiting: int = 0
    """How many jobs wait for an approval by anybody."""
    to_approve: int = 0
    """How many of them the reader may approve."""
    open_jobs: int = 0
    modules: int = 0
    runners: int = 0
    has_access_pages: bool = False
    """Whether the reader may see who has access to the organization, and with it the audit log."""
    held_since: datetime | None = None
    """Since when the server hands out no changes; None if it does."""
    has_organizations: bool = False
    """Whether the reader may act in another organization, or create one."""


async def counts(tx: Tx, who: Principal) -> Nav:
    """Count what the reader may see.

    Every role that shows a module shows its jobs and the runners of its group, so one check of the roles is enough.
    """
    seen = await authorize.visible(tx, who, Verb.TREE_READ)
    is_shared = runners.is_shared_seen(who)
    row = await reads.counts(tx, who.organization_id or "", seen, MAX_COUNTED + 1, is_shared=is_shared)
    if row is None:
        return Nav()
    place = authorize.organization(who.organization_id)
    has_access_pages = (await authorize.visible(tx, who, Verb.ACCESS_READ)).covers(place)
    return msgspec.structs.replace(
        row_to(Nav, row),
        to_approve=len(await to_approve.job_ids(tx, who, MAX_COUNTED + 1)) if row["awaiting"] else 0,
        has_access_pages=has_access_pages,
        has_organizations=await _has_organizations(tx, who),
        held_since=None if (hold := await holds.open_hold(tx)) is None else hold.started_at,
    )


async def _has_organizations(tx: Tx, who: Principal) -> bool:
    if who.is_system_admin or who.kind != "user":
        return who.is_system_admin
    return len((await organizations.listing(tx, who, None, 2)).items) > 1
