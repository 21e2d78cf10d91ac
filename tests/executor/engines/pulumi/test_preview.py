"""The preview of Pulumi by property, from events as Pulumi 3.255 writes them."""

import json
from pathlib import Path
from typing import Any

import pytest

from terracrew.errors import Invalid
from terracrew.executor.engines import plan_summary
from terracrew.executor.engines.pulumi import preview
from terracrew.plan_diff import document
from terracrew.plan_diff.document import DiffDocument, DiffQuery
from terracrew.plan_diff.model import ResourceDiff

pytestmark = pytest.mark.feature("J11.diff", "J4.pulumi")
SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "[secret]"}
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
FILE, STACK = "testing:index:File", "pulumi:pulumi:Stack"


def urn(name: str, kind: str = FILE) -> str:
    return f"urn:pulumi:dev::project::{kind}::{name}"


def state(name: str, inputs: dict[str, Any], outputs: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    found = {"type": FILE, "urn": urn(name), "custom": True, "id": "", "inputs": inputs, "outputs": outputs or {}}
    return found | fields


def step(op: str, name: str, old: Any, new: Any, event: str = "resourcePreEvent", **fields: Any) -> dict[str, Any]:
    metadata = {"op": op, "urn": urn(name), "type": FILE, "old": old, "new": new, "detailedDiff": None}
    return {"sequence": 1, event: {"metadata": metadata | fields, "planning": True}}


def outputs(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    made = [{"type": STACK, "urn": urn("s", STACK), "id": "", "inputs": {}, "outputs": each} for each in (old, new)]
    return step("update", "s", *made, event="resOutputsEvent", type=STACK, urn=urn("s", STACK))


def read(folder: Path, *events: dict[str, Any], is_destroying: bool = False) -> DiffDocument:
    path = folder / "events.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in events))
    found = DiffDocument(document.build(preview.description(path, is_destroying=is_destroying), lambda text: text))
    summary = plan_summary.summarize(preview.facts(path), None)
    counted = {"create": summary.add, "update": summary.change, "delete": summary.destroy, "replace": summary.replace}
    assert {name: found.head.counts.get(name, 0) for name in counted} == counted
    assert {each.name: each.action for each in found.head.outputs} == summary.outputs
    return found


def resources(found: DiffDocument) -> dict[str, ResourceDiff]:
    return {each.address.rpartition("::")[2]: each for each in found.page().resources}


def test_each_change_is_shown_by_property(tmp_path: Path) -> None:
    old = {"name": "a", "content": "before", "same": 1, "gone": True}
    new = {"name": "a", "content": "after", "same": 1, "id": UNKNOWN}
    diff = {"content": {"diffKind": "update", "inputDiff": True}}
    found = resources(
        read(
            tmp_path,
            step("same", "kept", state("kept", old), state("kept", old)),
            step("update", "one", state("one", old), state("one", new), detailedDiff=diff),
            step("create", "made", None, state("made", {"name": "b", "secret": SECRET})),
            step("delete", "dropped", state("dropped", old), None),
        )
    )
    assert set(found) == {"one", "made", "dropped"}
    one = {each.name: (each.action, each.before, each.after, each.is_unknown) for each in found["one"].attributes}
    assert one == {
        "content": ("update", '"before"', '"after"', False),
        "gone": ("delete", "true", None, False),
        "id": ("create", None, None, True),
    }
    assert found["one"].unchanged == 2
    made = {each.name: (each.after, each.is_sensitive) for each in found["made"].attributes}
    assert made == {"name": ('"b"', False), "secret": (None, True)}
    assert found["dropped"].why == "Destroyed because it is no longer in the configuration."
    assert len(found["dropped"].attributes) == 4


@pytest.mark.parametrize("is_create_first", [True, False])
def test_a_replacement_says_why_and_which_comes_first(tmp_path: Path, is_create_first: bool) -> None:
    old, new = state("r", {"name": "a", "tags": {"x": 1}}), state("r", {"name": "b", "tags": {"x": 2}})
    diff = {
        "name": {"diffKind": "update-replace", "inputDiff": True},
        'tags["x"]': {"diffKind": "update", "inputDiff": True},
    }
    create = step("create-replacement", "r", old, new, keys=["name"], detailedDiff=diff)
    delete = step("delete-replaced", "r", {**old, "delete": True}, None)
    logical = step("replace", "r", old, new, keys=["name"], detailedDiff=diff)
    events = (create, logical, delete) if is_create_first else (delete, logical, create)
    [found] = resources(read(tmp_path, *events)).values()
    assert (found.action, found.is_create_first) == ("replace", is_create_first)
    assert found.why.startswith("Replaced because `name` cannot change in place.")
    assert [(each.name, each.forces_replacement) for each in found.attributes] == [("name", True), ("tags", False)]


def test_a_secret_that_changes_is_shown_as_a_change_without_its_value(tmp_path: Path) -> None:
    old = state("one", {"password": SECRET, "other": SECRET, "deep": {"list": [SECRET, "plain"]}})
    diff = {"password": {"diffKind": "update", "inputDiff": True}}
    found = read(tmp_path, step("update", "one", old, old, detailedDiff=diff, diffs=["password"]))
    [one] = resources(found).values()
    assert [(each.name, each.is_sensitive, each.before, each.after) for each in one.attributes] == [
        ("password", True, None, None)
    ]
    assert one.unchanged == 2
    assert "[secret]" not in repr(one)
    assert "1b47061264138c4ac30d75fd1eb44270" not in repr(one)


def test_what_was_changed_outside_is_compared_with_what_the_resource_really_is(tmp_path: Path) -> None:
    asked, real = {"content": "asked"}, {"content": "by hand"}
    diff = {"content": {"diffKind": "update", "inputDiff": False}}
    before = state("one", asked, asked)
    found = read(
        tmp_path,
        step("refresh", "one", before, before),
        step("refresh", "one", before, state("one", asked, real), event="resOutputsEvent"),
        step("update", "one", state("one", asked, real), state("one", asked), detailedDiff=diff),
    )
    assert found.head.drift == 1
    [one], [drifted] = found.page().resources, found.page(DiffQuery(action="drift")).resources
    assert [(each.before, each.after) for each in one.attributes] == [('"by hand"', '"asked"')]
    assert [(each.before, each.after) for each in drifted.attributes] == [('"asked"', '"by hand"')]


def test_a_resource_with_an_alias_is_moved_and_one_with_an_id_is_imported(tmp_path: Path) -> None:
    found = resources(
        read(
            tmp_path,
            step("same", "new", state("old", {"a": 1}), state("new", {"a": 1})),
            step("import", "there", None, state("there", {"a": 1}, id="i-1")),
        )
    )
    assert (found["new"].action, found["new"].previous_address) == ("move", f"{FILE}::old")
    assert (found["there"].action, found["there"].import_id) == ("import", "i-1")


def test_outputs_are_compared_and_secret_ones_hidden(tmp_path: Path) -> None:
    found = read(tmp_path, outputs({"a": 1, "b": 2, "s": SECRET}, {"a": 3, "c": UNKNOWN, "s": SECRET, "t": SECRET}))
    shown = [(each.name, each.action, each.before, each.after, each.is_sensitive) for each in found.head.outputs]
    assert shown == [
        ("a", "update", "1", "3", False),
        ("b", "delete", "2", None, False),
        ("c", "create", None, None, False),
        ("t", "create", None, None, True),
    ]


def test_a_destroy_gives_no_reason_for_each_resource(tmp_path: Path) -> None:
    found = resources(read(tmp_path, step("delete", "one", state("one", {"a": 1}), None), is_destroying=True))
    assert found["one"].why == ""


@pytest.mark.parametrize(
    "content", ["{", '{"resourcePreEvent": 1}', '{"resourcePreEvent": {"metadata": {}}}', "[" * 5000]
)
def test_events_that_cannot_be_read_are_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(content)
    with pytest.raises(Invalid, match="cannot be read"):
        preview.description(path, is_destroying=False)


@pytest.mark.parametrize(
    ("path", "parts"),
    [("a", ["a"]), ("a.b[0].c", ["a", "b", 0, "c"]), ('tags["x.y"][2]', ["tags", "x.y", 2]), ("[", ["["])],
)
def test_a_path_is_taken_apart(path: str, parts: list[str | int]) -> None:
    assert preview.parsed_path(path) == parts
