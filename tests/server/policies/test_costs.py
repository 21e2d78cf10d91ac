"""What a hook has said of the cost of a plan stays with the job, and policies can deny it."""

import pytest

from terracrew.protocol.events import PlanCost
from tests.builders.deliveries import delivery, fact
from tests.server.policies.looking import ADDS_ONE, Looking

pytestmark = [pytest.mark.platform("opa"), pytest.mark.feature("P3.cost")]
DEAR = """package terracrew

deny contains "it is unknown what it costs" if input.cost == null
deny contains "it is too dear" if input.cost.monthly_after > 100
"""


async def test_a_policy_denies_what_is_too_dear_and_what_has_no_cost(looking: Looking) -> None:
    await looking.policy(DEAR)
    for cost, expected in ((None, "it is unknown what it costs"), (150.0, "it is too dear"), (50.0, "")):
        ref = await looking.planned(module=await looking.rows.module())
        if cost is not None:
            await looking.rows.take(delivery(ref, 5, fact(PlanCost(20, cost, "USD"))))
        assert await looking.code(ref) == ("superseded" if expected else "begun")
        job = await looking.job(ref)
        assert job.message.endswith(expected)
        assert job.cost == (None if cost is None else PlanCost(20, cost, "USD"))


async def test_another_plan_has_no_cost_of_the_plan_before(looking: Looking) -> None:
    ref = await looking.planned()
    await looking.rows.take(delivery(ref, 5, fact(PlanCost(20, 30, "USD")), fact(ADDS_ONE)))
    assert (await looking.job(ref)).cost is None
