"""What policies and a cost hook say of a plan is in the comment and in the statuses of its pull request."""

import hashlib
import json

import msgspec
import pytest

from terracrew.plan_diff import plan_json
from terracrew.plan_diff.plan_json import PlanJson
from terracrew.protocol.events import KeptPlan, PlanCost, PlanShown, Record, Result
from terracrew.server.pull_requests import store
from terracrew.server.runs.plan_verdicts import PlanVerdicts
from tests.builders.deliveries import RUNNING, fact
from tests.machine import platforms
from tests.server.pull_requests.world import ADDS_ONE, HASH, World

DENIES = (
    'package terracrew\n\ndeny contains sprintf("%s by @all", [x.address]) if some x in input.plan.resource_changes\n'
)
WARNS = DENIES.replace("deny contains", "warn contains")


async def policy(world: World, name: str, rego: str, enforcement: str) -> None:
    await world.app.admin.made("/api/v1/policies", {"name": name, "rego": rego, "enforcement": enforcement})
    answer = await world.app.admin.post(f"/api/v1/policies/{name}/activate", json={})
    assert answer.status_code == 200, answer.text


async def planned(world: World, *more: Record) -> None:
    """A pull request whose plan has ended. `more` is what its job delivers beside it."""
    found = world.open_on_forge("change", "app")
    await world.step()
    job = await world.job((await world.show(found))[1]["team/app"].plan_job_id)
    attempt = await world.runner.again(job.id)
    document = {"resource_changes": [{"address": "terraform_data.a", "change": {"actions": ["create"]}}]}
    content = plan_json.pack(PlanJson(msgspec.Raw(json.dumps(document).encode())))
    shown = PlanShown(hashlib.sha256(content).hexdigest(), content, HASH)
    kept = KeptPlan(await world.version(job.module_id), "cd" * 32, 2, f"/workspaces/{job.id}.1", HASH)
    await attempt.deliver(RUNNING, fact(ADDS_ONE), fact(shown), *more, fact(Result("SUCCEEDED", kept=kept)))
    await world.step()
    assert world.status["terracrew"] == ("success", "1 module changes")


async def looked_at(world: World) -> None:
    await planned(world)
    world.clock.advance(61)
    assert await PlanVerdicts(world.db, world.server.policy_checks, store.show_plan_again).step() == 1
    await world.step(polls=False)


@pytest.mark.platform("opa")
@pytest.mark.feature("P3.plans")
async def test_what_stops_an_apply_fails_the_status(world: World) -> None:
    platforms.need("opa")
    await policy(world, "rule", DENIES, "mandatory")
    await looked_at(world)
    words = "policies stop 1 module of 1: team/app"
    assert world.status["terracrew"] == ("failure", words)
    state, text = world.status["terracrew/team/app"]
    assert state == "failure"
    assert "The policy `rule` (version 1) denies this plan: terraform_data.a" in text
    [comment] = world.own_comments
    assert f": {words}" in comment
    assert "- `team/app`: The policy \\`rule\\` (version 1) denies this plan: terraform\\_data.a by" in comment
    assert "@all" not in comment, "nobody is mentioned by what a policy says"


@pytest.mark.platform("opa")
@pytest.mark.feature("P3.plans")
async def test_what_stops_nothing_is_only_told(world: World) -> None:
    platforms.need("opa")
    await policy(world, "shown", DENIES, "advisory")
    await policy(world, "warning", WARNS, "mandatory")
    await policy(world, "people", DENIES, "approvers")
    await looked_at(world)
    assert world.status["terracrew"] == ("success", "1 module changes")
    [comment] = world.own_comments
    assert "policy \\`shown\\` (version 1) denies this plan" in comment
    assert "(advisory: stops nothing)" in comment
    assert "policy \\`warning\\` (version 1) warns" in comment
    assert "(an apply needs an approval by the role owner)" in comment


@pytest.mark.feature("P3.cost")
async def test_what_the_plan_costs_is_in_the_comment_and_in_the_status_of_the_module(world: World) -> None:
    await planned(world, fact(PlanCost(120, 185.5, "USD")))
    words = "120.00 → 185.50 USD a month (+65.50)"
    assert words in world.status["terracrew/team/app"][1]
    [comment] = world.own_comments
    assert words in comment
