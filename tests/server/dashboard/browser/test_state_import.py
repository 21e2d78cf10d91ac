"""An owner brings the state of an existing configuration, replaces it, and takes it back, in a real browser."""

import json
import re

import pytest
from playwright.async_api import Page, expect

from terracrew.server.db.seam import Tx
from tests.conftest import SQLITE_AT_LEAST
from tests.server.dashboard.browser.looks import look
from tests.server.dashboard.company.rows import Company
from tests.server.dashboard.company.stage import Stage

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.browser,
    pytest.mark.feature("J15.imported"),
    pytest.mark.parametrize("stage", SQLITE_AT_LEAST, indirect=True),
]


def state(serial: int, lineage: str = "estate") -> dict[str, object]:
    names = [f"n{number}" for number in range(3 + serial)]
    resources = [
        {"mode": "managed", "type": "terraform_data", "name": name, "instances": [{"attributes": {"id": name}}]}
        for name in names
    ]
    content = {"version": 4, "serial": serial, "lineage": lineage, "resources": resources}
    return {"name": "state.json", "mimeType": "application/json", "buffer": json.dumps(content).encode()}


async def test_a_state_is_imported_replaced_and_restored_on_pages(page: Page, stage: Stage) -> None:
    async def work(tx: Tx) -> str:
        return await Company(tx, stage.server.organization_id, stage.user_id).module("moved-in")

    module = await stage.server.db.write(work)
    here = f"/dashboard/modules/{module}"
    await page.goto(here)
    await page.get_by_role("link", name="Import a state").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Import a state into moved-in")
    await look(page, "import-state")
    refused = await page.context.new_page()  # its console may say that the state was refused
    await refused.goto(f"{here}/import-state")
    wrong = {"name": "wrong.json", "mimeType": "application/json", "buffer": b"{}"}
    await refused.get_by_label("State", exact=True).set_input_files(wrong)  # pyright: ignore[reportArgumentType]
    await refused.get_by_role("button", name="Import").click()
    await expect(refused.get_by_role("alert")).to_contain_text("wrong.json was not accepted: this is not a state")
    await refused.close()
    await page.get_by_label("State", exact=True).set_input_files(state(7))  # pyright: ignore[reportArgumentType]
    await page.get_by_role("button", name="Import").click()
    await page.wait_for_url(re.compile(f"{here}#states"))
    versions = page.locator("#states tbody tr")
    await expect(versions).to_have_count(1)
    await expect(versions.first).to_contain_text("imported")
    await expect(versions.first).to_contain_text("10")
    await page.goto(f"{here}/import-state")
    await page.get_by_label("State", exact=True).set_input_files(state(2, "other"))  # pyright: ignore[reportArgumentType]
    await page.get_by_label("Replace the current state").check()
    await page.get_by_role("button", name="Import").click()
    await page.wait_for_url(re.compile(f"{here}#states"))
    await expect(versions).to_have_count(2)
    await versions.nth(1).get_by_role("button", name="Restore version").click()
    await expect(page.get_by_role("dialog")).to_contain_text("Resources are not touched")
    await page.get_by_role("button", name="Restore it").click()
    await expect(versions).to_have_count(3)
    await expect(versions.first).to_contain_text("restored")
    await look(page, "restored-state")
