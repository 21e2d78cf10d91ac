"""No apply begins unless each policy that is mandatory at the module's place at that moment has passed on exactly that plan."""

import pytest

from terracrew.protocol.events import Result
from terracrew.server.jobs import attempt_store
from terracrew.server.policies import service
from tests.builders.deliveries import delivery, fact
from tests.server.policies.looking import NEVER, NO_DELETE, Looking

pytestmark = [pytest.mark.platform("opa"), pytest.mark.feature("P3.stopped", "P3.bound")]


async def test_what_passes_a_mandatory_policy_is_applied(looking: Looking) -> None:
    await looking.policy()
    assert await looking.code(await looking.planned("create")) == "begun"


async def test_the_job_fails_with_the_words_of_the_policy(looking: Looking) -> None:
    await looking.policy()
    ref = await looking.planned("delete")
    assert await looking.code(ref) == "superseded"
    job = await looking.job(ref)
    assert (job.status, job.failure_kind) == ("FAILED", "policy")
    assert job.message == "the policy `rule` (version 1) denies this plan: terraform_data.a is deleted"
    [result] = await looking.results(ref)
    assert (result.verdict, result.version, result.attempt) == ("denied", 1, 1)
    assert await looking.code(ref) == "superseded"  # asked again, it gets no other answer
    await looking.rows.take(delivery(ref, 5, fact(Result("CANCELED", "this attempt is no longer the current one"))))
    assert (
        await looking.rows.db.read(lambda tx: attempt_store.notes(tx, ref.job_id)) == []
    )  # it said "CANCELED too late"


async def test_a_plan_without_json_does_not_pass(looking: Looking) -> None:
    await looking.policy()
    ref = await looking.planned(has_json=False)
    assert await looking.code(ref) == "superseded"
    assert "has not delivered the plan as JSON" in (await looking.job(ref)).message


async def test_the_json_of_another_plan_does_not_count(looking: Looking) -> None:
    await looking.policy()
    ref = await looking.planned("create")
    assert await looking.code(ref, "cd" * 32) == "superseded"
    assert "describes another plan" in (await looking.job(ref)).message


async def test_a_policy_that_is_activated_after_the_plan_counts(looking: Looking) -> None:
    made = await looking.policy(NEVER, is_active=False)
    ref = await looking.planned()
    await looking.activate(made.path)
    assert await looking.code(ref) == "superseded"


async def test_a_policy_that_is_retired_counts_no_more(looking: Looking) -> None:
    made = await looking.policy(NEVER)
    ref = await looking.planned()
    await looking.rows.db.write(lambda tx: service.retire(tx, looking.who, made.path))
    assert await looking.code(ref) == "begun"


async def test_an_advisory_policy_stops_nothing(looking: Looking) -> None:
    await looking.policy(NEVER, enforcement="advisory")
    ref = await looking.planned()
    assert await looking.code(ref) == "begun"
    assert [each.verdict for each in await looking.results(ref)] == ["denied"]


async def test_a_policy_that_cannot_be_evaluated_stops_what_is_mandatory(looking: Looking) -> None:
    broken = 'package terracrew\ndeny contains "x" if to_number(input.plan.resource_changes[0].address) > 1\n'
    await looking.policy(broken)
    ref = await looking.planned()
    assert await looking.code(ref) == "superseded"
    assert "could not be evaluated: line 2, column 22: to_number" in (await looking.job(ref)).message


async def test_a_newer_version_counts_when_it_is_activated(looking: Looking) -> None:
    made = await looking.policy(NEVER)
    await looking.policies.add_version(looking.who, made.path, service.NewPolicyVersion(rego=NO_DELETE))
    await looking.activate(made.path, 2)
    assert await looking.code(await looking.planned()) == "begun"
