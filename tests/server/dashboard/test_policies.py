"""The pages of policies: made and tried in a form with its mistakes, activated, changed, retired and deleted."""

import html
import re

import pytest

from tests.server.application import Application, on_one
from tests.server.dashboard.visitor import logged_in

pytestmark = [on_one, pytest.mark.platform("opa"), pytest.mark.feature("P3.refused", "P3.tried")]
HERE = "/dashboard/policies"
REGO = 'package terracrew\n\ndeny contains "no" if input.plan.no\n'


async def test_a_policy_is_made_tried_activated_changed_and_deleted(application: Application) -> None:
    someone = await logged_in(application)
    assert "deny contains" in await someone.see(f"{HERE}/create")
    answer = await someone.submit(f"{HERE}/create", place="", name="rule", rego="package terracrew\nx := 1\n")
    assert answer.status_code == 200
    assert "there is no rule" in answer.text.lower()
    answer = await someone.submit(f"{HERE}/create/test", place="", name="rule", rego=REGO)
    assert "No plan is kept here yet" in answer.text
    typed = {
        "name": "rule",
        "enforcement": "approvers",
        "approvals": "2",
        "role": "owner",
        "time_zone": "Europe/Berlin",
    }
    answer = await someone.submit(f"{HERE}/create", place="", rego=REGO, **typed)
    assert answer.status_code == 303, answer.text
    address = answer.headers["location"]
    page = await someone.see(address)
    assert "needs 2 approvals by the role owner" in page
    assert "Draft" in page
    assert (await someone.submit(f"{address}/activate", version="1")).status_code == 303
    assert "Active" in await someone.see(address)
    answer = await someone.submit(f"{address}/versions", rego=REGO.replace("no", "never"))
    assert answer.headers["location"] == f"{address}?version=2"
    assert "never" in await someone.see(f"{address}?version=2")
    assert "1 of 2" in await someone.see(address)
    assert (await someone.submit(address, enforcement="advisory")).status_code == 303
    assert "is only shown" in await someone.see(address)
    answer = await someone.submit(address, time_zone="Nowhere")
    assert "is not a time zone" in answer.text
    group = await application.scalar("SELECT id FROM groups WHERE path = ''")
    assert address in await someone.see(f"/dashboard/groups/{group}")
    assert address in await someone.see(HERE)
    assert (await someone.submit(f"{address}/retire")).status_code == 303
    assert "Retired" in await someone.see(address)
    answer = await someone.submit(f"{address}/delete")
    assert answer.headers["location"] == f"/dashboard/groups/{group}"
    await someone.see(address, 404)


async def test_the_page_of_a_module_lists_what_looks_at_its_plans_and_adds_a_policy_of_its_own(
    application: Application,
) -> None:
    """Only pages of groups did, so a policy of a module could be made by the command line alone."""
    someone = await logged_in(application)
    await application.admin.made("/api/v1/policies", {"name": "of-all", "rego": REGO})
    await application.admin.made("/api/v1/groups", {"path": "web"})
    path, source = "web/shop", {"kind": "git", "url": "https://git.example.com/net"}
    module = (await application.admin.made("/api/v1/modules", {"path": path, "source": source}))["id"]
    page = await someone.see(f"/dashboard/modules/{module}")
    assert "of-all" in page
    add = re.search(r'id="add-policy" href="([^"]+)"', page)
    assert add is not None
    assert f"A policy of {path}" in await someone.see(html.unescape(add[1]))
    made = await someone.submit(f"{HERE}/create", place=path, name="own", rego=REGO)
    assert f">{path}</a>" in await someone.see(made.headers["location"])
    assert made.headers["location"] in await someone.see(f"/dashboard/modules/{module}")
