"""The permission to apply waits for a verdict, is bound to one plan, and does not hang."""

import msgspec
import pytest

from terracrew.api.policies import PolicyChange
from terracrew.errors import Unavailable
from terracrew.plan_diff import plan_json
from terracrew.protocol.events import KeptPlan, Result
from terracrew.protocol.messages import AttemptRef, Begin, BeginRefused, Begun
from terracrew.server.connections.registry import Registry
from terracrew.server.history.points import History
from terracrew.server.jobs.attempts import begin as permission
from terracrew.server.jobs.attempts.policy_checks import PolicyChecks
from terracrew.server.objects import open_objects
from terracrew.server.policies import service
from terracrew.server.policies.opa import Opa
from tests.builders.deliveries import delivery, fact
from tests.builders.job_rows import KEYS
from tests.server.policies.looking import NEVER, PLAN, Counting, Looking

pytestmark = [pytest.mark.platform("opa"), pytest.mark.feature("P3.stopped", "P3.bound")]


async def asks(looking: Looking, opa: Opa, ref: AttemptRef, sha256: str = PLAN) -> Begun | BeginRefused:
    checks = PolicyChecks(looking.rows.db, open_objects("memory:///"), KEYS, opa)
    return await permission.permit(looking.rows.db, Registry(), History(KEYS), checks, ref, Begin(0, None, sha256))


async def test_a_busy_server_lets_the_executor_wait(looking: Looking) -> None:
    await looking.policy(name="first")
    await looking.policy(name="second")
    ref = await looking.planned()
    opa = Counting(busy=1)
    answer = await asks(looking, opa, ref)
    assert isinstance(answer, BeginRefused)
    assert (answer.code, (await looking.job(ref)).status) == ("wait", "PROCESSING")
    assert isinstance(await asks(looking, opa, ref), Begun)
    assert opa.asked == 3, "what has been evaluated is not evaluated again"


async def test_a_policy_with_another_time_zone_is_evaluated_again(looking: Looking) -> None:
    """For a minute, the result was used that it had with the hour of the zone before."""
    made = await looking.policy('package terracrew\ndeny contains "late" if input.time.zone != "UTC"\n')
    await looking.policy(name="asked-first")
    ref = await looking.planned()
    assert isinstance(await asks(looking, Counting(busy=1), ref), BeginRefused)
    assert [each.verdict for each in await looking.results(ref)] == ["passed"], "the other one waits for its turn"
    zone = msgspec.convert({"time_zone": "Asia/Tokyo"}, PolicyChange)
    await looking.rows.db.write(lambda tx: service.change(tx, looking.who, made.path, zone))
    await asks(looking, Opa(), ref)
    assert (await looking.job(ref)).failure_kind == "policy"


async def test_an_object_store_that_is_away_lets_the_executor_wait(
    looking: Looking, monkeypatch: pytest.MonkeyPatch
) -> None:
    await looking.policy()
    ref = await looking.planned()

    def away(_: bytes) -> None:
        raise Unavailable("the object store does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(plan_json, "unpack", away)
        answer = await asks(looking, Opa(), ref)
    assert isinstance(answer, BeginRefused)
    assert answer.code == "wait"
    assert await looking.code(ref) == "begun"


async def test_who_has_the_permission_gets_it_again_at_once(looking: Looking) -> None:
    """An advisory policy that takes longer than a permission is valid would otherwise be asked for ever."""
    await looking.policy()
    ref = await looking.planned()
    opa = Counting()
    assert isinstance(await asks(looking, opa, ref), Begun)
    await looking.policy(NEVER, name="later")
    assert isinstance(await asks(looking, opa, ref), Begun)
    assert opa.asked == 1


async def test_the_permission_is_for_one_plan(looking: Looking) -> None:
    await looking.policy()
    ref = await looking.planned()
    assert await looking.code(ref) == "begun"
    assert await looking.code(ref, "cd" * 32) == "plan_changed"


async def test_a_plan_without_a_hash_is_bound_to_no_json(looking: Looking) -> None:
    await looking.policy()
    ref = await looking.planned(has_json=False)
    await looking.rows.take(delivery(ref, 4, looking.shown("create", "")))
    assert await looking.code(ref, "") == "superseded"
    assert "has not delivered the plan as JSON" in (await looking.job(ref)).message


async def test_an_attempt_that_is_not_the_current_one_is_not_evaluated(looking: Looking) -> None:
    await looking.policy()
    ref = await looking.planned()
    kept = KeptPlan(0, "ab", 2, "/workspaces/x", PLAN)
    await looking.rows.take(delivery(ref, 5, fact(Result("WAITING", "", kept=kept))))
    opa = Counting()
    answer = await asks(looking, opa, ref)
    assert isinstance(answer, BeginRefused)
    assert (answer.code, opa.asked) == ("superseded", 0)


async def test_the_words_of_many_policies_fit_into_a_message(looking: Looking) -> None:
    long = 'package terracrew\ndeny contains sprintf("%d%s", [i, input.job.created_by]) if some i in numbers.range(1, 200)\n'
    for number in range(6):
        await looking.policy(long, name=f"rule-{number}")
    ref = await looking.planned()
    answer = await looking.begin(ref)
    assert isinstance(answer, BeginRefused)
    assert len(answer.message) <= permission.MAX_WORDS_CHARACTERS
