"""Service accounts are created, given secrets that are shown once, and deleted on their pages."""

import re

import pytest

from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in, visitor

pytestmark = [pytest.mark.feature("U6.access"), pytest.mark.usefixtures("jobs")]
HERE = "/dashboard/service-accounts"


async def test_an_account_gets_a_secret_that_is_shown_once_and_works_until_it_is_revoked(
    application: Application,
) -> None:
    someone = await logged_in(application)
    await someone.see(f"{HERE}/create")
    answer = await someone.submit(f"{HERE}/create", name="ci-ledger", group="payments/prod")
    assert answer.status_code == 303, answer.text
    page = answer.headers["location"]
    assert (
        "There is a service account"
        in (await someone.submit(f"{HERE}/create", name="ci-ledger", group="payments/prod")).text
    )
    assert "not a valid name" in (await someone.submit(f"{HERE}/create", name="No", group="")).text
    account = page.rpartition("/")[2]
    assert ">ci-ledger<" in await someone.see(HERE)
    assert ">ci-ledger<" not in await someone.see(f"{HERE}?group=platform")

    shown = (await someone.submit(f"{page}/secret", days="30")).text
    secret = re.search(r'id="client-secret"[^>]*>(tcs_[\w-]+)<', shown)
    assert secret is not None
    client = f"{application.server.organization_id}:{account}"
    form = {"grant_type": "client_credentials", "client_id": client, "client_secret": secret[1]}
    assert (await application.stranger().post("/connect/token", data=form)).status_code == 200
    detail = await someone.see(page)
    assert secret[1] not in detail, "it is shown only once"
    assert "in 29 d" in detail
    revoke = re.search(r'action="([^"]+/secrets/sec_\w+/revoke)"', detail)
    assert revoke is not None
    assert (await someone.submit(revoke[1])).status_code == 303
    assert (await application.stranger().post("/connect/token", data=form)).status_code == 401
    assert "number of days" in (await someone.submit(f"{page}/secret", days="-1")).text


async def test_an_account_shows_its_roles_and_runners_and_what_its_deletion_does(application: Application) -> None:
    account = await application.admin.made("/api/v1/service-accounts", {"name": "bot", "group": "payments"})
    role = {"principal": account["id"], "role": "operator", "path": "payments/prod"}
    await application.admin.made("/api/v1/roles", role)
    runner = {"name": "edge", "group": "payments", "service_account": account["id"]}
    await application.admin.made("/api/v1/runners", runner)
    someone = await logged_in(application)
    page = await someone.see(f"{HERE}/{account['id']}")
    assert ">payments/prod</a>" in page
    assert "Operator" in page
    assert ">payments/edge</a>" in page
    assert "1 runner that it serves cannot take jobs" in page
    assert (await someone.submit(f"{HERE}/{account['id']}/delete")).status_code == 303
    await someone.see(f"{HERE}/{account['id']}", 404)


async def test_an_account_is_disabled_enabled_and_renamed_with_the_consequence_in_words(
    application: Application,
) -> None:
    account = (await application.admin.made("/api/v1/service-accounts", {"name": "bot", "group": "payments"}))["id"]
    await application.admin.made("/api/v1/service-accounts", {"name": "other", "group": "payments"})
    secret = await application.admin.made(f"/api/v1/service-accounts/{account}/secrets", {})
    runner = {"name": "edge", "group": "payments", "service_account": account}
    await application.admin.made("/api/v1/runners", runner)
    form = {"grant_type": "client_credentials", **{name: secret[name] for name in ("client_id", "client_secret")}}
    someone, here = await logged_in(application), f"{HERE}/{account}"
    page = await someone.see(here)
    assert "1 secret is refused, and programs and runners that are connected with it are disconnected" in page
    assert "1 runner that it serves cannot take jobs meanwhile" in page
    assert (await someone.submit(f"{here}/disable", on="true")).status_code == 303
    assert (await application.stranger().post("/connect/token", data=form)).status_code == 401
    page = await someone.see(here)
    assert '<span class="tag">disabled</span>' in page
    assert "Its 1 secret can be used again, with its 0 roles." in page
    assert (await someone.submit(f"{here}/disable", on="false")).status_code == 303
    assert (await application.stranger().post("/connect/token", data=form)).status_code == 200

    assert "<code>payments/bot</code>" in await someone.see(f"{here}/rename")
    for name, why in (("Bad name", "is not a valid name"), ("other", "There is a service account"), ("", "valid name")):
        refused = await someone.submit(f"{here}/rename", name=name)
        assert refused.status_code == 200
        assert why in refused.text
    assert (await someone.submit(f"{here}/rename", name="robot")).headers["location"] == here
    assert "<h1>robot</h1>" in await someone.see(here)
    actions = [entry["action"] for entry in await application.admin.listed("/api/v1/audit", target=account)]
    assert {"service_account.disable", "service_account.enable", "service_account.rename"} <= set(actions)


@pytest.mark.feature("X3.roles")
async def test_who_may_not_manage_access_sees_and_changes_no_service_account(application: Application) -> None:
    account = (await application.admin.made("/api/v1/service-accounts", {"name": "bot", "group": "payments"}))["id"]
    secret = (await application.admin.made(f"/api/v1/service-accounts/{account}/secrets", {}))["id"]
    await application.person("otto", "operator", "payments")
    await application.person("eve", "owner", organization="elsewhere")
    changes = [f"{HERE}/{account}/secret", f"{HERE}/{account}/secrets/{secret}/revoke", f"{HERE}/{account}/delete"]
    changes += [f"{HERE}/{account}/rename"]
    for name, refused in (("otto", 403), ("eve", 404)):
        someone = await logged_in(application, name)
        await someone.see("/dashboard/account")
        assert (await someone.get(f"{HERE}/{account}")).status_code == refused
        for path in changes:
            assert (await someone.submit(path)).status_code == refused, (name, path)
    otto = await logged_in(application, "otto")
    assert (await otto.get(HERE)).status_code == 403
    assert (await otto.get(f"{HERE}/create")).status_code == 403
    admin = await logged_in(application)
    for path in [*changes, f"{HERE}/create"]:
        assert (await admin.post(path, data={"name": "x"})).status_code == 403, "the token of the page is missing"
        assert (await visitor(application).post(path)).status_code in (303, 403)
    assert await application.scalar("SELECT count(*) AS n FROM service_account_secrets") == 1
    assert ">bot<" not in await (await logged_in(application, "eve")).see(HERE)
