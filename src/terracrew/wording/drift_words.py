"""Says in words what a drift check has found, for pages, terminals and notifications."""

from collections.abc import Sequence
from typing import Protocol

KINDS = {"new": "new", "changed": "changed", "gone": "gone"}
_OUTSIDE = {"create": "created outside", "update": "changed outside", "delete": "deleted outside"}


class _FoundChange(Protocol):
    @property
    def kind(self) -> str: ...


class _Result(Protocol):
    @property
    def problem(self) -> str: ...
    @property
    def is_refresh_only(self) -> bool: ...


def is_outside(results: Sequence[_Result]) -> bool:
    """Return whether everything that differs was changed outside: the newest check that found something out only refreshed."""
    return next((each.is_refresh_only for each in results if not each.problem), False)


def change(action: str, *, is_outside: bool) -> str:
    """Return how an address differs. A full plan also says what would be changed, in the words of the engine."""
    return _OUTSIDE.get(action, action) if is_outside else action


def counts(changes: Sequence[_FoundChange]) -> str:
    """Return how many addresses are new, changed and gone: `2 new, 1 gone`; empty if there is no difference."""
    return counted(*(sum(each.kind == kind for each in changes) for kind in KINDS))


def counted(new: int, changed: int, gone: int) -> str:
    return ", ".join(
        f"{count:,} {word}" for count, word in zip((new, changed, gone), KINDS.values(), strict=True) if count
    )
