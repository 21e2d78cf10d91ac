"""A policy denies a real plan, and the role that it names lets it pass: the whole system, with the real engine and a real opa."""

import asyncio

import pytest

from terracrew.client.http import Api
from tests.e2e import people
from tests.e2e.approvals import waiting
from tests.e2e.system import System, eventually

pytestmark = [
    pytest.mark.engine,
    pytest.mark.platform("opa"),
    pytest.mark.timeout(240),
    pytest.mark.feature("P3.stopped", "P3.approvers", "P3.bound"),
]
PUBLIC = 'resource "terraform_data" "bucket" { input = { acl = "public-read" } }\n'
NO_PUBLIC = """package terracrew

deny contains sprintf("%s is public", [change.address]) if {
    some change in input.plan.resource_changes
    change.change.after.input.acl == "public-read"
}
"""
WORDS = "the policy `no-public` (version 1) denies this plan: terraform_data.bucket is public"


async def _tokens(system: System, **roles: str) -> dict[str, str]:
    async with people.opened(system.data) as found:
        own = await found.default()
        return {name: await found.token(await found.person(own, name, role)) for name, role in roles.items()}


def test_what_a_policy_denies_is_not_applied_before_the_role_that_it_names_has_approved_it(system: System) -> None:
    server = system.start_server(runner=True)
    server.stop()
    tokens = asyncio.run(_tokens(system, olga="owner", arno="approver"))
    system.start_server(runner=True)
    system.api.post("/policies", {"name": "no-public", "rego": NO_PUBLIC})
    system.api.post("/policies/no-public/activate", {})
    system.module("web", PUBLIC)
    system.module("fine", PUBLIC.replace("public-read", "private"))

    # What is denied fails, and nothing is made of it. What is not denied passes.
    denied = system.wait(system.run("web", "APPLY"))
    assert (denied["status"], denied["failure_kind"], denied["message"]) == ("FAILED", "policy", WORDS)
    assert [each["verdict"] for each in denied["policy_checks"]] == ["denied"]
    assert system.api.get("/modules/web")["state_version"] == 0
    assert system.wait(system.run("fine", "APPLY"))["status"] == "SUCCEEDED"

    # People are told before they apply: the plan alone says so, too.
    planned = system.run("web")
    system.wait(planned)
    checks = eventually(lambda: system.job(planned)["policy_checks"], what="the verdict about a plan")
    assert [(each["verdict"], each["enforcement"]) for each in checks] == [("denied", "mandatory")]

    # With approvals by owners, the plan waits; another role does not let it pass.
    system.api.patch("/policies/no-public", {"enforcement": "approvers", "approvals": 1, "role": "owner"})
    job = system.run("web", "APPLY")
    found = waiting(system, job)
    assert found["policy_needs"] == [f"{WORDS}. It may be applied after a person with the role `owner` approved it"]
    Api(system.url, tokens["arno"]).post(f"/jobs/{job}/approve", {"plan": 1})
    assert system.status(job) == "AWAITING_APPROVAL"
    Api(system.url, tokens["olga"]).post(f"/jobs/{job}/approve", {"plan": 1})
    assert system.wait(job)["status"] == "SUCCEEDED", system.log(job)
    assert system.state("web")["resources"][0]["type"] == "terraform_data"
