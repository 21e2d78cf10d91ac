"""Cloud logins on the pages of a group and a module."""

import pytest

from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in

ROLE = "arn:aws:iam::111122223333:role"
CLOUD = {"aws": {"plan_role": f"{ROLE}/plan", "apply_role": f"{ROLE}/apply"}}
FIELDS = {"aws_plan_role": f"{ROLE}/plan", "aws_apply_role": f" {ROLE}/apply "}


@pytest.mark.feature("X4.identity", "U6.tree")
async def test_an_owner_sets_cloud_identities_on_the_pages_of_a_group_and_of_a_module(application: Application) -> None:
    admin = application.admin
    group = await admin.made("/api/v1/groups", {"path": "net"})
    source = {"kind": "local", "path": "/srv/sources"}
    module = await admin.made("/api/v1/modules", {"path": "net/vpc", "source": source})
    someone = await logged_in(application)
    settings = f"/dashboard/groups/{group['id']}/settings"
    await someone.see(settings)
    answer = await someone.submit(f"{settings}/clouds", **FIELDS)
    assert answer.status_code == 303, answer.text
    assert (await admin.get("/api/v1/groups/net")).json()["cloud"] == CLOUD
    assert f"{ROLE}/plan" in await someone.see(settings), "the form shows what is set"
    settings = f"/dashboard/modules/{module['id']}/settings"
    assert "net has aws" in await someone.see(settings), "the form names the identities above"
    for wrong, field, words in (
        (FIELDS | {"aws_apply_role": ""}, "aws-apply-role", "An identity in Amazon Web Services needs this"),
        (
            FIELDS | {"aws_plan_role": "role/plan"},
            "aws-plan-role",
            "role/plan&#39; is not valid: write it like arn:aws",
        ),
        (
            {"vault_address": "ftp://vault", "vault_plan_role": "a", "vault_apply_role": "b"},
            "vault-address",
            "vault.example",
        ),
    ):
        refused = (await someone.submit(f"{settings}/clouds", **wrong)).text
        message = refused.partition(f'id="{field}-wrong" role="alert">')[2].partition("</span>")[0]
        assert words in message
        assert '<details class="more" id="cloud-aws" open>' in refused or "vault_address" in wrong
    assert (await someone.submit(f"{settings}/clouds", **FIELDS)).status_code == 303
    assert (await admin.get("/api/v1/modules/net%2Fvpc")).json()["cloud"] == CLOUD
    assert "Cloud logins" in await someone.see(f"/dashboard/modules/{module['id']}")
    assert (await someone.submit(f"{settings}/clouds")).status_code == 303
    assert (await admin.get("/api/v1/modules/net%2Fvpc")).json()["cloud"] == {}, "an empty field removes them"
