"""Cloud identities on the pages of a group and a module."""

import json

import pytest

from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in

ROLE = "arn:aws:iam::111122223333:role"
CLOUD = {"aws": {"plan_role": f"{ROLE}/plan", "apply_role": f"{ROLE}/apply"}}


@pytest.mark.feature("X4.identity", "U6.tree")
async def test_an_owner_sets_cloud_identities_on_the_pages_of_a_group_and_of_a_module(application: Application) -> None:
    admin = application.admin
    group = await admin.made("/api/v1/groups", {"path": "net"})
    source = {"kind": "local", "path": "/srv/sources"}
    module = await admin.made("/api/v1/modules", {"path": "net/vpc", "source": source})
    someone = await logged_in(application)
    settings = f"/dashboard/groups/{group['id']}/settings"
    await someone.see(settings)
    answer = await someone.submit(settings, cloud=json.dumps(CLOUD))
    assert answer.status_code == 303, answer.text
    assert (await admin.get("/api/v1/groups/net")).json()["cloud"] == CLOUD
    assert f"{ROLE}/plan" in await someone.see(settings), "the form shows what is set"
    placement = f"/dashboard/modules/{module['id']}/placement"
    assert "net has aws" in await someone.see(placement), "the form names the identities above"
    for wrong in ('{"aws": 1}', "no JSON", '{"oracle": {}}'):
        refused = await someone.submit(placement, cloud=wrong)
        assert "These cloud identities are not valid" in refused.text
    assert (await someone.submit(placement, cloud=json.dumps(CLOUD))).status_code == 303
    assert "Cloud identities" in await someone.see(f"/dashboard/modules/{module['id']}")
    assert (await someone.submit(placement)).status_code == 303
    assert (await admin.get("/api/v1/modules/net%2Fvpc")).json()["cloud"] == {}, "an empty field removes them"
