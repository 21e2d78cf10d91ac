"""Policies look at the plans of PLAN jobs, too, so that people are told before they apply them."""

import msgspec
import pytest

from terracrew.api.policies import PolicyChange
from terracrew.protocol.events import PlanCost
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import JobType
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Tx
from terracrew.server.jobs.attempts.policy_checks import PolicyChecks
from terracrew.server.jobs.plans import json_store
from terracrew.server.objects import open_objects
from terracrew.server.policies import model, service
from terracrew.server.policies import reads as policy_reads
from terracrew.server.policies import store as policy_store
from terracrew.server.runs import view
from terracrew.server.runs.plan_verdicts import PlanVerdicts
from terracrew.server.runs.reasons import Watch, decide
from terracrew.wording import policy_words
from tests.builders.deliveries import DONE, delivery, fact
from tests.builders.job_rows import KEYS, policy_checks
from tests.server.policies.looking import NO_DELETE, Counting, Looking

pytestmark = [pytest.mark.platform("opa"), pytest.mark.feature("P3.plans")]
TOO_DEAR = 'package terracrew\n\ndeny contains "nobody has said what this costs" if input.cost == null\n'


ADVISORY = msgspec.convert({"enforcement": "advisory"}, PolicyChange)


class Told:
    """Notes about which jobs it was told."""

    def __init__(self) -> None:
        self.job_ids: list[str] = []

    async def __call__(self, tx: Tx, job_id: str) -> None:
        self.job_ids.append(job_id)


def verdicts(looking: Looking, told: Told | None = None, checks: PolicyChecks | None = None) -> PlanVerdicts:
    return PlanVerdicts(looking.rows.db, checks or policy_checks(looking.rows.db), told or Told())


async def planned(looking: Looking, action: str = "delete", *, is_over: bool = True) -> AttemptRef:
    ref = await looking.planned(action, JobType.PLAN, module=await looking.rows.module())
    if is_over:
        await looking.rows.take(delivery(ref, 5, DONE))
    return ref


async def test_a_plan_that_would_be_stopped_says_so(looking: Looking) -> None:
    await looking.policy()
    denied, passed = await planned(looking), await planned(looking, "create")
    told = Told()
    assert await verdicts(looking, told).step() == 2
    assert told.job_ids == [denied.job_id, passed.job_id]
    assert [each.verdict for each in await looking.results(passed)] == ["passed"]
    [result] = await looking.results(denied)
    assert result.words == "the policy `rule` (version 1) denies this plan: terraform_data.a is deleted"
    assert policy_words.consequence(result) == "stops an apply"
    job, watch = await looking.job(denied), Watch(Registry(), decide.APPLY_LEASE)
    assert job.status == "SUCCEEDED", "a plan fails for nothing that policies say"
    shown = await looking.rows.db.read(lambda tx: view.read(tx, job, watch))
    assert [each.verdict for each in shown.policy_checks] == ["denied"]
    assert await verdicts(looking, told).step() == 0, "once"


async def test_a_plan_is_looked_at_when_its_job_has_ended_and_its_cost_is_known(looking: Looking) -> None:
    await looking.policy(TOO_DEAR)
    ref = await planned(looking, is_over=False)
    assert await verdicts(looking).step() == 0
    cost = PlanCost(monthly_before=0, monthly_after=1, currency="USD")
    await looking.rows.take(delivery(ref, 5, fact(cost), DONE))
    assert await verdicts(looking).step() == 1
    assert [each.verdict for each in await looking.results(ref)] == ["passed"]


async def test_another_server_that_was_slower_changes_nothing(looking: Looking) -> None:
    await looking.policy()
    ref = await planned(looking)
    told = Told()

    class Overtaken(PolicyChecks):
        async def look_at_plan(self, job_id: str):
            found = await super().look_at_plan(job_id)
            await verdicts(looking, told).step()
            return found

    db = looking.rows.db
    slower = Overtaken(db, open_objects("memory:///"), KEYS, looking.opa)
    await verdicts(looking, told, slower).step()
    assert told.job_ids == [ref.job_id]


async def test_a_busy_server_looks_again(looking: Looking) -> None:
    await looking.policy()
    ref = await planned(looking)
    opa = Counting(busy=1)
    loop = verdicts(looking, checks=PolicyChecks(looking.rows.db, open_objects("memory:///"), KEYS, opa))
    await loop.step()
    assert await looking.results(ref) == []
    awaiting = await looking.rows.db.read(lambda tx: json_store.awaiting_policies(tx, 10))
    assert awaiting == [ref.job_id]
    assert await verdicts(looking).step() == 1
    assert [each.verdict for each in await looking.results(ref)] == ["denied"]


async def test_without_an_active_policy_nothing_is_evaluated_or_kept(looking: Looking) -> None:
    await looking.policy(is_active=False)
    ref = await planned(looking)
    opa, told = Counting(), Told()
    loop = verdicts(looking, told, PolicyChecks(looking.rows.db, open_objects("memory:///"), KEYS, opa))
    assert await loop.step() == 1
    assert (opa.asked, told.job_ids, await looking.results(ref)) == (0, [], [])
    assert await loop.step() == 0


async def test_an_apply_is_not_looked_at_here(looking: Looking) -> None:
    await looking.policy()
    ref = await looking.planned("create")
    assert await looking.code(ref) == "begun"
    await looking.rows.take(delivery(ref, 5, DONE))
    assert await verdicts(looking).step() == 0


async def test_what_is_told_of_it_follows_the_policies_that_are_active_now(looking: Looking) -> None:
    made = await looking.policy()
    ref = await planned(looking)
    await verdicts(looking).step()
    db, module_id = looking.rows.db, (await looking.job(ref)).module_id

    async def told() -> list[str]:
        async def read(tx: Tx) -> list[str]:
            results = (await policy_store.remarkable(tx, [ref.job_id])).get(ref.job_id, [])
            found = model.remarkable(await policy_reads.active(tx, module_id), results)
            return [policy_words.consequence(each) for each in found]

        return await db.read(read)

    assert await told() == ["stops an apply"]
    await db.write(lambda tx: service.change(tx, looking.who, made.path, ADVISORY))
    assert await told() == ["advisory: stops nothing"]
    await looking.policies.add_version(looking.who, made.path, service.NewPolicyVersion(rego=NO_DELETE + "# 2\n"))
    await looking.activate(made.path, 2)
    assert await told() == []
