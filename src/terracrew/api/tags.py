"""Tags of runners and modules. A runner gets the jobs of a module only if it has all of the module's tags."""

from collections.abc import Iterable
from typing import Annotated

import msgspec

MAX_TAGS = 50
MAX_TAG_CHARACTERS = 63
Tag = Annotated[
    str,
    msgspec.Meta(
        pattern=rf"^[a-zA-Z0-9][a-zA-Z0-9._:-]{{0,{MAX_TAG_CHARACTERS - 1}}}$(?!\n)",
        description=f"a tag of up to {MAX_TAG_CHARACTERS} letters, digits, dots, underscores, colons and hyphens "
        "that begins with a letter or a digit",
    ),
]
"""Upper and lower case differ."""
Tags = Annotated[list[Tag], msgspec.Meta(max_length=MAX_TAGS)]


def normalized(tags: Iterable[str]) -> list[str]:
    """Return the tags in the form in which they are stored: each once, in order."""
    return sorted(set(tags))
