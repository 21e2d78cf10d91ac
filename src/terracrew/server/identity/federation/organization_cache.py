"""A cache whose entries belong to organizations: what one organization puts in removes nothing of another one."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class OrganizationCache(Generic[T]):
    def __init__(self, max_entries: int, max_organizations: int = 1000) -> None:
        """`max_entries` is for each organization. The entries that were not used for the longest time are removed first."""
        self._max_entries, self._max_organizations = max_entries, max_organizations
        self._of: OrderedDict[str, OrderedDict[str, T]] = OrderedDict()

    def get(self, organization_id: str, key: str) -> T | None:
        entries = self._of.get(organization_id)
        if entries is None or key not in entries:
            return None
        self._of.move_to_end(organization_id)
        entries.move_to_end(key)
        return entries[key]

    def put(self, organization_id: str, key: str, value: T) -> None:
        entries = self._of.setdefault(organization_id, OrderedDict())
        self._of.move_to_end(organization_id)
        entries[key] = value
        entries.move_to_end(key)
        if len(entries) > self._max_entries:
            entries.popitem(last=False)
        if len(self._of) > self._max_organizations:
            self._of.popitem(last=False)

    def drop(self, organization_id: str, is_dropped: Callable[[T], bool]) -> None:
        """Remove entries of one organization."""
        entries = self._of.get(organization_id, OrderedDict[str, T]())
        for key in [key for key, value in entries.items() if is_dropped(value)]:
            del entries[key]

    def clear(self) -> None:
        self._of.clear()

    def __len__(self) -> int:
        return sum(len(entries) for entries in self._of.values())
