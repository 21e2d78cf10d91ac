"""Who may use a published module: the one rule for jobs and for people (ADR 0102).

A job may use what a group at or above its module publishes, and what any group of its organization publishes for the whole organization.
Somebody who sees the publishing group, or something in it, may use it; so may everybody who sees something of an organization that it
is published for. To everybody else, it does not exist.
"""

from terracrew.server.db.seam import Database, Tx
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb, Visible
from terracrew.server.principals.model import AttemptScope, Principal
from terracrew.server.registry.model import PublishedModule
from terracrew.server.tree.groups import tree_path as paths


class Reader:
    """Somebody who reads the registry, with the rights that they have now."""

    def __init__(self, organization_id: str, attempt: AttemptScope | None, seen: Visible | None) -> None:
        self.organization_id = organization_id
        self._attempt, self._seen = attempt, seen

    def may_use(self, module: PublishedModule) -> bool:
        if not self.organization_id or module.organization_id != self.organization_id:
            return False
        is_for_all = module.readers == "organization"
        if self._attempt is not None:
            return is_for_all or paths.is_within(self._attempt.module_path, module.group)
        if self._seen is None or self._seen.is_nothing:
            return False
        at = authorize.group(module.organization_id, module.group)
        return is_for_all or self._seen.covers(at) or self._seen.leads_to(module.group)


async def reader(source: Tx | Database, who: Principal) -> Reader:
    """Return who reads. Of the credentials of machines, only that of a job's engine opens anything."""
    if who.attempt is not None:
        is_engine = who.kind == "engine"
        return Reader(who.attempt.organization_id if is_engine else "", who.attempt, None)
    if who.kind not in ("user", "service_account"):
        return Reader("", None, None)
    return Reader(who.organization_id or "", None, await authorize.visible(source, who, Verb.TREE_READ))
