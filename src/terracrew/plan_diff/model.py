"""The parts of a plan's diff: attributes, resources, and the head with everything that is not about one resource."""

from typing import Literal

import msgspec

ResourceAction = Literal["replace", "delete", "forget", "update", "move", "import", "create", "read"]
AttributeAction = Literal["create", "update", "delete"]
FORMAT_VERSION = 1
"""The version of the stored format. A reader refuses another one instead of guessing."""


class AttributeDiff(msgspec.Struct, frozen=True, omit_defaults=True):
    """An attribute that changes, or a value inside one. Values are texts as they are shown, without control characters."""

    name: str
    """The name of the attribute, or the path of a value inside it: `Statement[2].Resource`."""
    action: AttributeAction
    before: str | None = None
    """None if there is no value, or if it is not shown."""
    after: str | None = None
    before_length: int = 0
    """The number of characters of a text that was cut; otherwise 0."""
    after_length: int = 0
    is_sensitive: bool = False
    """Whether the values are sensitive. They are then in no field."""
    is_unknown: bool = False
    """Whether the new value is known only after the apply."""
    forces_replacement: bool = False
    kind: Literal["", "JSON", "text", "block", "list", "map"] = ""
    """What the values in `inside` are parts of; empty if the attribute is shown as one value."""
    inside: list["AttributeDiff"] = []
    """The parts that change, if the attribute is compared inside."""
    changed: int = 0
    """How many parts change, including those that are left out."""
    total: int = 0
    """How many parts there are."""


class UnchangedAttribute(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    value: str = ""
    """The beginning of its value; empty if it is sensitive."""
    is_sensitive: bool = False


class ResourceDiff(msgspec.Struct, frozen=True, omit_defaults=True):
    address: str
    action: ResourceAction
    why: str = ""
    """The reason as sentences. Names of attributes and keys are between backticks."""
    is_create_first: bool | None = None
    """Whether a replacement is created before the old one is destroyed; None if it is not a replacement."""
    previous_address: str = ""
    import_id: str | None = None
    """The id that it is imported by; None if it is not imported. An id may be unknown, and is then empty."""
    deposed: str = ""
    """The key of a leftover object of this address, which is destroyed instead of the current one."""
    attributes: list[AttributeDiff] = []
    changed: int = 0
    """How many attributes change, including those that are left out."""
    unchanged: int = 0
    unchanged_attributes: list[UnchangedAttribute] = []
    """The first of them."""
    left_out: str = ""
    """Says which of its attributes are not here, and why."""


class DiffHead(msgspec.Struct, frozen=True, omit_defaults=True):
    format: int = FORMAT_VERSION
    counts: dict[str, int] = {}
    """Action → number of resources, in the order in which they are stored. Those that were left out are not counted."""
    drift: int = 0
    """How many resources were changed outside of the engine since it last looked. They follow all others."""
    left_out: list[str] = []
    """Says in sentences what the diff does not contain, and why."""
    outputs: list[AttributeDiff] = []
    outputs_left_out: int = 0
