"""The page of a PLAN job lets people apply exactly its plan, or says why that is not possible."""

from collections.abc import Awaitable, Callable
from functools import partial
from urllib.parse import urlsplit

import pytest

from terracrew.protocol.events import PlanSummary
from terracrew.protocol.spec import LocalSource
from terracrew.server.db.seam import Database, Tx
from tests.builders.job_rows import change_groups, change_modules, change_plans
from tests.server.application import Application
from tests.server.dashboard.company import kept_plans
from tests.server.dashboard.company.rows import Company
from tests.server.dashboard.visitor import logged_in

pytestmark = pytest.mark.feature("J8.plan-first", "U5.page")


async def planned(
    application: Application, summary: PlanSummary = kept_plans.CHANGES_TWO, *, is_destroy_plan: bool = False
) -> tuple[str, str]:
    server = application.server

    async def work(tx: Tx) -> tuple[str, str]:
        made = Company(tx, server.organization_id, application.admin.principal.id)
        made.number = 800
        return await kept_plans.kept_plan(
            made, server.keys, "platform/edge/planned", summary, is_destroy_plan=is_destroy_plan
        )

    return await server.db.write(work)


async def test_a_plan_is_applied_from_its_page_and_both_pages_name_each_other(
    application: Application, jobs: dict[str, str]
) -> None:
    _, job = await planned(application)
    someone = await logged_in(application)
    page = await someone.see_job(job)
    assert "Apply this plan" in page
    made = await someone.submit(f"/dashboard/jobs/{job}/apply")
    assert made.status_code == 303
    there = urlsplit(made.headers["location"]).path
    applying = await someone.see(there)
    assert f'made by <a href="/dashboard/jobs/{job}">' in applying
    assert "+1 to add" in applying
    assert "Approved by" not in applying
    again = await someone.see_job(job)
    assert "Apply this plan" not in again
    assert f'href="{there}">Job #' in again


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (partial(change_modules, state_version=99), "the state of the module has changed"),
        (partial(change_modules, source=LocalSource("/srv/z")), "the source of the module has changed"),
        (partial(change_plans, decide_by=1), "is no longer kept"),
        (lambda db: db.write(lambda tx: tx.run("DELETE FROM plans")), "was not saved"),
    ],
    ids=["state", "source", "late", "absent"],
)
async def test_a_plan_that_cannot_be_applied_says_why_and_offers_a_new_one(
    application: Application, jobs: dict[str, str], change: Callable[[Database], Awaitable[None]], words: str
) -> None:
    _, job = await planned(application)
    await change(application.server.db)
    page = await (await logged_in(application)).see_job(job)
    assert words in page
    assert 'id="plan-again"' in page
    assert 'id="apply-job"' not in page


async def test_a_plan_with_nothing_to_do_says_so_and_offers_nothing(
    application: Application, jobs: dict[str, str]
) -> None:
    _, job = await planned(application, kept_plans.CHANGES_NOTHING)
    page = await (await logged_in(application)).see_job(job)
    assert "There is nothing to apply: this plan changes nothing." in page
    assert 'id="apply-job"' not in page
    assert 'id="plan-again"' not in page


async def test_a_destroy_plan_is_applied_by_a_destroy_and_names_what_it_destroys(
    application: Application, jobs: dict[str, str]
) -> None:
    _, job = await planned(application, kept_plans.DESTROYS_TWO, is_destroy_plan=True)
    someone = await logged_in(application)
    assert "Destroy 2 resources" in await someone.see_job(job)
    refused = await someone.submit(f"/dashboard/jobs/{job}/apply")
    assert refused.status_code == 400
    made = await someone.submit(f"/dashboard/jobs/{job}/apply", is_destroy="true")
    assert made.status_code == 303
    assert "Destroy <span" in await someone.see(urlsplit(made.headers["location"]).path)


async def test_the_page_says_who_else_must_approve(application: Application, jobs: dict[str, str]) -> None:
    _, job = await planned(application)
    await change_groups(application.server.db, "platform", min_approvals=2)
    someone = await logged_in(application)
    assert (
        "2 people must approve it, because platform requires it; your request counts as one"
        in await someone.see_job(job)
    )
    made = await someone.submit(f"/dashboard/jobs/{job}/apply")
    waiting = await someone.see(urlsplit(made.headers["location"]).path)
    assert "1 of 2" in waiting
