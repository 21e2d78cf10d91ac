"""The page of a service account shows the issuers that it trusts, and a form adds one."""

import re

import pytest

from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in, visitor

pytestmark = [pytest.mark.feature("U6.access", "A3.policies"), pytest.mark.usefixtures("jobs")]
HERE = "/dashboard/service-accounts"


async def test_an_issuer_is_trusted_and_removed_on_the_page_of_an_account(application: Application) -> None:
    account = (await application.admin.made("/api/v1/service-accounts", {"name": "bot", "group": "payments"}))["id"]
    someone, here = await logged_in(application), f"{HERE}/{account}"
    assert "tokens of other issuers, such as those of a CI system" in await someone.see(here)
    assert "Trust an issuer for bot" in await someone.see(f"{here}/trust")
    form = {"issuer": "https://gitlab.example.com", "claims": "sub=acme/*\n\n ref = main ", "days": "30"}
    for wrong, why in (
        ({"issuer": "gitlab"}, "is not the address of an issuer"),
        ({"claims": "sub=*"}, "which everything matches"),
        ({"claims": "sub"}, "is not NAME=VALUE"),
        ({"claims": ""}, "every token of the issuer for this server would be accepted"),
        (
            {"claims": "aud=crew", "issuer": "https://gitlab.com"},
            "can get a token of https://gitlab.com for any audience",
        ),
        ({"days": "-1"}, "number of days"),
    ):
        refused = await someone.submit(f"{here}/trust", **(form | wrong))
        assert refused.status_code == 200
        assert why in refused.text
    assert (await someone.submit(f"{here}/trust", **form)).headers["location"] == here
    page = await someone.see(here)
    assert "https://gitlab.example.com" in page
    assert "ref=main<br>sub=acme/*" in page
    remove = re.search(r'action="([^"]+/trust/trp_\w+/remove)"', page)
    assert remove is not None
    assert (await someone.submit(remove[1])).status_code == 303
    assert "https://gitlab.example.com" not in await someone.see(here)
    await someone.submit(f"{here}/trust", **(form | {"claims": "aud=crew"}))
    assert "audience only" in await someone.see(here)


async def test_hostile_claims_are_text(application: Application) -> None:
    account = (await application.admin.made("/api/v1/service-accounts", {"name": "bot", "group": "payments"}))["id"]
    claims = {"<script>alert(1)</script>": '"><img src=x onerror=alert(1)>'}
    body = {"issuer": "https://gitlab.example.com", "claims": claims, "audience": "<b>"}
    await application.admin.made(f"/api/v1/service-accounts/{account}/trust-policies", body)
    page = await (await logged_in(application)).see(f"{HERE}/{account}")
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page
    assert "<img src=x" not in page


async def test_somebody_who_is_not_logged_in_sees_no_form(application: Application) -> None:
    account = (await application.admin.made("/api/v1/service-accounts", {"name": "bot", "group": "payments"}))["id"]
    assert (await visitor(application).get(f"{HERE}/{account}/trust")).status_code in (303, 401)
