"""Policies of the company: one of each kind and state, and what they said about the plan that waits."""

import hashlib
from datetime import timedelta
from typing import Any

from terracrew import ids
from terracrew.api.policies import PolicyMessage
from terracrew.server.policies import store
from terracrew.server.policies.model import Policy, PolicyResult, PolicyVersion
from tests.server.dashboard.company.rows import Company

REGO = """package terracrew

# What is in production is deleted by two owners.
deny contains sprintf("%s would be destroyed", [change.address]) if {
    some change in input.plan.resource_changes
    "delete" in change.change.actions
}
"""


async def policies(made: Company, asking: str) -> None:
    """`asking` is a job whose plan waits."""
    deletions = await _policy(
        made, "deletions", "payments/prod", enforcement="approvers", approvals=2, state="active", active_version=1
    )
    regions = await _policy(made, "regions", "", state="active", active_version=2, newest_version=3)
    await _policy(made, "weekends", "", enforcement="advisory", state="draft")
    denied = [PolicyMessage("deny", "aws_db_instance.ledger would be destroyed"), PolicyMessage("warn", "it is Friday")]
    results = [_result(made, asking, deletions, "denied", denied), _result(made, asking, regions, "passed", [])]
    await store.save_results(made.tx, results)


async def _policy(made: Company, name: str, place: str, **values: Any) -> Policy:
    policy = Policy(
        **{
            "id": ids.new("pol"),
            "organization_id": made.organization_id,
            "group_id": await made.group(place),
            "place": place,
            "name": name,
            "description": "",
            "created_by": made.user_id,
            "created_by_name": "elena",
            "created_at": made.tx.moment - timedelta(days=30),
            "changed_at": made.tx.moment - timedelta(days=3),
        }
        | values
    )
    await store.insert(made.tx, policy)
    for number in range(1, policy.newest_version + 1):
        rego = REGO + "\n" * number
        version = PolicyVersion(
            policy_id=policy.id,
            number=number,
            rego=rego,
            sha256=hashlib.sha256(rego.encode()).hexdigest(),
            created_by=made.user_id,
            created_by_name="elena",
            created_at=made.tx.moment - timedelta(days=30 - number),
        )
        await store.insert_version(made.tx, version)
    return policy


def _result(made: Company, job: str, policy: Policy, verdict: Any, messages: list[PolicyMessage]) -> PolicyResult:
    return PolicyResult(
        job_id=job,
        policy_id=policy.id,
        version=policy.active_version or 1,
        name=policy.path,
        enforcement=policy.enforcement,
        approvals=policy.approvals,
        role=policy.role,
        verdict=verdict,
        messages=messages,
        attempt=1,
        plan_sha256="ab" * 32,
        json_sha256="cd" * 32,
        input_sha256="ef" * 32,
        checked_at=made.tx.moment - timedelta(minutes=4),
    )
