"""The approval rules that apply to a module: how much it may destroy without an approval, and who may approve."""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from terracrew.api.groups import ApprovalRule, RuleName
from terracrew.server.db.seam import Row, Tx
from terracrew.server.tree.groups import inheritance
from terracrew.server.tree.modules import reads


class DestroyLimits(msgspec.Struct, frozen=True):
    """How much an APPLY may destroy without an approval. None sets no limit; destroying everything always needs one."""

    max_destroy: int | None = None
    max_destroy_percent: int | None = None


class ModulePolicy(msgspec.Struct, frozen=True):
    """Each rule is the strictest of the module and all groups above it, so that nobody weakens the rule of a place from below it."""

    limits: DestroyLimits = DestroyLimits()
    self_approval: bool = True
    """Whether the person who queued a job may approve its plan."""
    service_account_approval: bool = False
    """Whether a service account may approve plans."""
    min_approvals: int = 0
    """How many people must approve each plan before it is applied. 0 means that plans are applied unless something else asks for a
    person; it is at least 1 for a module whose `needs_approval` is set."""
    rules: tuple[ApprovalRule, ...] = ()
    """The same rules, each with the place that it comes from."""

    def place_of(self, name: RuleName) -> str:
        """Return the place whose rule applies, in words."""
        path = next((rule.path for rule in self.rules if rule.name == name), None)
        if path is None:
            return "the default"
        return f"`{path}`" if path else "the organization"


async def of_module(tx: Tx, module_id: str) -> ModulePolicy:
    """Return what applies to a module. Pages, lists, the API and the commands all take it from here."""
    return (await of_modules(tx, [module_id])).get(module_id, ModulePolicy())


async def of_modules(tx: Tx, module_ids: Collection[str]) -> dict[str, ModulePolicy]:
    """Return what applies to each of these modules, by its id."""
    places: dict[str, list[Row]] = {}
    for row in await reads.approval_settings(tx, sorted(set(module_ids))):
        places.setdefault(row["id"], []).append(row)
    return {module_id: _strictest(rows) for module_id, rows in places.items()}


def _strictest(places: Sequence[Row]) -> ModulePolicy:
    rules = inheritance.approval_rules(places)
    found: dict[str, Any] = {rule.name: rule.value for rule in rules}
    return ModulePolicy(
        DestroyLimits(found["max_destroy"], found["max_destroy_percent"]),
        self_approval=bool(found["self_approval"]),
        service_account_approval=bool(found["service_account_approval"]),
        min_approvals=found["min_approvals"],
        rules=tuple(rules),
    )
