"""Properties of diffs of generated values: they name exactly what differs, and never show what is sensitive."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terracrew.plan_diff import values
from tests.plan_diff.plans import compared
from tests.thoroughness import examples

pytestmark = pytest.mark.feature("J11.diff")
_SCALARS = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b\nc", '{"k": [1]}', '{"k": [2]}'])
)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner), max_leaves=8
)
_ATTRIBUTES = st.dictionaries(st.sampled_from(["one", "two", "three", "four"]), _VALUES)


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


@settings(max_examples=examples(150), deadline=None)
@given(_ATTRIBUTES, _ATTRIBUTES)
def test_exactly_the_attributes_that_differ_are_shown(before: dict[str, Any], after: dict[str, Any]) -> None:
    found = compared(before, after)
    differing = {name for name in {**before, **after} if _canonical(before.get(name)) != _canonical(after.get(name))}
    assert {each.name for each in found.attributes} == differing
    assert found.changed == len(differing)
    same = {name for name in after if name not in differing and after[name] is not None}
    assert found.unchanged == len(same)
    for each in found.attributes:
        has_before, has_after = before.get(each.name) is not None, after.get(each.name) is not None
        assert each.action == ("update" if has_before and has_after else "create" if has_after else "delete")
        assert not each.kind or each.changed <= each.total
        assert each.kind or (each.before is not None) == has_before
        assert each.kind or (each.after is not None) == has_after


def _marked(value: Any, draw: st.DrawFn) -> tuple[Any, Any]:
    """Replace some strings of a value by secrets, and return it with the marks of an engine."""
    if values.is_object(value):
        pairs = {name: _marked(each, draw) for name, each in value.items()}
        return {name: pair[0] for name, pair in pairs.items()}, {name: pair[1] for name, pair in pairs.items()}
    if values.is_list(value):
        items = [_marked(each, draw) for each in value]
        return [item[0] for item in items], [item[1] for item in items]
    if draw(st.booleans()):
        return draw(st.sampled_from(["SECRET-1", "SECRET-2"])), True
    return value, False


@st.composite
def _with_secrets(draw: st.DrawFn) -> tuple[Any, Any]:
    return _marked(draw(_ATTRIBUTES), draw)


@settings(max_examples=examples(150), deadline=None)
@given(_with_secrets(), _with_secrets())
def test_nothing_that_is_marked_as_sensitive_is_shown(before: tuple[Any, Any], after: tuple[Any, Any]) -> None:
    found = compared(before[0], after[0], before_sensitive=before[1], after_sensitive=after[1])
    assert "SECRET" not in repr(found)
