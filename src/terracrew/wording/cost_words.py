"""The monthly cost of a plan in words, the same on pages, on forges and in a terminal."""

from typing import Protocol


class ShownCost(Protocol):
    """What a program has said: `terracrew.protocol.events.PlanCost`."""

    @property
    def monthly_before(self) -> float: ...
    @property
    def monthly_after(self) -> float: ...
    @property
    def currency(self) -> str: ...


def summary(cost: ShownCost | None) -> str:
    """Return what changes: `120.00 → 185.50 USD a month (+65.50)`; empty without a cost."""
    if cost is None:
        return ""
    change = cost.monthly_after - cost.monthly_before
    return f"{cost.monthly_before:,.2f} → {cost.monthly_after:,.2f} {cost.currency} a month ({change:+,.2f})"
