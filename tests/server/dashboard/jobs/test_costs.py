"""Whoever decides about a plan sees there what it costs, if a hook has said so."""

import pytest

from terracrew.protocol.events import PlanCost
from tests.builders.job_rows import change_jobs
from tests.server.application import Application
from tests.server.dashboard.jobs.test_apply_plan import planned
from tests.server.dashboard.jobs.test_approvals import text_of
from tests.server.dashboard.visitor import logged_in

pytestmark = pytest.mark.feature("P3.cost")
COST = PlanCost(1120, 1185.5, "USD")
WORDS = "1,120.00 → 1,185.50 USD a month (+65.50)"


async def test_the_cost_stands_where_a_plan_is_approved(application: Application, jobs: dict[str, str]) -> None:
    someone = await logged_in(application)
    assert "a month" not in await someone.see_job(jobs["asking"])
    await change_jobs(application.server.db, jobs["asking"], cost=COST)
    page = await someone.see_job(jobs["asking"])
    assert WORDS in text_of(page, "approval")
    assert f'id="cost">{WORDS}' in page
    shown = (await application.admin.get(f"/api/v1/jobs/{jobs['asking']}")).json()
    assert shown["cost"] == {
        "type": "cost",
        "monthly_before": 1120.0,
        "monthly_after": 1185.5,
        "currency": "USD",
        "resources": [],
    }


async def test_the_cost_stands_where_the_plan_of_a_plan_job_is_applied(
    application: Application, jobs: dict[str, str]
) -> None:
    _, job = await planned(application)
    await change_jobs(application.server.db, job, cost=COST)
    someone = await logged_in(application)
    assert WORDS in text_of(await someone.see_job(job), "apply-plan")
    made = await someone.submit(f"/dashboard/jobs/{job}/apply")
    assert WORDS in await someone.see(made.headers["location"].partition("?")[0])
