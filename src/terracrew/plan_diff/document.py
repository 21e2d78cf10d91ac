"""The stored diff of a plan: compressed lines of JSON, the head first and then one line for each resource.

Resources are stored in the order in which they are shown, so that those of one action are adjacent, and a page of them can be
read without decoding the others.
"""

import time
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from terracrew.errors import Invalid
from terracrew.plan_diff import compare, resources, values
from terracrew.plan_diff.model import FORMAT_VERSION, AttributeDiff, DiffHead, ResourceDiff
from terracrew.plan_diff.resources import PlannedResource, Values
from terracrew.plan_diff.values import Mask
from terracrew.wording import plan_words

ActionFilter: TypeAlias = Literal[
    "", "replace", "delete", "forget", "update", "move", "import", "create", "read", "drift"
]
MAX_RESOURCES = 10_000
MAX_OUTPUTS = 500
MAX_PLAN_BYTES = 50 << 20
"""The attributes of a larger plan are not compared; its resources are only named."""
MAX_LINES_BYTES = 8 << 20
"""Once the lines have this size, further resources are only named."""
MAX_NAMED_BYTES = 12 << 20
"""Once the lines have this size, further resources are only counted."""
MAX_LINE_BYTES = 256 << 10
"""The size of the line of one resource. The last of its attributes are left out if it is larger."""
MAX_OUTPUTS_BYTES = 1 << 20
MAX_DOCUMENT_BYTES = 16 << 20
"""A larger document is not decompressed."""
_MAX_REMEMBERED_TEXTS = 2000
_MAX_REMEMBERED_CHARACTERS = 100
_MAX_SECONDS = 30.0
"""Once comparing has taken this long, further resources are only named."""
_head = msgspec.json.Decoder(DiffHead)
_resource = msgspec.json.Decoder(ResourceDiff)
_encode = msgspec.json.Encoder().encode


class PlannedOutput(NamedTuple):
    name: str
    values: Values


class PlanDescription(NamedTuple):
    """What an engine says about each change of a plan."""

    resources: Sequence[PlannedResource]
    outputs: Sequence[PlannedOutput] = ()
    """The outputs that change."""
    drift: Sequence[PlannedResource] = ()
    """The resources that were changed outside of the engine."""
    size: int = 0
    """How many bytes the engine needed to describe it."""


def build(plan: PlanDescription, mask: Mask) -> bytes:
    """Return the document of a plan, bounded in size and in the time that it takes."""
    mask = remembering(mask)
    rank = {action: at for at, action in enumerate(plan_words.ORDER)}
    ordered = sorted(plan.resources, key=lambda each: rank[each.action])
    writer = _Writer(mask, is_large=plan.size > MAX_PLAN_BYTES)
    kept = writer.add(ordered)
    drift = writer.add(plan.drift)
    counts = {action: sum(each.action == action for each in ordered[:kept]) for action in plan_words.ORDER}
    outputs, outputs_left_out = _outputs(plan.outputs, mask)
    left_out = writer.left_out
    if kept < len(ordered):
        left_out = [f"{len(ordered) - kept:,} of {len(ordered):,} resources are only counted.", *left_out]
    if drift < len(plan.drift):
        left_out.append(f"{len(plan.drift) - drift:,} resources that were changed outside are not named.")
    head = DiffHead(
        counts={action: count for action, count in counts.items() if count},
        drift=drift,
        left_out=left_out,
        outputs=outputs,
        outputs_left_out=outputs_left_out,
    )
    return zlib.compress(b"\n".join((_encode(head), *writer.lines)), 6)


def remembering(mask: Mask) -> Mask:
    """Mask a short text once. Names of attributes, and many of their values, are the same in many resources."""
    remembered = lru_cache(_MAX_REMEMBERED_TEXTS)(mask)
    return lambda text: remembered(text) if len(text) <= _MAX_REMEMBERED_CHARACTERS else mask(text)


class _Writer:
    """Writes the lines of resources. What is too much is shortened: first the attributes are left out, then the resources."""

    def __init__(self, mask: Mask, *, is_large: bool) -> None:
        self.lines: list[bytes] = []
        self._mask, self._is_large = mask, is_large
        self._size = self._named_only = 0
        self._until = time.monotonic() + _MAX_SECONDS

    def add(self, planned: Sequence[PlannedResource]) -> int:
        """Write resources and return how many there was room for."""
        for count, each in enumerate(planned):
            if len(self.lines) >= MAX_RESOURCES or self._size > MAX_NAMED_BYTES:
                return count
            is_full = self._is_large or self._size > MAX_LINES_BYTES or time.monotonic() > self._until
            self._named_only += is_full and each.action not in resources.NO_ATTRIBUTES
            self.lines.append(_line(resources.diff(each, self._mask, with_attributes=not is_full)))
            self._size += len(self.lines[-1])
        return len(planned)

    @property
    def left_out(self) -> list[str]:
        if not self._named_only:
            return []
        return [f"The attributes of {self._named_only:,} resources are left out, because the plan is too large."]


def _line(found: ResourceDiff) -> bytes:
    """Return the line of a resource, without its last attributes if they are too large."""
    line = _encode(found)
    attributes = found.attributes
    while len(line) > MAX_LINE_BYTES and attributes:
        attributes = attributes[: len(attributes) // 2]
        left_out = (
            f"{found.changed - len(attributes):,} of its changed attributes are left out, because they are too large."
        )
        shortened = msgspec.structs.replace(
            found, attributes=attributes, unchanged_attributes=[], left_out=f"{found.left_out} {left_out}".strip()
        )
        line = _encode(shortened)
    return line


def _outputs(planned: Sequence[PlannedOutput], mask: Mask) -> tuple[list[AttributeDiff], int]:
    """Return the changes of outputs, and how many are left out."""
    found: list[AttributeDiff] = []
    size = 0
    for each in sorted(planned, key=lambda each: each.name)[:MAX_OUTPUTS]:
        output = _output(each, mask)
        size += len(_encode(output))
        if size > MAX_OUTPUTS_BYTES:
            break
        found.append(output)
    return found, len(planned) - len(found)


def _output(planned: PlannedOutput, mask: Mask) -> AttributeDiff:
    found = planned.values
    name = values.name(planned.name, mask)
    try:
        before = values.marked(found.before, None, found.before_sensitive)
        after = values.marked(found.after, found.unknown, found.after_sensitive)
        return compare.attribute(name, before, after, mask)
    except (msgspec.DecodeError, RecursionError):
        return AttributeDiff(name, "update", is_sensitive=True)


class DiffPage(msgspec.Struct, frozen=True):
    """A part of a plan's diff."""

    head: DiffHead
    resources: list[ResourceDiff]
    total: int
    """How many resources match the action and the search."""
    next: int | None = None
    """Where the next page begins; None if this is the last one."""


class DiffQuery(msgspec.Struct, frozen=True):
    """Which resources of a diff to read."""

    action: ActionFilter = ""
    """`drift` for those that were changed outside."""
    search: str = ""
    """A text that they contain."""
    start: int = 0
    count: int = 50


FIRST_PAGE = DiffQuery()


class DiffDocument:
    """Reads a stored diff. Raises Invalid if the content is not one."""

    def __init__(self, content: bytes) -> None:
        try:
            decompress = zlib.decompressobj()
            plain = decompress.decompress(content, MAX_DOCUMENT_BYTES)
            if decompress.unconsumed_tail or not decompress.eof:
                raise Invalid("the diff of this plan is larger than expected, or incomplete")
            first, *self._lines = plain.split(b"\n")
            self.head = _head.decode(first)
        except (ValueError, RecursionError, zlib.error) as error:
            raise Invalid(f"the diff of this plan cannot be read: {error}") from error
        if self.head.format != FORMAT_VERSION:
            raise Invalid(f"the diff of this plan has the format {self.head.format}, which this server does not know")

    def page(self, query: DiffQuery = FIRST_PAGE) -> DiffPage:
        """Return the resources that a query asks for."""
        lines = self._lines_of(query.action)
        needle = query.search.strip().casefold()
        start, count = query.start, query.count
        found = [line for line in lines if is_match(line, needle)] if needle else lines
        shown = [_resource.decode(line) for line in found[start : start + count]]
        following = start + count if start + count < len(found) else None
        return DiffPage(self.head, shown, len(found), following)

    def _lines_of(self, action: str) -> list[bytes]:
        begin = 0
        for each, count in self.head.counts.items():
            if each == action:
                return self._lines[begin : begin + count]
            begin += count
        if action == "drift":
            return self._lines[begin:]
        return [] if action else self._lines[:begin]


def is_match(line: bytes, needle: str) -> bool:
    """Return whether a text of a resource contains the needle: its address, its reason, or a name or value of an attribute."""
    if needle not in line.decode(errors="replace").casefold() and needle.isalnum():
        return False  # an escaped character can hide only a needle that has other characters
    return any(needle in each.casefold() for each in _texts(_resource.decode(line)))


def _texts(found: ResourceDiff) -> Iterator[str]:
    yield from (found.address, found.why)
    waiting = list(found.attributes)
    while waiting:
        each = waiting.pop()
        yield from (each.name, each.before or "", each.after or "")
        waiting += each.inside
