"""Adds to the explanation of a right to approve plans what limits it: the approval settings of the module's groups."""

import msgspec

from terracrew.api.access import Explanation
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import explain as access
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.modules import policy
from terracrew.server.tree.modules import service as modules


async def explain(tx: Tx, who: Principal, principal: str, verb: Verb, path: str) -> Explanation:
    """Explain what a principal may do at a place, with the limits that apply although a role allows it."""
    found = await access.explain(tx, who, principal, verb, path)
    if verb is not Verb.JOB_APPROVE or not found.is_allowed or found.kind != "module":
        return found
    module = await modules.find(tx, who, path, Verb.TREE_READ)
    rules = await policy.of_module(tx, module.id)
    limits: list[str] = []
    if found.principal_kind == "service_account" and not rules.service_account_approval:
        place = rules.place_of("service_account_approval")
        limits.append(f"Service accounts do not approve plans here: {place} does not allow `service_account_approval`.")
    if found.principal_kind == "user" and not rules.self_approval:
        place = rules.place_of("self_approval")
        limits.append(f"Not for jobs that {found.principal_name} has started: {place} does not allow `self_approval`.")
    return msgspec.structs.replace(found, limits=limits)
