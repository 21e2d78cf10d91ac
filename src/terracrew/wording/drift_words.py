"""Says in words what a drift check has found, for pages, terminals and notifications."""

from collections.abc import Sequence
from typing import Protocol

KINDS = {"new": "new", "changed": "changed", "gone": "gone"}


class _FoundChange(Protocol):
    @property
    def kind(self) -> str: ...


def counts(changes: Sequence[_FoundChange]) -> str:
    """Return how many addresses are new, changed and gone: `2 new, 1 gone`; empty if there is no difference."""
    return counted(*(sum(each.kind == kind for each in changes) for kind in KINDS))


def counted(new: int, changed: int, gone: int) -> str:
    return ", ".join(
        f"{count:,} {word}" for count, word in zip((new, changed, gone), KINDS.values(), strict=True) if count
    )
