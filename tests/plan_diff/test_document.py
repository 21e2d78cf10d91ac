"""The stored diff of a plan: its order, its pages, its bounds, and content that somebody made up."""

import time
import zlib
from typing import Any

import pytest

from terracrew.errors import Invalid
from terracrew.masking.redactor import Redactor
from terracrew.plan_diff import document as documents
from terracrew.plan_diff.document import DiffDocument, DiffQuery, PlanDescription, PlannedOutput, build
from terracrew.plan_diff.resources import Values
from tests.plan_diff.plans import compared, document, planned, unmasked

pytestmark = pytest.mark.feature("J11.diff")


def test_destructive_changes_come_first_and_a_page_has_one_action() -> None:
    actions = ("create", "update", "delete", "replace", "create")
    found = document(*(planned(action=action, address=f"{action}.{at}") for at, action in enumerate(actions)))
    assert [each.action for each in found.page().resources] == ["replace", "delete", "update", "create", "create"]
    assert found.head.counts == {"replace": 1, "delete": 1, "update": 1, "create": 2}
    assert [each.address for each in found.page(DiffQuery(action="create", start=1)).resources] == ["create.4"]
    assert found.page(DiffQuery(action="read")).resources == []


def test_drift_is_apart_from_the_plan() -> None:
    found = document(planned({"a": 1}, {"a": 2}), drift=[planned({"a": 0}, {"a": 1}, address="drifted.one")])
    assert [each.address for each in found.page().resources] == ["a.b"]
    assert [each.address for each in found.page(DiffQuery(action="drift")).resources] == ["drifted.one"]
    assert found.head.drift == 1


def test_a_search_finds_addresses_names_and_values_but_no_syntax() -> None:
    found = document(
        planned({"a": 'say "x"'}, {"a": "y"}, address="one.first"),
        planned({"zone": 'b\\"c'}, {"zone": "C"}, address='two["Second"]'),
    )
    assert [each.address for each in found.page(DiffQuery(search="second")).resources] == ['two["Second"]']
    assert [each.address for each in found.page(DiffQuery(search='["sec')).resources] == ['two["Second"]']
    assert [each.address for each in found.page(DiffQuery(search="ZONE")).resources] == ['two["Second"]']
    assert [each.address for each in found.page(DiffQuery(search='say \\"x')).resources] == ["one.first"]
    assert found.page(DiffQuery(search="attributes")).total == 0


def test_outputs_are_compared_like_attributes() -> None:
    outputs = [
        PlannedOutput("b", Values("old-secret", "new-secret", False, True, True)),
        PlannedOutput("a", Values(None, None, True)),
    ]
    found = document(outputs=outputs).head.outputs
    assert [(each.name, each.is_sensitive, each.is_unknown) for each in found] == [
        ("a", False, True),
        ("b", True, False),
    ]
    assert "secret" not in repr(found).replace("is_secret", "")


def test_a_plan_of_ten_thousand_resources_is_bounded_and_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_LINES_BYTES", 200_000)
    values = {f"attribute_{at}": "x" * 30 for at in range(10)}
    began = time.process_time()
    found = document(*(planned(None, values, action="create", address=f"a.b[{at}]") for at in range(10_050)))
    assert time.process_time() - began < 10
    assert found.head.counts == {"create": 10_000}
    assert found.head.left_out[0] == "50 of 10,050 resources are only counted."
    assert "The attributes of" in found.head.left_out[1]
    assert found.page(DiffQuery(start=9_999)).resources[0].address == "a.b[9999]"


def test_the_values_of_a_plan_that_is_too_large_are_not_compared() -> None:
    found = document(planned({"a": 1}, {"a": 2}), size=documents.MAX_PLAN_BYTES + 1)
    assert found.page().resources[0].attributes == []
    assert found.head.left_out == ["The attributes of 1 resources are left out, because the plan is too large."]


def test_one_huge_resource_does_not_use_the_room_of_the_others() -> None:
    huge = {f"a{at}": "y" * 4_000 for at in range(250)}
    found = document(planned(None, huge, action="create", address="huge.one"), planned({"a": 1}, {"a": 2}))
    first, second = found.page().resources
    assert (first.address, second.address) == ("a.b", "huge.one")
    assert 0 < len(second.attributes) < 250
    assert second.changed == 250
    assert "left out" in second.left_out


def test_hostile_texts_are_harmless() -> None:
    nasty = "<script>alert(1)</script>\x1b[2J\x1b]0;title\x07\u202e\u0000"
    found = compared({nasty: nasty}, {nasty: nasty + "2"}, address=nasty, action="delete", previous_address=nasty)
    shown = [found.address, found.why, found.attributes[0].name, found.attributes[0].before or ""]
    assert all(text.isprintable() for text in shown)
    assert "<script>" in found.address, "templates escape it; the text itself stays readable"


def test_deep_and_huge_values_are_bounded() -> None:
    deep: Any = "end"
    for _ in range(5_000):
        deep = [deep]
    assert "nested too deep" in compared({"a": deep}, {"a": [deep]}).left_out
    wide = compared({"a": list(range(60_000))}, {"a": list(range(1, 60_001))}).attributes[0]
    assert wide.after_length > 4_000
    lines = compared({"a": "\n" * 50_000}, {"a": "\n" * 60_000 + "b"}).attributes[0]
    assert not lines.inside


def test_secrets_that_the_executor_knows_are_masked_before_a_value_is_cut() -> None:
    def mask(text: str) -> str:
        return text.replace("TOKEN-123", "***")

    value = "x" * 3_995 + "TOKEN-123"
    plan = PlanDescription([planned(None, {"a": value, "TOKEN-123": 1}, action="create", address='a["TOKEN-123"]')])
    found = DiffDocument(build(plan, mask)).page().resources
    assert "TOKEN" not in repr(found)


@pytest.mark.parametrize("secret", ['"quoted-secret"', '"quoted-secret', 'quoted-secret"'])
def test_a_secret_with_quotation_marks_is_masked_where_a_value_is_shown_with_them(secret: str) -> None:
    """A variable of the type `any` is given as an expression: the engine shows its value without them."""
    plan = PlanDescription([planned({"a": "quoted-secret"}, {"a": "other", "b": "quoted-secret"})])
    found = DiffDocument(build(plan, Redactor([secret]).mask_text)).page().resources
    assert "quoted-secret" not in repr(found)


@pytest.mark.parametrize("content", [b"", b"nonsense", zlib.compress(b"[]"), zlib.compress(b'{"format":99}')])
def test_content_that_is_not_a_diff_is_refused(content: bytes) -> None:
    with pytest.raises(Invalid):
        DiffDocument(content)


def test_a_document_that_expands_without_end_is_refused() -> None:
    with pytest.raises(Invalid, match="larger than expected"):
        DiffDocument(zlib.compress(b" " * (documents.MAX_DOCUMENT_BYTES + 2)))
    assert DiffDocument(build(PlanDescription([]), unmasked)).page().resources == []
