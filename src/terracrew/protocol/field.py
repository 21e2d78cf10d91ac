"""What a field of a struct says of itself besides its type: the words and the option under which people know it."""

from typing import Literal

import msgspec

Unit = Literal["", "seconds", "megabytes", "percent", "vcpus"]
VCPU_UNIT_COUNT = 1024
"""How many units of a processor are one."""
MergeRule = Literal["nearest", "smallest", "largest"]


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """Stands in the annotation of a field: `Annotated[int, Field(label="Priority")]`. `terracrew.api.fields` reads it.

    Everything has a default that is derived from the name and the type of the field. The description of the field is the docstring
    below it.
    """

    label: str = ""
    """What the field is called on pages and in the details that commands print. By default its name: `max_jobs` is `Max jobs`."""
    option: str | None = ""
    """The option of the command line, such as `--time-limit`. By default its name: `max_jobs` is `--max-jobs`. None: it has none."""
    metavar: str = ""
    """What `--help` shows for the value of the option."""
    unit: Unit = ""
    """The unit of a number. People write and read `30m` for seconds, `2GB` for megabytes and `0.5` for units of a processor."""
    null: str = "none"
    """The word that people write for null, such as `none` or `inherit`."""
    section: str = ""
    """The section of the settings page that the field is in."""
    merge: MergeRule = "nearest"
    """Which value applies if several places of the tree have one: that of the nearest place, or the smallest or largest of all, so
    that nobody weakens the rule of a place from below it. Of several choices, the one that is written first is the smallest."""
    is_long: bool = False
    """Whether a text may have several lines."""
    is_searched: bool = False
    """Whether the search in lists looks into the field."""
    is_merged: bool = False
    """Whether a change of a map keeps the keys that it leaves out; null removes a key. Otherwise the map is replaced as a whole."""
