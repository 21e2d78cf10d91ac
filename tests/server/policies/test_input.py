"""What a policy is given: the inputs, the source, the runner and the time of day beside the plan, as docs/policies.md lists them."""

import hashlib
import json
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from terracrew.api.jobs import JobOrigin
from terracrew.plan_diff import plan_json
from terracrew.plan_diff.plan_json import PlanJson
from terracrew.protocol.events import PlanCost, PlanShown
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import GitSource
from tests.builders.deliveries import delivery, fact
from tests.builders.job_rows import change_jobs, change_modules, change_runners
from tests.server.policies.looking import PLAN, Looking

pytestmark = [pytest.mark.platform("opa"), pytest.mark.feature("P3.input")]
TELLS = """package terracrew

deny contains json.marshal({part: input[part]}) if {
    some part in ["cost", "inputs", "job", "module", "runner", "source", "time"]
}
"""
DOCUMENT = {"resource_changes": [], "variables": {"zones": {"value": ["a"]}, "password": {"value": "***"}, "unset": {}}}


async def told(looking: Looking, ref: AttemptRef) -> dict[str, Any]:
    """Return what the policy says that it was given of the plan of this attempt."""
    content = plan_json.pack(PlanJson(msgspec.Raw(json.dumps(DOCUMENT).encode())))
    shown = fact(PlanShown(hashlib.sha256(content).hexdigest(), content, PLAN))
    await looking.rows.take(delivery(ref, 4, shown, fact(PlanCost(20, 30, "USD"))))
    assert await looking.code(ref) == "superseded"
    [result] = await looking.results(ref)
    found: dict[str, Any] = {"checked_at": result.checked_at}
    for each in result.messages:
        found |= json.loads(each.text)
    return found


async def test_a_policy_is_given_inputs_source_runner_and_time(looking: Looking) -> None:
    await looking.policy(TELLS, time_zone="Asia/Tokyo")
    db, group = looking.rows.db, await looking.rows.group("web")
    module_id = await looking.rows.module("web/shop", group)
    ref = await looking.planned(has_json=False, module=module_id)
    await change_modules(db, module_id, labels=["team-a"], tags=["eu"])
    await change_runners(db, looking.runner.runner_id, name="edge", path="web/edge", tags=["gpu"])
    await change_jobs(
        db,
        ref.job_id,
        source=GitSource("https://git.example.com/net.git", branch="main"),
        source_commit="c0ffee",
        source_revision="tag v1",
        source_digest="git:1",
        has_own_source=True,
        origin=JobOrigin(kind="pull_request", name="acme/net #1"),
        targets=["terraform_data.a"],
        engine_version="1.12.6",
    )
    given = await told(looking, ref)
    assert given["inputs"] == {"zones": ["a"], "password": "***", "unset": None}
    assert given["source"] == {
        "kind": "git",
        "url": "https://git.example.com/net.git",
        "branch": "main",
        "commit": "c0ffee",
        "revision": "tag v1",
        "digest": "git:1",
        "is_own": True,
        "is_pull_request": True,
    }
    assert given["runner"] == {"path": "web/edge", "name": "edge", "tags": ["gpu"]}
    assert given["module"] == {
        "path": "web/shop",
        "name": "web/shop",
        "group": "web",
        "engine": "tofu",
        "labels": ["team-a"],
        "tags": ["eu"],
    }
    job = given["job"]
    assert (job["type"], job["is_destroy"], job["changes_something"], job["origin"]) == (
        "APPLY",
        False,
        True,
        "pull_request",
    )
    assert (job["targets"], job["engine_version"], job["created_by"]) == (["terraform_data.a"], "1.12.6", "test")
    assert (given["cost"]["monthly_after"], given["cost"]["currency"]) == (30.0, "USD")
    there = given["checked_at"].astimezone(ZoneInfo("Asia/Tokyo"))
    assert given["time"] == {
        "zone": "Asia/Tokyo",
        "rfc3339": there.isoformat(),
        "ns": int(there.timestamp()) * 1_000_000_000,
        "date": there.date().isoformat(),
        "weekday": there.strftime("%A"),
        "hour": there.hour,
        "minute": there.minute,
    }
    assert there.utcoffset() == timedelta(hours=9)
