"""Jobs are listed page by page, and found by the path of their module or by their number."""

import re
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from terracrew.protocol.events import PlanSummary, ResourceChange
from terracrew.protocol.spec import JobType
from terracrew.server.db.seam import Tx
from tests.server.application import Application
from tests.server.dashboard.company.rows import Company
from tests.server.dashboard.visitor import logged_in


async def test_a_job_is_found_by_its_number_and_lists_go_on_page_by_page(application: Application) -> None:
    async def work(tx: Tx) -> None:
        made = Company(tx, application.server.organization_id, application.admin.principal.id)
        module = await made.module("many")
        for _ in range(60):
            await made.job(module, JobType.PLAN, "SUCCEEDED")

    await application.server.db.write(work)
    someone = await logged_in(application)
    page = await someone.see("/dashboard/jobs")
    seen = set(re.findall(r"row-(job_\w+)", page))
    older = re.search(r'rel="next" href="([^"]+)"', page)
    assert older
    rest = await someone.see(older[1].replace("&amp;", "&"))
    assert (len(seen), len(set(re.findall(r"row-(job_\w+)", rest)) - seen)) == (50, 10)
    by_number = await someone.get("/dashboard/jobs?module=%23401", follow_redirects=True)
    assert "#401" in by_number.text
    assert (await someone.get("/dashboard/jobs/401")).status_code == 303


async def test_jobs_are_found_by_the_paths_of_modules_alone(application: Application) -> None:
    """A search for `gateway` listed jobs of platform/network, whose description has the word but is not on the page."""

    async def work(tx: Tx) -> None:
        made = Company(tx, application.server.organization_id, application.admin.principal.id)
        for path, description in (("network", "subnets and a gateway"), ("gateway", "")):
            await made.job(await made.module(path, description), JobType.PLAN, "SUCCEEDED")

    await application.server.db.write(work)
    someone = await logged_in(application)
    assert len(re.findall(r'id="row-job_\w+', await someone.see("/dashboard/jobs?module=gatew"))) == 1
    modules = await someone.see("/dashboard/modules?q=gatew")
    assert ("network" in modules, "subnets and a gateway" in modules) == (True, True)


PLAN = PlanSummary(add=4, change=2, destroy=3, resources=[ResourceChange("a.b", "create")] * 2_000)


async def fleet(application: Application) -> None:
    """Make three jobs: a PLAN by the admin on one runner, and an APPLY and a declined DESTROY by another person."""

    async def work(tx: Tx) -> None:
        made = Company(tx, application.server.organization_id, application.admin.principal.id)
        module, runner = await made.module("net/vpc"), await made.runner("edge")
        plan = msgspec.json.encode(PLAN).decode()
        await made.job(module, JobType.PLAN, "SUCCEEDED", runner_id=runner, plan=plan)
        await made.job(module, JobType.APPLY, "FAILED", created_by=ada.id)
        nothing = msgspec.json.encode(PlanSummary()).decode()
        await made.job(module, JobType.DESTROY, "DECLINED", created_by=ada.id, finished_at=made.now, plan=nothing)

    ada = (await application.person("ada", "operator")).principal
    await application.server.db.write(work)


def numbers(page: str) -> list[str]:
    return re.findall(r'class="sub">\w+ #(\d+)', page)


@pytest.mark.feature("U2.jobs")
async def test_jobs_are_filtered_by_type_person_runner_and_day(application: Application) -> None:
    await fleet(application)
    someone = await logged_in(application)
    today, tomorrow = datetime.now(UTC).date(), datetime.now(UTC).date() + timedelta(days=1)
    found = {
        query: numbers(await someone.see(f"/dashboard/jobs?{query}"))
        for query in (
            "type=APPLY",
            "who=ada",
            "who=ada&status=FAILED",
            "who=nobody",
            "runner=edge",
            "runner=edge&type=APPLY",
            f"since={today - timedelta(days=1)}",
            f"since={tomorrow + timedelta(days=1)}",
            f"until={today - timedelta(days=1)}",
            f"until={tomorrow}&type=PLAN&module=net/vpc",
            "since=no-day&type=no-type",
        )
    }
    assert list(found.values()) == [
        ["402"],
        ["403", "402"],
        ["402"],
        [],
        ["401"],
        [],
        ["403", "402", "401"],
        [],
        [],
        ["401"],
        ["403", "402", "401"],
    ]
    empty = await someone.see("/dashboard/jobs?who=nobody")
    assert "No job matches all of the filters." in empty
    assert '<details class="filtering" id="filtering" open>' in empty


@pytest.mark.feature("U2.jobs")
async def test_the_filters_are_those_of_the_api_and_of_a_reader_with_few_modules(application: Application) -> None:
    await fleet(application)
    listed = await application.admin.listed("/api/v1/jobs", type="APPLY", who="ada")
    assert [each["number"] for each in listed] == [402]
    early = {"until": (datetime.now(UTC) - timedelta(hours=1)).isoformat()}
    assert await application.admin.listed("/api/v1/jobs", **early) == []
    assert len(await application.admin.listed("/api/v1/jobs", since="0001-01-01T00:00:00")) == 3
    await application.person("vera", "viewer", "net")
    vera = await logged_in(application, "vera")
    page = await vera.see("/dashboard/jobs?who=ada")
    assert numbers(page) == ["403", "402"]
    assert "Run a module" not in page, "a viewer may run none"
    assert "Run a module" in await (await logged_in(application)).see("/dashboard/jobs")


@pytest.mark.feature("U2.jobs")
async def test_rows_have_the_counts_of_the_plan_and_declined_jobs_have_a_tab(application: Application) -> None:
    """What a job changes was on its own page only, and declined jobs were under no tab."""
    await fleet(application)
    someone = await logged_in(application)
    page = await someone.see("/dashboard/jobs")
    for words in ("+4<span", "~2<span", "−3<span", ">no changes<"):
        assert words in page
    assert page.count('class="counts"') == 2, "a job without a plan has none"
    declined = await someone.see("/dashboard/jobs?status=DECLINED")
    assert numbers(declined) == ["403"]
    assert 'aria-current="true">Declined<' in declined
