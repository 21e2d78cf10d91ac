"""What the fields of settings say of themselves, and the requests that are derived from settings."""

from typing import Annotated

import msgspec
import pytest
from msgspec import Meta

from terracrew.api import fields
from terracrew.api.fields import Field
from terracrew.api.groups import GroupSettings, NewGroup
from terracrew.api.modules import Module, ModuleChange, ModuleSettings, NewModule
from terracrew.api.place_settings import LimitsChange
from terracrew.api.runners import RunnerChange, RunnerOptions
from terracrew.protocol.spec import JobLimits, Step


class Size(msgspec.Struct, frozen=True, kw_only=True):
    width: int = 1
    marks: Annotated[dict[str, int], Field(is_merged=True)] = {}


@fields.change
class SizeChange(Size, frozen=True, kw_only=True):
    """What to change."""


class BoxSettings(msgspec.Struct, frozen=True, kw_only=True):
    name: Annotated[str, Meta(max_length=5)]
    """What it is
    called."""
    count: Annotated[int, Meta(ge=1, le=9), Field(label="How many", option="--number")] = 3
    size: Size = Size()


class Box(BoxSettings, frozen=True, kw_only=True):
    id: str


@fields.new
class NewBox(BoxSettings, frozen=True, kw_only=True):
    pass


@fields.change
class BoxChange(BoxSettings, frozen=True, kw_only=True):
    name: str = fields.UNCHANGED


def decode(body: bytes, kind: type[BoxSettings]) -> BoxSettings:
    return msgspec.json.decode(body, type=kind)


def test_a_field_says_its_words_its_bounds_and_its_default() -> None:
    found = fields.describe(BoxSettings)
    assert list(found) == ["name", "count", "size"]
    assert (found["name"].label, found["name"].option, found["name"].is_required) == ("Name", "--name", True)
    assert (found["count"].label, found["count"].option, found["count"].default) == ("How many", "--number", 3)
    assert (found["count"].minimum, found["count"].maximum, found["name"].max_length) == (1, 9, 5)
    assert list(found["size"].fields) == ["width", "marks"]


def test_choices_are_in_the_order_in_which_they_are_written() -> None:
    assert fields.describe(ModuleSettings)["backend"].choices == ("terracrew", "own")


def test_a_change_may_leave_out_every_field_and_keeps_their_bounds() -> None:
    assert fields.given(decode(b"{}", BoxChange)) == {}
    assert fields.given(decode(b'{"count": 2}', BoxChange)) == {"count": 2}
    for wrong in (b'{"count": 10}', b'{"other": 1}', b'{"size": {"other": 1}}'):
        with pytest.raises(msgspec.ValidationError):
            decode(wrong, BoxChange)


def test_a_new_one_needs_what_has_no_default_and_refuses_unknown_fields() -> None:
    for wrong in (b"{}", b'{"name": "a", "other": 1}', b'{"name": "a", "size": {"other": 1}}'):
        with pytest.raises(msgspec.ValidationError):
            decode(wrong, NewBox)
    made = fields.created(Box, decode(b'{"name": "a", "size": {"width": 5}}', NewBox), id="1")
    assert made == Box(id="1", name="a", size=Size(width=5))


def test_settings_within_settings_are_changed_in_parts() -> None:
    before = Box(id="1", name="a", size=Size(width=5, marks={"b": 1, "c": 2}))
    after = fields.changed(before, decode(b'{"size": {"marks": {"c": null, "a": 3}}}', BoxChange))
    assert after == Box(id="1", name="a", size=Size(width=5, marks={"a": 3, "b": 1}))
    assert list(after.size.marks) == ["a", "b"]
    assert fields.changed(before, decode(b'{"size": {"marks": null}}', BoxChange)).size == Size(width=5)


def test_the_keys_of_a_merged_map_have_the_order_of_their_enumeration() -> None:
    after = fields.changed(JobLimits(step_seconds={Step.PLAN: 5}), LimitsChange(step_seconds={Step.INIT: 7}))
    assert list(after.step_seconds) == [Step.INIT, Step.PLAN]


def test_a_value_of_the_caller_comes_instead_of_that_of_the_request() -> None:
    before = Box(id="1", name="a")
    assert fields.changed(before, BoxChange(name="x", count=4), name="b") == Box(id="1", name="b", count=4)


@pytest.mark.parametrize("kind", [ModuleSettings, GroupSettings, RunnerOptions, RunnerChange, JobLimits])
def test_every_field_that_people_set_has_a_description(kind: type[msgspec.Struct]) -> None:
    assert [name for name, field in fields.describe(kind).items() if not field.help] == []


def test_requests_have_the_descriptions_of_the_settings() -> None:
    for kind in (Module, NewModule, ModuleChange):
        assert fields.describe(kind)["priority"].help == fields.describe(ModuleSettings)["priority"].help
    assert fields.describe(NewGroup)["limits"].fields["job_seconds"].help
