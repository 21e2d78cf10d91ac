"""Cloud logins are set on groups and modules; for each cloud, the nearest place decides."""

from typing import Any

import pytest

from terracrew.protocol.cloud import AwsIdentity, CloudIdentities, VaultIdentity
from terracrew.server.tree.groups.inheritance import effective
from tests.server.application import Application

pytestmark = pytest.mark.feature("X4.identity")

VAULT = VaultIdentity("https://vault.example:8200", "planner", "applier")


def aws(name: str) -> dict[str, Any]:
    return {
        "plan_role": f"arn:aws:iam::111122223333:role/{name}-p",
        "apply_role": f"arn:aws:iam::111122223333:role/{name}-a",
    }


def test_the_nearest_place_decides_for_each_cloud() -> None:
    group, module = AwsIdentity(**aws("group")), AwsIdentity(**aws("module"))
    places = [CloudIdentities(aws=module), CloudIdentities(), CloudIdentities(aws=group, vault=VAULT)]
    assert effective(CloudIdentities, places) == CloudIdentities(aws=module, vault=VAULT)
    assert effective(CloudIdentities, []) == CloudIdentities()


async def test_identities_are_set_changed_inherited_and_removed(application: Application) -> None:
    admin = application.admin
    await admin.made("/api/v1/groups", {"path": "net", "cloud": {"aws": aws("group")}})
    new = {"path": "net/vpc", "source": {"kind": "git", "url": "https://example.com/vpc.git"}}
    made = await admin.made(
        "/api/v1/modules", new | {"cloud": {"vault": {"address": "https://v", "plan_role": "p", "apply_role": "a"}}}
    )
    assert list(made["cloud"]) == ["vault"]
    job = await admin.made("/api/v1/modules/net%2Fvpc/jobs", {"type": "PLAN"})
    assert job["cloud"] == {"aws": aws("group"), "vault": made["cloud"]["vault"]}
    changed = await admin.patch("/api/v1/modules/net%2Fvpc", json={"cloud": {"aws": aws("module"), "vault": None}})
    assert changed.json()["cloud"] == {"aws": aws("module")}
    changed = await admin.patch("/api/v1/groups/net", json={"cloud": {"aws": None}})
    assert changed.json()["cloud"] == {}


@pytest.mark.parametrize(
    "wrong",
    [
        {"aws": {"plan_role": "plan", "apply_role": "apply"}},
        {"aws": aws("x") | {"audience": "Terracrew"}},
        {"aws": aws("x") | {"audience": "a b"}},
        {"vault": {"address": "https://name:password@v", "plan_role": "p", "apply_role": "a"}},
        {"vault": {"address": "https://v/\U0001f511", "plan_role": "p", "apply_role": "a"}},
        {"oracle": {}},
    ],
)
async def test_an_identity_that_is_wrong_is_refused_at_its_place(
    application: Application, wrong: dict[str, Any]
) -> None:
    told = await application.admin.refused("PATCH", "/api/v1/groups/%2F", 400, json={"cloud": wrong})
    assert "cloud" in told
