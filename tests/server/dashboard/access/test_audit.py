"""The audit log page shows who changed what, filters and pages it, links to what was changed, and exports what matches."""

import html
import re

import pytest

from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in

pytestmark = pytest.mark.feature("U6.access", "X3.audit")
HERE = "/dashboard/audit"


async def test_changes_are_filtered_and_lead_to_what_was_changed(application: Application) -> None:
    group = await application.admin.made("/api/v1/groups", {"path": "payments"})
    await application.admin.made("/api/v1/groups", {"path": "payments/prod"})
    await application.admin.made("/api/v1/groups", {"path": "data"})
    olga = await application.person("olga", "owner")
    await olga.made("/api/v1/roles", {"principal": "olga", "role": "viewer", "path": "payments/prod"})
    someone = await logged_in(application)
    page = await someone.see(HERE)
    assert f'href="/dashboard/groups/{group["id"]}">group payments<' in page
    for query, shown, hidden in (
        ("actor=olga", "role.grant", "group.create"),
        ("action=group", "group.create", "role.grant"),
        ("action=role.grant", "role.grant", "group.create"),
        ("path=payments/prod", "group payments/prod", "group data"),
        ("text=data", "group data", "group payments/prod"),
        ("until=2020-01-01", "No change matches", "group.create"),
        ("since=2020-01-01&until=2199-12-31", "group.create", "No change matches"),
    ):
        rows = (await someone.see(f"{HERE}?{query}")).partition('aria-label="Changes"')[2]
        assert shown in rows, query
        assert f">{hidden}<" not in rows, query
    granted = await someone.see(f"{HERE}?action=role.grant")
    assert "Made olga viewer of payments/prod." in granted
    assert 'href="/dashboard/groups/payments%2Fprod/access"' in granted
    assert f'href="/dashboard/users/{olga.principal.id}"' in granted


async def test_an_entry_about_an_input_or_a_job_names_the_place_and_the_number(application: Application) -> None:
    """A secret BACKUP_KEY of a group was shown as "group BACKUP_KEY", and a job by its id."""
    admin = application.admin
    await admin.made("/api/v1/groups", {"path": "payments"})
    source = {"kind": "local", "path": "/srv/sources/x"}
    await admin.made("/api/v1/modules", {"path": "payments/app", "source": source})
    for place in ("payments", "payments/app"):
        answer = await admin.post("/api/v1/inputs", json={"place": place, "name": "region", "value": "eu-1"})
        assert answer.is_success, answer.text
    job = await admin.made("/api/v1/modules/payments%2Fapp/jobs", {"type": "PLAN"})
    rows = (await (await logged_in(application)).see(HERE)).partition('aria-label="Changes"')[2]
    assert ">module payments/app<" in rows
    assert ">group payments<" in rows
    assert f">job #{job['number']}<" in rows
    assert f"Queued job #{job['number']} of payments/app: plan." in rows
    assert ">group region<" not in rows
    assert ">module region<" not in rows


async def test_the_export_has_what_the_filters_match(application: Application) -> None:
    for path in ("payments", "data"):
        await application.admin.made("/api/v1/groups", {"path": path})
    someone = await logged_in(application)
    page = await someone.see(f"{HERE}?path=payments&since=2020-01-01")
    link = re.search(r'href="(/api/v1/audit/export\?[^"]*format=csv[^"]*)"', page)
    assert link is not None
    exported = (await someone.get(html.unescape(link[1]))).text
    assert "payments" in exported
    assert "data" not in exported.partition("\n")[2]


async def test_a_long_log_is_shown_in_pages(application: Application) -> None:
    for number in range(55):
        await application.admin.made("/api/v1/groups", {"path": f"group-{number:02}"})
    someone = await logged_in(application)
    first = await someone.see(f"{HERE}?action=group.create")
    assert ">group group-54<" in first
    assert ">group group-00<" not in first
    older = re.search(r'rel="next" href="([^"]+)"', first)
    assert older is not None
    second = await someone.see(html.unescape(older[1]))
    assert ">group group-00<" in second
    assert ">group group-54<" not in second


async def test_a_filter_that_is_no_filter_is_refused_with_a_reason(application: Application) -> None:
    someone = await logged_in(application)
    assert "is not a day" in await someone.see(f"{HERE}?since=yesterday", 400)
    assert "is not a day" in await someone.see(f"{HERE}?until=2026-13-01", 400)
    assert "not a cursor" in await someone.see(f"{HERE}?after=%C3%A9", 400)
    await someone.see(f"{HERE}?text={'x' * 300}", 400)
    assert "&lt;script&gt;" in await someone.see(f"{HERE}?actor=<script>")


@pytest.mark.feature("X3.roles")
async def test_the_log_is_for_owners_of_what_it_is_about(application: Application) -> None:
    for path in ("payments", "data"):
        await application.admin.made("/api/v1/groups", {"path": path})
    await application.person("otto", "approver")
    await application.person("olga", "owner", "payments")
    await application.person("eve", "owner", organization="elsewhere")
    assert (await (await logged_in(application, "otto")).get(HERE)).status_code == 403
    olga = await logged_in(application, "olga")
    assert (await olga.get(HERE)).status_code == 403
    assert (await olga.get(f"{HERE}?path=data")).status_code in (403, 404)
    own = await olga.see(f"{HERE}?path=payments")
    assert "group payments" in own
    assert "group data" not in own
    assert "payments" not in (await (await logged_in(application, "eve")).see(HERE)).partition("Changes")[2]
