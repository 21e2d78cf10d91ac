"""The approval settings that apply to a module: how much it may destroy without an approval, and who may approve."""

from typing import Any

import msgspec

from terracrew.server.db.seam import Tx
from terracrew.server.modules import reads
from terracrew.server.modules.model import DestroyLimits


class ModulePolicy(msgspec.Struct, frozen=True):
    """Each setting but the last is the module's own if it has one, otherwise that of the nearest group that has one."""

    limits: DestroyLimits = DestroyLimits()
    self_approval: bool = True
    """Whether the person who queued a job may approve its plan."""
    service_account_approval: bool = False
    """Whether a service account may approve plans."""
    min_approvals: int = 0
    """How many people must approve each plan before it is applied: the largest number of the module and the groups above it, so
    that nobody weakens the rule of a place from below it. 0 means that plans are applied unless something else asks for a person."""


async def of_module(tx: Tx, module_id: str) -> ModulePolicy:
    rows = await reads.approval_settings(tx, module_id)
    if not rows:
        return ModulePolicy()
    found: dict[str, Any] = {"max_destroy": rows[0]["own_destroy"], "max_destroy_percent": rows[0]["own_percent"]}
    for row in rows:  # the nearest group comes first
        for name in ("max_destroy", "max_destroy_percent", "self_approval", "service_account_approval"):
            if found.get(name) is None:
                found[name] = row[name]
    return ModulePolicy(
        DestroyLimits(found["max_destroy"], found["max_destroy_percent"]),
        self_approval=found["self_approval"] is None or bool(found["self_approval"]),
        service_account_approval=bool(found["service_account_approval"]),
        min_approvals=max(rows[0]["own_approvals"] or 0, *(row["min_approvals"] or 0 for row in rows)),
    )
