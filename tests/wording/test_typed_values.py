"""A value that a person types reaches the engine as it was typed."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from terracrew.wording import typed_values


@pytest.mark.feature("J6.inputs")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("0", 0),
        ("0.5", 0.5),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("true", True),
        ("null", None),
        ('["a", 1.30]', ["a", 1.3]),
        ('{"a": 1}', {"a": 1}),
        ('"5"', "5"),
        ('"1.30"', "1.30"),
        ("eu-1", "eu-1"),
        ("", ""),
    ],
)
def test_json_has_its_type(text: str, value: Any) -> None:
    found = typed_values.read(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.feature("J6.inputs")
@pytest.mark.parametrize(
    "text", ["1.30", "0.10", "1.0", "1e3", "1E3", "-0", "007", " 5", "5 ", "0.1000000000000000055"]
)
def test_a_number_that_would_be_written_in_another_way_stays_a_text(text: str) -> None:
    """`--var k8s=1.30` arrived as 1.3."""
    assert typed_values.read(text) == text


@given(st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.from_regex(r"-?[0-9.eE+]{1,12}")))
def test_every_number_reads_as_it_was_typed(number: object) -> None:
    found = typed_values.read(text := str(number))
    assert found == text or msgspec.json.encode(found).decode() == text
