"""Finds in the log of an apply which resources the engine changed. OpenTofu and Terraform print the same lines."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from terracrew.api.lost_resources import ChangeAction, LoggedChange
from terracrew.wording.escapes import ESCAPES

MAX_LINE_CHARACTERS = 4096
"""A longer line is skipped. An engine does not print one about a resource, but a provider or a script can print anything."""
_ID_START = " [id="
_DONE = re.compile(r"^(?P<address>\S.*?): (?P<what>Creation|Modifications|Destruction) complete after \S+(?P<rest>.*)$")
_STARTED = re.compile(r"^(?P<address>\S.*?): (?P<what>Creating|Modifying|Destroying)\.\.\.(?P<rest>.*)$")
_DEPOSED = re.compile(r" \(deposed object [0-9a-f]{1,64}\)\Z")
"""What follows the address of the old object while it is destroyed after its replacement was created."""
_ACTIONS: dict[str, ChangeAction] = {
    "Creation": "created",
    "Modifications": "changed",
    "Destruction": "destroyed",
    "Creating": "creating",
    "Modifying": "changing",
    "Destroying": "destroying",
}


class Line(NamedTuple):
    """A line that reports a change."""

    address: str
    action: ChangeAction
    id: str
    is_deposed: bool = False

    @property
    def subject(self) -> tuple[str, str, bool]:
        """What the line is about: an object that is created, changed or destroyed at an address."""
        return self.address, self.action[:5], self.is_deposed


def read(coloured: str) -> Line | None:
    """Return what a line says about a resource; None if it says nothing about one."""
    if len(coloured) > MAX_LINE_CHARACTERS or (" complete after " not in coloured and "ing..." not in coloured):
        return None
    line = ESCAPES.sub("", coloured)
    if (match := _DONE.match(line) or _STARTED.match(line)) is None:
        return None
    address = _DEPOSED.sub("", match["address"])
    return Line(address, _ACTIONS[match["what"]], _id_of(match["rest"]) or "", address != match["address"])


def changes(lines: Iterable[str]) -> list[LoggedChange]:
    """Return every resource that these lines name as changed, or as being changed and not finished, in the order of the log."""
    found: dict[str, LoggedChange] = {}
    for text in lines:
        if line := read(text):
            before = found.pop(line.address, None)
            id_ = line.id or (before.id if before and line.action.endswith("ed") else "")
            found[line.address] = LoggedChange(line.address, line.action, id_)
    return list(found.values())


def _id_of(rest: str) -> str | None:
    """Return the id at the end of a line. A regular expression would take time that grows with the square of the line's length."""
    start = rest.find(_ID_START)
    return rest[start + len(_ID_START) : -1] if start >= 0 and rest.endswith("]") else None
