"""The words and signs for what a plan changes, and for what differs between two states; templates see this module as `change_words`."""

import re

from terracrew.server.dashboard.words import Tone

CHANGE_MARKS: dict[str, tuple[str, Tone]] = {
    "create": ("+", "ok"),
    "update": ("~", "warn"),
    "delete": ("−", "bad"),
    "replace": ("±", "bad"),
    "read": ("≤", "idle"),
    "import": ("↓", "ok"),
    "move": ("→", "idle"),
    "forget": ("×", "idle"),
}
"""The sign and the colour of each action of a plan."""
DIFF_FILTERS = {
    "": "All",
    "replace": "Replace",
    "delete": "Destroy",
    "forget": "Forget",
    "update": "Update",
    "move": "Move",
    "import": "Import",
    "create": "Create",
    "read": "Read",
    "drift": "Changed outside",
}
"""The actions of a plan as filters of its resources, and as the word beside each of them."""
STATE_CHANGES = {"create": "Added", "update": "Changed", "delete": "Removed"}
"""What differs between two states."""
ATTRIBUTE_CHANGES = {"create": "is added", "update": "changes", "delete": "is removed"}
LONG_VALUE_CHARACTERS = 140
"""Of a longer value, only the beginning is shown until somebody asks for the rest."""
_ADDRESS = re.compile(r"(.*\.)([^.\[\]\"]+(?:\[.*\])?)\Z", re.DOTALL)
REMEDIES = {"import": "Import it", "look": "Look for it", "refresh": "Nothing to do", "decide": "Decide"}
"""What to do about a lost resource."""
OUTPUT_CHANGES = {"create": "added", "update": "changed", "delete": "removed"}


def address_parts(address: str) -> tuple[str, str]:
    """Return an address in two parts: where and of which type the resource is, and its name."""
    found = _ADDRESS.match(address)
    return (found[1], found[2]) if found else ("", address)
