"""Every text that a fact carries is masked, unless it is listed as data."""

from typing import Any, get_args

import msgspec
import pytest
from msgspec import inspect

from terracrew.masking import facts
from terracrew.masking.redactor import Redactor
from terracrew.protocol import events
from terracrew.protocol.events import KeptPlan, PlanSummary, ResourceChange, Result, SourceResolved

SECRET = "hunter2-hunter2"
DATA = {
    "SourceResolved": {"digest", "commit", "moved_from"},
    "EngineUsed": {"name", "version"},
    "KeptPlan": {"sha256", "path"},
    "OutputsRead": {"outputs", "sha256"},
    "Result": {"failure_kind"},
}
"""The texts of facts that are not masked. A text that a person or a program wrote does not belong here."""


@pytest.mark.feature("L5.executor", "L5.server")
@pytest.mark.parametrize("kind", get_args(events.Fact), ids=lambda kind: kind.__name__)
def test_a_secret_in_any_text_of_a_fact_is_masked(kind: type[Any]) -> None:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    for field in info.fields:
        if isinstance(field.type, inspect.StrType) and field.name not in DATA.get(kind.__name__, set()):
            given = {each.name: _example(each.type) for each in info.fields if each.required}
            fact = kind(**given | {field.name: f"a text with {SECRET} in it"})
            masked = facts.masked(fact, Redactor([SECRET]))
            assert getattr(masked, field.name) == "a text with *** in it"


def _example(kind: inspect.Type) -> Any:
    empty: dict[type[inspect.Type], Any] = {inspect.StrType: "", inspect.DictType: {}, inspect.ListType: []}
    return empty.get(type(kind), 0)


@pytest.mark.feature("L5.executor", "L5.server")
def test_texts_inside_lists_and_names_are_masked_and_words_of_terracrew_are_not() -> None:
    """Secrets that are words of Terracrew itself changed statuses and actions."""
    redactor = Redactor([SECRET, "FAILED", "create", "0" * 64, "/workspace"])
    plan = PlanSummary(add=1, resources=[ResourceChange(SECRET, "create", SECRET)], outputs={SECRET: "create"})
    expected = PlanSummary(add=1, resources=[ResourceChange("***", "create", "***")], outputs={"***": "create"})
    assert facts.masked(plan, redactor) == expected
    kept = KeptPlan(1, "0" * 64, 1, "/workspace")
    result = Result("FAILED", f"it is {SECRET}", kept=kept)
    assert facts.masked(result, redactor) == Result("FAILED", "it is ***", kept=kept)
    source = SourceResolved("0" * 64, f"https://{SECRET}@host", "0" * 64, f"branch {SECRET}")
    assert facts.masked(source, redactor) == SourceResolved("0" * 64, "https://***@host", "0" * 64, "branch ***")


def test_a_fact_without_a_secret_stays_the_same_object() -> None:
    fact = Result("SUCCEEDED", "done")
    assert facts.masked(fact, Redactor([SECRET])) is fact


@pytest.mark.feature("L5.executor")
def test_texts_of_a_fact_that_does_not_exist_yet_are_masked() -> None:
    class Line(msgspec.Struct, frozen=True):
        before: Any
        after: str | None

    class Later(msgspec.Struct, frozen=True):
        lines: dict[str, list[Line]]

    fact: Any = Later({SECRET: [Line({"password": [SECRET, 1]}, None), Line(None, SECRET)]})
    masked: Any = facts.masked(fact, Redactor([SECRET]))
    assert masked == Later({"***": [Line({"password": ["***", 1]}, None), Line(None, "***")]})
