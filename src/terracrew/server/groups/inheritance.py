"""Which settings apply in a group: its own, or those of the nearest group above it that has one."""

from collections.abc import Sequence
from typing import Any

import msgspec

from terracrew.server.groups.model import Group

DEFAULTS: dict[str, Any] = {
    "interrupted": "ask",
    "max_destroy": None,
    "max_destroy_percent": None,
    "self_approval": True,
    "service_account_approval": False,
}
"""The settings that a group inherits, each with what applies where no group has it."""


class InForce(msgspec.Struct, frozen=True):
    """A setting as it applies in a group."""

    value: Any
    origin: Group | None
    """The group that has the setting; None if the default applies."""
    overridden: "InForce | None" = None
    """What would apply if the nearest group had no setting of its own."""


def in_force(lineage: Sequence[Group], name: str) -> InForce:
    """Return the setting of this name that applies in the first group of a lineage (`level_reads.lineage`)."""
    for at, group in enumerate(lineage):
        value = getattr(group, name)
        if value is not None:
            return InForce(value, group, in_force(lineage[at + 1 :], name))
    return InForce(DEFAULTS[name], None)
