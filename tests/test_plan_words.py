"""Plans in words, as pages and terminals show them."""

import pytest

from terracrew import plan_words


@pytest.mark.feature("J3.checked")
@pytest.mark.parametrize(
    ("validate", "plan", "is_checked"),
    [
        ("SKIPPED", "RUNNING", True),
        ("SKIPPED", "FAILED", True),
        ("SKIPPED", "SKIPPED", False),  # a step before both of them failed
        ("SUCCEEDED", "SUCCEEDED", False),
    ],
)
def test_validate_is_checked_by_a_plan_that_ran(validate: str, plan: str, is_checked: bool) -> None:
    statuses = {"validate": validate, "plan": plan}
    assert plan_words.is_checked_by_plan("validate", statuses) == is_checked
    assert not plan_words.is_checked_by_plan("plan", statuses)
