"""Plans in words, as pages and terminals show them."""

import msgspec
import pytest

from terracrew.api.job_views import JobView
from terracrew.cli.commands.job import follow
from terracrew.protocol.events import PlanSummary, ResourceChange
from terracrew.server.dashboard.jobs.diff import PlanPanel
from terracrew.wording import plan_words
from tests.cli.job_views import view


def _job(status: str, plan: PlanSummary | None) -> JobView:
    return msgspec.convert(view(status, plan=msgspec.to_builtins(plan)), JobView)


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


@pytest.mark.feature("J11.resources")
@pytest.mark.parametrize(
    "plan",
    [
        PlanSummary(add=1),
        PlanSummary(moves=1),
        PlanSummary(forgets=1),
        PlanSummary(resources=[ResourceChange("terraform_data.a", "create")]),
        PlanSummary(outputs={"url": "update"}),
    ],
)
def test_a_plan_of_which_only_a_part_changes_something_has_changes_everywhere(plan: PlanSummary) -> None:
    """Bringing a state said that the plan finds nothing to change when it changes an output."""
    job = _job("SUCCEEDED", plan)
    assert not follow.has_no_changes(job)
    assert plan_words.has_changes(plan)
    assert PlanPanel("job_1", plan, "").has_changes


@pytest.mark.feature("J11.resources")
def test_a_plan_without_changes_has_none_anywhere() -> None:
    plan = PlanSummary(unchanged=3, existing=3)
    assert follow.has_no_changes(_job("SUCCEEDED", plan))
    assert not follow.has_no_changes(_job("FAILED", None))
    assert not plan_words.has_changes(plan)
    assert not plan_words.has_changes(None)
    assert not PlanPanel("job_1", plan, "").has_changes
