"""How the values of an attribute are compared: whole, inside, and without what is sensitive."""

import json

import pytest

from terracrew.wording import plan_words
from tests.plan_diff.plans import attributes, compared

pytestmark = pytest.mark.feature("J11.diff")


def test_values_that_change_are_shown_and_others_are_only_counted() -> None:
    found = compared({"size": 1, "name": "a", "none": None}, {"size": 2, "name": "a", "new": True})
    assert [(each.name, each.action, each.before, each.after) for each in found.attributes] == [
        ("new", "create", None, "true"),
        ("size", "update", "1", "2"),
    ]
    assert (found.changed, found.unchanged) == (2, 1)
    assert [(each.name, each.value) for each in found.unchanged_attributes] == [("name", '"a"')]


def test_true_is_not_one_and_a_number_is_not_a_text() -> None:
    assert set(attributes({"a": 1, "b": "1", "c": 1}, {"a": True, "b": 1, "c": 1.0})) == {"a", "b"}


def test_a_json_string_is_compared_inside() -> None:
    before = {"Version": "1", "Statement": [{"Effect": "Allow", "Resource": ["a"]}]}
    after = {"Version": "1", "Statement": [{"Effect": "Allow", "Resource": ["a"]}, {"Effect": "Deny"}]}
    found = attributes({"policy": json.dumps(before)}, {"policy": json.dumps(after, indent=2)})["policy"]
    assert (found.kind, found.changed, found.total) == ("JSON", 1, 4)
    assert [(each.name, each.action, each.after) for each in found.inside] == [
        ("Statement[1]", "create", '{"Effect": "Deny"}')
    ]
    assert plan_words.parts(found.kind, found.changed, found.total) == "JSON, 1 of 4 values changes"


def test_a_json_string_whose_formatting_alone_changes_says_so() -> None:
    found = attributes({"p": '{"a":1}'}, {"p": '{ "a": 1 }'})["p"]
    assert plan_words.parts(found.kind, found.changed, found.total) == "JSON, only its formatting changes"


def test_an_inserted_item_does_not_make_the_following_ones_differ() -> None:
    before = [{"port": port} for port in (1, 2, 3)]
    found = attributes({"rule": before}, {"rule": [{"port": 9}, *before]})["rule"]
    assert found.kind == "block"
    assert [(each.name, each.action) for each in found.inside] == [("rule[0]"[4:], "create")]


def test_a_text_is_compared_by_lines() -> None:
    found = attributes({"script": "a\nb\nc"}, {"script": "a\nx\nc"})["script"]
    assert [(each.name, each.before, each.after) for each in found.inside] == [("line 2", '"b"', '"x"')]
    assert plan_words.parts(found.kind, found.changed, found.total) == "text, 1 of 3 lines changes"


def test_what_is_known_after_the_apply_is_marked_at_every_depth() -> None:
    unknown = {"id": True, "net": [{"ip": True}]}
    found = attributes({"id": "i-1"}, {"net": [{"name": "a"}]}, unknown=unknown, action="replace")
    assert found["id"].is_unknown
    assert found["id"].before == '"i-1"'
    assert [(each.name, each.is_unknown) for each in found["net"].inside] == [("[0].ip", True), ("[0].name", False)]


def test_sensitive_values_are_in_no_field() -> None:
    found = compared(
        {"password": "hunter2-old", "copy": "uses hunter2-old", "deep": [{"key": "k3y-value-1"}]},
        {"password": "hunter2-new", "copy": "uses hunter2-new", "deep": [{"key": "k3y-value-2"}]},
        before_sensitive={"password": True, "deep": [{"key": True}]},
        after_sensitive={"password": True, "deep": [{"key": True}]},
    )
    assert "hunter2" not in repr(found)
    assert "k3y-value" not in repr(found)
    by_name = {each.name: each for each in found.attributes}
    assert by_name["password"].is_sensitive
    assert by_name["copy"].after == '"uses ***"'
    assert [(each.name, each.is_sensitive) for each in by_name["deep"].inside] == [("[0].key", True)]


def test_a_sensitive_value_on_one_side_hides_the_other_one() -> None:
    assert "secret" not in repr(compared({"a": "secret-1"}, {"a": "secret-2"}, after_sensitive={"a": True}))


def test_a_mark_that_does_not_fit_its_value_hides_all_of_it() -> None:
    found = compared({"a": ["s3cret"]}, {"a": {"b": "s3cret2"}}, after_sensitive={"a": [True]}, before_sensitive=True)
    assert "s3cret" not in repr(found)


def test_an_unchanged_sensitive_value_is_named_without_its_value() -> None:
    found = compared({"a": "s3cret", "b": 1}, {"a": "s3cret", "b": 2}, after_sensitive={"a": True})
    assert [(each.name, each.value, each.is_sensitive) for each in found.unchanged_attributes] == [("a", "", True)]


def test_a_long_value_is_cut_and_says_how_long_it_is() -> None:
    found = attributes({"a": "x"}, {"a": "y" * 10_000})["a"]
    assert found.after is not None
    assert (len(found.after), found.after_length) == (4_000, 10_002)


def test_attributes_that_force_a_replacement_come_first() -> None:
    found = compared({"a": 1, "z": 1}, {"a": 2, "z": 2}, action="replace", replace_paths=[["z"]])
    assert [(each.name, each.forces_replacement) for each in found.attributes] == [("z", True), ("a", False)]
