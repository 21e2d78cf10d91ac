"""Cloud logins on the pages of a group and a module."""

import pytest

from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in

ROLE = "arn:aws:iam::111122223333:role"
CLOUD = {"aws": {"plan_role": f"{ROLE}/plan", "apply_role": f"{ROLE}/apply"}}
FIELDS = {"cloud.aws.plan_role": f"{ROLE}/plan", "cloud.aws.apply_role": f" {ROLE}/apply "}


@pytest.mark.feature("X4.identity", "U6.tree")
async def test_an_owner_sets_cloud_identities_on_the_pages_of_a_group_and_of_a_module(application: Application) -> None:
    admin = application.admin
    group = await admin.made("/api/v1/groups", {"path": "net"})
    source = {"kind": "local", "path": "/srv/sources"}
    module = await admin.made("/api/v1/modules", {"path": "net/vpc", "source": source})
    someone = await logged_in(application)
    settings = f"/dashboard/groups/{group['id']}/settings"
    await someone.see(settings)
    answer = await someone.submit(f"{settings}/cloud", **FIELDS)
    assert answer.status_code == 303, answer.text
    assert (await admin.get("/api/v1/groups/net")).json()["cloud"] == CLOUD
    assert f"{ROLE}/plan" in await someone.see(settings), "the form shows what is set"
    settings = f"/dashboard/modules/{module['id']}/settings"
    assert "In net: aws." in await someone.see(settings), "the form names the identities above"
    for wrong, field, words in (
        (FIELDS | {"cloud.aws.apply_role": ""}, "cloud-aws-apply-role", "Amazon Web Services needs this"),
        (
            FIELDS | {"cloud.aws.plan_role": "role/plan"},
            "cloud-aws-plan-role",
            "This is not valid: write it like arn:aws",
        ),
        (
            {"cloud.vault.address": "ftp://vault", "cloud.vault.plan_role": "a", "cloud.vault.apply_role": "b"},
            "cloud-vault-address",
            "vault.example",
        ),
    ):
        refused = (await someone.submit(f"{settings}/cloud", **wrong)).text
        message = refused.partition(f'id="{field}-wrong" role="alert">')[2].partition("</span>")[0]
        assert words in message
        assert '<details class="more" id="cloud-aws" open>' in refused or "cloud.vault.address" in wrong
    assert (await someone.submit(f"{settings}/cloud", **FIELDS)).status_code == 303
    assert (await admin.get("/api/v1/modules/net%2Fvpc")).json()["cloud"] == CLOUD
    assert "Cloud logins" in await someone.see(f"/dashboard/modules/{module['id']}")
    assert (await someone.submit(f"{settings}/cloud", **dict.fromkeys(FIELDS, ""))).status_code == 303
    assert (await admin.get("/api/v1/modules/net%2Fvpc")).json()["cloud"] == {}, "an empty field removes them"
