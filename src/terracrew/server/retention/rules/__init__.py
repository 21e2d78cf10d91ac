"""What retention removes, one file for each kind: `find` what is due, `remove` a batch of it in one transaction."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from terracrew.api.operations import RetentionPolicy
from terracrew.server.db.seam import Tx
from terracrew.server.retention.policy import Item
from terracrew.server.retention.rules import archives, audit, logs, states

Find = Callable[[Tx, RetentionPolicy, Item | None, int], Awaitable[list[Item]]]
"""Returns up to this many items that are due, after the given one in the order of their ids."""
Remove = Callable[[Tx, RetentionPolicy, list[Item]], Awaitable[list[Item]]]
"""Removes the items that are still due, and returns them."""


class RetentionRule(NamedTuple):
    kind: str
    find: Find
    remove: Remove


RULES = (
    RetentionRule("logs", logs.find, logs.remove),
    RetentionRule("states", states.find, states.remove),
    RetentionRule("archives", archives.find, archives.remove),
    RetentionRule("audit", audit.find, audit.remove),
)
