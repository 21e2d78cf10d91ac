"""Two walks on pages: a policy is tried on earlier plans before it is activated, and a module is published, read and withdrawn."""

import json

import msgspec
import pytest
from playwright.async_api import Page, expect

from terracrew.plan_diff import plan_json
from terracrew.plan_diff.plan_json import PlanJson
from terracrew.server.db.seam import Tx
from terracrew.server.identity.people import service as identity
from terracrew.server.identity.people import sessions, store
from terracrew.server.jobs.plans import json_store
from terracrew.server.jobs.plans.json_store import StoredPlanJson
from tests.conftest import SQLITE_AT_LEAST
from tests.machine import platforms
from tests.server.application import Person
from tests.server.dashboard.browser.looks import look
from tests.server.dashboard.company.kept_plans import kept_plan
from tests.server.dashboard.company.rows import Company
from tests.server.dashboard.company.stage import Stage
from tests.server.registry.publisher import publish
from tests.server.tree.modules.packed_modules import packed

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.browser,
    pytest.mark.parametrize("stage", SQLITE_AT_LEAST, indirect=True),
]
REGO = """package terracrew

deny contains sprintf("%s is deleted", [change.address]) if {
    some change in input.plan.resource_changes
    "delete" in change.change.actions
}
"""
MAIN = b"""variable "zone" {
  type        = string
  description = "Where it is"
}
output "address" { value = var.zone }
"""
README = b"# A network\n\nIt has **one** zone.\n\n<script>window.pwned = 1</script>\n"


async def planned(stage: Stage, path: str, action: str) -> None:
    """A job that has planned to do this to one resource, with the JSON of its plan."""
    plan = {"resource_changes": [{"address": "terraform_data.a", "change": {"actions": [action]}}]}
    content = plan_json.pack(PlanJson(msgspec.Raw(json.dumps(plan).encode())))

    async def work(tx: Tx) -> None:
        made = Company(tx, stage.server.organization_id, stage.user_id)
        made.number = 7000 + len(path)
        module, job = await kept_plan(made, stage.server.keys, path)
        await json_store.keep(tx, StoredPlanJson(job, 1, module, "0" * 64, content), stage.server.keys)

    await stage.server.db.write(work)


@pytest.mark.platform("opa")
@pytest.mark.feature("P3.tried")
async def test_a_policy_is_activated_after_it_was_tried_on_earlier_plans(page: Page, stage: Stage) -> None:
    platforms.need("opa")
    await planned(stage, "data/lake", "delete")
    await planned(stage, "data/reports", "create")
    await page.goto("/dashboard/policies/create?place=data")
    await page.get_by_label("Name", exact=True).fill("no-deletions")
    await page.get_by_label("Rego").fill(REGO)
    await page.get_by_role("button", name="Try on earlier plans").click()
    await expect(page.locator("#trial")).to_contain_text("It would have stopped 1 of the last 2 plans.")
    await expect(page.locator("#trial")).to_contain_text("data/lake")
    await expect(page.locator("#trial")).to_be_in_viewport()
    await expect(page.get_by_label("Rego")).to_have_value(REGO)
    await look(page, "policy-trial")
    await page.get_by_role("button", name="Add policy").click()
    await expect(page.locator("h1")).to_have_text("no-deletions")
    await expect(page.locator("header .st")).to_have_text("Draft")
    await page.get_by_role("button", name="Activate…").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("It looks at every plan of data before it is applied")
    await dialog.get_by_role("button", name="Activate").click()
    await expect(page.locator("header .st")).to_have_text("Active")
    await look(page, "policy-active")
    await page.goto("/dashboard/policies?place=data")
    await expect(page.locator("tr", has_text="no-deletions")).to_contain_text("Active")


@pytest.mark.feature("P7.pages")
async def test_a_module_is_published_its_version_appears_is_read_and_withdrawn(page: Page, stage: Stage) -> None:
    await page.goto("/dashboard/groups/data")
    await page.get_by_role("link", name="Publish").click()
    await page.get_by_label("Name", exact=True).fill("lake")
    await page.get_by_label("System").fill("aws")
    await page.get_by_role("button", name="Publish").click()
    await expect(page.locator("h1")).to_have_text("lake/aws")
    await expect(page.locator(".empty")).to_contain_text("No version yet")
    await expect(page.get_by_text("terracrew registry publish DIR data/lake/aws 1.0.0")).to_be_visible()
    published = await publish(await administrator(stage), "data/lake/aws", "1.0.0", MAIN, ("README.md", README))
    assert published.status_code == 201, published.text
    await expect(page.locator("#usage")).to_contain_text("~> 1.0")  # without a reload
    await expect(page.get_by_text("No version yet")).to_have_count(0)
    await expect(page.locator(".md")).to_contain_text("It has one zone.")
    assert await page.evaluate("window.pwned") is None
    await expect(page.locator("section", has=page.locator("#main-inputs"))).to_contain_text("Where it is")
    await look(page, "published")
    await publish_another(page)
    await page.get_by_role("link", name="Withdraw version 1.0.0").click()
    await page.get_by_label("Reason").fill("it is slow")
    await look(page, "published-withdrawal")
    await page.get_by_role("button", name="Withdraw 1.0.0").click()
    await expect(page.locator(".notice")).to_contain_text("This version is withdrawn, so no engine gets it. It is slow")
    await page.get_by_role("button", name="Give back version 1.0.0").click()
    await expect(page.get_by_text("This version is withdrawn")).to_be_hidden()
    await page.goto("/dashboard/registry?q=lake")
    await expect(page.get_by_role("link", name="data/lake/aws")).to_be_visible()


async def publish_another(page: Page) -> None:
    """Publish an archive on the page: first with a number that other files have, then, without another upload, with a free one."""
    await page.get_by_role("link", name="Publish a version").click()
    form = page.locator("#publish-version")
    await expect(form).to_be_in_viewport()
    await form.get_by_label("Version").fill("1.0.0")
    await form.get_by_role("button", name="Publish").click()
    await expect(form.get_by_role("alert")).to_have_text(["Choose an archive, and wait until it is uploaded."])
    await look(page, "publish-nothing")
    packed_files = packed(("main.tf", MAIN), ("outputs.tf", b'output "zone" { value = var.zone }\n'))
    await form.get_by_label("Archive").set_input_files(
        {"name": "lake.tar.gz", "mimeType": "application/gzip", "buffer": packed_files}
    )
    await expect(form.get_by_text("lake.tar.gz is uploaded")).to_be_visible()
    await form.get_by_role("button", name="Publish").click()
    await expect(form.get_by_role("alert").first).to_contain_text("publish these files under another number")
    await expect(form.get_by_label("Version")).to_have_value("1.0.0")
    await look(page, "publish-version")
    await form.get_by_label("Version").fill("1.1.0")
    await form.get_by_label("Version").press("Enter")
    await page.wait_for_url("**?version=1.1.0")
    await expect(page.locator("#usage")).to_contain_text("~> 1.1")


async def administrator(stage: Stage) -> Person:
    """The person who is logged in, as a program with a token."""
    user = await stage.server.db.read(lambda tx: store.user(tx, stage.user_id))
    _, token = await identity.create_token(stage.server.db, sessions.person(user, None), "test", None)
    return Person(base_url=stage.url, headers={"Authorization": f"Bearer {token.text}"})
