"""Jobs are listed page by page, and found by the path of their module or by their number."""

import re

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
