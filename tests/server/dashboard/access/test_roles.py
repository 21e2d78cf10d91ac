"""The access page of a group or module shows who has which role from where, grants and revokes roles, and explains them."""

import re

import pytest

from tests.server.application import Application
from tests.server.dashboard.visitor import Visitor, logged_in, visitor

pytestmark = [pytest.mark.feature("U6.access", "X3.roles"), pytest.mark.usefixtures("jobs")]
PROD = "/dashboard/groups/payments%2Fprod/access"
MODULE = "/dashboard/modules/payments%2Fprod%2Fledger/access"


@pytest.fixture
async def admin(application: Application) -> Visitor:
    await application.person("priya", "approver", "payments")
    await application.person("elena")
    return await logged_in(application)


def row(page: str, name: str) -> str:
    """Return the row of the first table in which somebody has this name."""
    rows = re.findall(r"<tr id=.*?</tr>", page, re.DOTALL)
    return next((each for each in rows if f">{name}<" in each), "")


async def test_an_inherited_role_says_where_it_comes_from_and_is_changed_there(
    application: Application, admin: Visitor
) -> None:
    payments = await application.scalar("SELECT id FROM groups WHERE path = 'payments'")
    found = row(await admin.see(PROD), "priya")
    assert f'Group <a class="link" href="/dashboard/groups/{payments}/access">payments</a>' in found
    assert "Change in payments" in found
    assert "Revoke" not in found
    there = row(await admin.see(f"/dashboard/groups/{payments}/access"), "priya")
    assert "This group" in there
    assert "Revoke" in there


@pytest.mark.parametrize("place", [PROD, MODULE])
async def test_a_role_is_granted_with_its_effect_in_words_and_revoked(admin: Visitor, place: str) -> None:
    await admin.see(f"{place}/grant")
    effect = await admin.get(f"{place}/effect", params={"principal": "elena", "role": "approver", "days": "30"})
    modules = "1 module" if place == PROD else "payments/prod/ledger"
    assert f"elena will be able to approve plans of {modules}, including destroys, and run jobs, until " in effect.text
    assert '<span id="grant-word" hx-swap-oob="true">approver</span>' in effect.text, "the button says which role"
    unknown = await admin.get(f"{place}/effect", params={"principal": "nobody", "role": "viewer"})
    assert "There is no user and no service account" in unknown.text
    more = await admin.get(f"{place}/effect", params={"principal": "priya", "role": "viewer"})
    assert "It adds nothing while they are approver of payments." in more.text

    answer = await admin.submit(f"{place}/grant", principal="elena", role="approver", days="30")
    assert answer.status_code == 303, answer.text
    page = await admin.see(place)
    found = row(page, "elena")
    assert "by admin" in found
    assert "ends in 29 d" in found
    assert "elena loses what this role allows" in found
    revoke = re.search(r'action="([^"]+/roles/rol_\w+/revoke)"', found)
    assert revoke is not None
    assert (await admin.submit(revoke[1])).status_code == 303
    assert row(await admin.see(place), "elena") == ""


async def test_a_grant_that_is_not_possible_says_why_and_keeps_what_was_typed(admin: Visitor) -> None:
    await admin.see(f"{PROD}/grant")
    for fields, why in (
        ({"principal": "nobody", "role": "owner"}, "There is no user and no service account"),
        ({"principal": "elena", "role": "emperor"}, "is not a role"),
        ({"principal": "elena", "role": "viewer", "days": "0"}, "number of days"),
        ({"principal": "elena", "role": "viewer", "days": "²"}, "number of days"),
    ):
        answer = await admin.submit(f"{PROD}/grant", **fields)
        assert answer.status_code == 200
        assert why in answer.text, fields
        assert f'value="{fields["principal"]}"' in answer.text


async def test_check_access_answers_yes_or_no_with_the_role_that_decides_or_is_missing(admin: Visitor) -> None:
    question = {"who": "priya", "verb": "job.approve", "on": "payments/prod/ledger"}
    yes = (await admin.get(PROD, params=question)).text
    assert "<b>Yes.</b> priya may approve and decline plans in payments/prod/ledger" in yes
    assert '<li class="hit"><b>payments</b> · approver' in yes
    assert "inherits approver" in yes
    no = (await admin.get(PROD, params={**question, "verb": "access.write"})).text
    assert "<b>No.</b> priya may not grant and revoke access" in no
    assert "<b>Missing</b>" in no
    assert "admin can grant it" in no
    missing = (await admin.get(PROD, params={**question, "who": "nobody"})).text
    assert "There is no user and no service account" in missing
    assert "Yes." not in missing


async def test_check_access_names_the_limit_on_own_jobs(application: Application, admin: Visitor) -> None:
    group = await application.scalar("SELECT id FROM groups WHERE path = 'payments/prod'")
    assert (await application.admin.patch(f"/api/v1/groups/{group}", json={"self_approval": False})).status_code == 200
    question = {"who": "priya", "verb": "job.approve", "on": "payments/prod/ledger"}
    for place in ("payments/prod/ledger", "payments/prod"):
        page = (await admin.get(PROD, params=question | {"on": place})).text
        assert "Not for jobs that priya has started: <code>payments/prod</code> does not allow" in page, place


async def test_everybody_asks_about_themselves(application: Application, admin: Visitor) -> None:
    here = "/dashboard/account/access"
    priya = await logged_in(application, "priya")
    assert here in await priya.see("/dashboard/account")
    assert "verdict" not in await priya.see(here)
    yes = await priya.see(f"{here}?verb=job.approve&on=payments/prod/ledger")
    assert "<b>Yes.</b> priya may approve and decline plans in payments/prod/ledger" in yes
    no = await priya.see(f"{here}?verb=access.write&on=payments/prod")
    assert "<b>No.</b> priya may not grant and revoke access" in no
    missing = await priya.see(f"{here}?verb=job.run&on=platform")
    assert "<b>Yes.</b>" not in missing
    assert missing.split("Check access")[1].replace("platform", "X") == (
        await priya.see(f"{here}?verb=job.run&on=nothing")
    ).split("Check access")[1].replace("nothing", "X"), "a place that priya may not see is like one that does not exist"


async def test_everybody_sees_their_own_roles(application: Application, admin: Visitor) -> None:
    """Only `terracrew whoami` had them."""
    page = await (await logged_in(application, "priya")).see("/dashboard/account/access")
    assert 'Roles <span class="faint num">1</span>' in page
    assert re.findall(r'<a class="name" href="[^"]*">([^<]+)</a>', page) == ["payments"]
    assert "Change the role" not in page


async def test_a_role_is_revoked_only_on_the_page_of_the_place_that_it_is_at(
    application: Application, admin: Visitor
) -> None:
    role_id = await application.scalar("SELECT id FROM role_bindings WHERE path = 'payments'")
    payments = "/dashboard/groups/payments/access"
    await admin.see(payments)
    for place in (PROD, MODULE, "/dashboard/groups/platform/access"):
        answer = await admin.submit(f"{place}/roles/{role_id}/revoke")
        assert answer.status_code == 404, place
    assert await application.scalar("SELECT count(*) AS n FROM role_bindings WHERE id = :id", id=role_id) == 1
    assert (await admin.submit(f"{payments}/roles/{role_id}/revoke")).status_code == 303
    assert await application.scalar("SELECT count(*) AS n FROM role_bindings WHERE id = :id", id=role_id) == 0


@pytest.mark.feature("X3.roles")
async def test_who_may_not_manage_access_is_refused(application: Application, admin: Visitor) -> None:
    role_id = await application.scalar("SELECT id FROM role_bindings WHERE path = 'payments'")
    await application.person("eve", "owner", organization="elsewhere")
    people = {"priya": {403}, "elena": {404, 403}, "eve": {404}}
    for name, refused in people.items():
        someone = await logged_in(application, name)
        await someone.see("/dashboard/account")
        group = await application.scalar("SELECT id FROM groups WHERE path = 'payments/prod'")
        for path in (f"/dashboard/groups/{group}/access", MODULE):
            assert (await someone.get(path)).status_code in refused, (name, path)
            assert (await someone.get(f"{path}/grant")).status_code in refused
            asked = {"principal": "admin", "role": "owner"}
            assert (await someone.get(f"{path}/effect", params=asked)).status_code in refused
            assert (await someone.submit(f"{path}/grant", principal=name, role="owner")).status_code in refused
            assert (await someone.submit(f"{path}/roles/{role_id}/revoke")).status_code in refused
    for path in ("grant", f"roles/{role_id}/revoke"):
        answer = await admin.post(f"{PROD}/{path}", data={"principal": "elena", "role": "owner"})
        assert answer.status_code == 403, "the token of the page is missing"
        assert (await visitor(application).post(f"{PROD}/{path}")).status_code in (303, 403)
    owners = await application.scalar("SELECT count(*) AS n FROM role_bindings WHERE role = 'owner'")
    assert owners == 2, "the administrator, and the owner of the other organization"


async def test_the_owner_of_a_group_manages_access_there_and_not_above(application: Application) -> None:
    await application.person("olga", "owner", "payments/prod")
    await application.person("elena")
    someone = await logged_in(application, "olga")
    page = await someone.see(PROD)
    assert "Grant access" in page
    assert ">Access <" not in page
    assert 'href="/dashboard/access"' not in page, "only those who see the whole organization's access have the entry"
    assert (await someone.get("/dashboard/groups/payments/access")).status_code in (403, 404)
    assert (await someone.submit(f"{PROD}/grant", principal="elena", role="viewer")).status_code == 303
    root = await application.scalar(
        "SELECT id FROM groups WHERE path = '' AND organization_id = :id", id=application.server.organization_id
    )
    assert (
        await someone.submit(f"/dashboard/groups/{root}/access/grant", principal="elena", role="owner")
    ).status_code == 403
