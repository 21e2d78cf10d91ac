"""The document of a plan that a command line at another place shows, from documents as the engine prints them."""

import json
from typing import Any

import pytest

from terracrew.errors import Invalid, TooLarge
from terracrew.executor.engines.hcl import plan_for_show
from terracrew.masking.redactor import Redactor
from terracrew.plan_diff import plan_json
from terracrew.plan_diff.plan_json import PlanJson

SECRET = "correct horse battery"
PROVIDER = "registry.opentofu.org/hashicorp/aws"
SCHEMAS = {
    "format_version": "1.0",
    "provider_schemas": {
        PROVIDER: {
            "provider": {"version": 0},
            "resource_schemas": {"aws_db": {"version": 1}, "aws_other": {"version": 2}},
            "data_source_schemas": {"aws_db": {"version": 3}},
        },
        "registry.opentofu.org/hashicorp/unused": {"resource_schemas": {"unused": {"version": 4}}},
    },
}


def change(before: Any, after: Any, *, before_sensitive: Any = False, after_sensitive: Any = False) -> dict[str, Any]:
    marks = {"before_sensitive": before_sensitive, "after_sensitive": after_sensitive}
    return {"actions": ["update"], "before": before, "after": after, "after_unknown": {}, **marks}


def resource(name: str, **fields: Any) -> dict[str, Any]:
    found = {"address": f"aws_db.{name}", "mode": "managed", "type": "aws_db", "name": name, "provider_name": PROVIDER}
    return found | fields


def built(document: dict[str, Any], *secrets: str, schemas: Any = SCHEMAS) -> PlanJson:
    printed = json.dumps({"format_version": "1.2"} | document).encode()
    printed_schemas = None if schemas is None else json.dumps(schemas).encode()
    return plan_for_show.build(printed, printed_schemas, Redactor(secrets).mask_text)


def changed(document: dict[str, Any], *secrets: str) -> dict[str, Any]:
    """The change of the only resource."""
    found = built(document, *secrets)
    assert SECRET.encode() not in bytes(found.plan)
    return json.loads(bytes(found.plan))["resource_changes"][0]["change"]


def of_change(before: Any, after: Any, **marks: Any) -> dict[str, Any]:
    return {"resource_changes": [resource("a", change=change(before, after, **marks))]}


def test_a_sensitive_value_keeps_its_kind_and_is_seen_to_change() -> None:
    """A command line that finds a text where its schema has a list shows nothing of a change, or crashes."""
    before = {"key": SECRET, "same": SECRET, "keys": [SECRET], "map": {SECRET: "x"}, "port": 5432, "unset": None}
    after = before | {"key": SECRET + "!", "keys": [SECRET, "b"], "map": {"b": SECRET}, "port": 5433}
    marks = dict.fromkeys(before, True)
    found = changed(of_change(before, after, before_sensitive=marks, after_sensitive=marks))
    was = "*** before"
    assert found["before"] == {
        "key": was,
        "same": "***",
        "keys": [was],
        "map": {"***": was},
        "port": was,
        "unset": None,
    }
    assert found["after"] == {
        "key": "***",
        "same": "***",
        "keys": ["***"],
        "map": {"***": "***"},
        "port": "***",
        "unset": None,
    }
    assert found["after_sensitive"] == marks


def test_marks_inside_lists_and_maps_hide_only_what_they_name() -> None:
    after = {"users": [{"name": "ann", "key": SECRET}, {"name": "bob", "key": None}], "tags": {"a": "b", "c": SECRET}}
    marks = {"users": [{"key": True}], "tags": {"c": True}}
    found = changed(of_change(None, after, after_sensitive=marks))
    assert found["after"]["users"] == [{"name": "ann", "key": "***"}, {"name": "bob", "key": None}]
    assert found["after"]["tags"] == {"a": "b", "c": "***"}
    assert found["after_sensitive"] == {"users": [{"key": True}, False], "tags": {"c": True}}


def test_a_number_that_is_a_secret_is_marked_because_it_becomes_a_text() -> None:
    found = changed(of_change(None, {"pin": [1234567890, 7]}), "1234567890")
    assert found["after"] == {"pin": ["***", 7]}
    assert found["after_sensitive"] == {"pin": [True, False]}


def test_a_sensitive_output_is_hidden_and_all_other_sections_are_those_that_hooks_read() -> None:
    outputs = {"secret": change(SECRET, SECRET + "!", before_sensitive=True, after_sensitive=True)}
    variables = {"given": {"value": SECRET}}
    declared = {"root_module": {"variables": {"given": {"sensitive": True}}}}
    found = built({"output_changes": outputs, "variables": variables, "configuration": declared}, schemas=None)
    assert SECRET.encode() not in bytes(found.plan)
    document = json.loads(bytes(found.plan))
    assert (document["output_changes"]["secret"]["before"], document["output_changes"]["secret"]["after"]) == (
        "*** before",
        "***",
    )
    assert document["variables"] == {"given": {"value": "***"}}


def test_only_the_schemas_of_what_is_in_the_plan_are_kept() -> None:
    document = of_change(None, {}) | {"resource_drift": [resource("b", change=change({}, {}), mode="data")]}
    found = built(document)
    assert found.provider_format_version == "1.0"
    assert json.loads(bytes(found.provider_schemas)) == {
        PROVIDER: {
            "resource_schemas": {"aws_db": {"version": 1}},
            "data_source_schemas": {"aws_db": {"version": 3}},
        }
    }
    assert plan_for_show.has_resources(json.dumps({"format_version": "1.2"} | document).encode())
    assert not plan_for_show.has_resources(b'{"format_version": "1.2"}')


@pytest.mark.parametrize(
    ("schemas", "why"),
    [
        ({"format_version": "1.0"}, f"the engine has no schema for aws_db of {PROVIDER}"),
        ([], "the schemas of its resources cannot be read"),
    ],
)
def test_a_schema_that_is_missing_is_an_error_because_command_lines_crash_without_it(schemas: Any, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        built(of_change(None, {}), schemas=schemas)


def test_a_plan_that_is_too_large_is_not_kept() -> None:
    with pytest.raises(TooLarge, match="At most"):
        plan_json.pack(built(of_change(None, {"text": "x" * plan_json.MAX_PLAN_JSON_BYTES})))


def test_what_was_packed_is_unpacked() -> None:
    found = built(of_change(None, {"name": "a"}))
    again = plan_json.unpack(plan_json.pack(found))
    assert (bytes(again.plan), bytes(again.provider_schemas)) == (bytes(found.plan), bytes(found.provider_schemas))
