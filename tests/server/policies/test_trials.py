"""A policy is tried on earlier plans before it is activated: what would it have stopped?"""

import pytest

from terracrew.api.policies import PolicyTrial, PolicyVersionTrial
from terracrew.errors import Forbidden, NotFound
from terracrew.server.principals.model import Principal
from terracrew.server.runs.policy_trials import PolicyTrials
from terracrew.wording import policy_words
from tests.builders.job_rows import change_modules, policy_checks
from tests.server.policies.looking import NO_DELETE, Looking

pytestmark = [pytest.mark.platform("opa"), pytest.mark.feature("P3.tried")]
FAILS = 'package terracrew\ndeny contains "x" if to_number(input.plan.resource_changes[0].change.actions[0]) > 1\n'


def trials(looking: Looking) -> PolicyTrials:
    return PolicyTrials(looking.rows.db, policy_checks(looking.rows.db), looking.opa)


async def test_it_tells_which_of_the_last_plans_would_have_been_stopped(looking: Looking) -> None:
    actions = ["create", "delete", "create", "delete", "delete"]
    refs = [await looking.planned(action, module=await looking.rows.module()) for action in actions]
    found = await trials(looking).try_rego(looking.who, PolicyTrial(rego=NO_DELETE))
    assert (found.tried, found.denied, found.failed, found.is_complete) == (5, 3, 0, True)
    assert [each.job_id for each in found.plans] == [refs[4].job_id, refs[3].job_id, refs[1].job_id]
    assert policy_words.trial(found) == "It would have stopped 3 of the last 5 plans."
    found = await trials(looking).try_rego(looking.who, PolicyTrial(rego=NO_DELETE, last=2))
    assert (found.tried, found.denied) == (2, 2)
    assert [await looking.code(ref) for ref in refs] == ["begun"] * 5, "a trial has no effect"


async def test_a_version_is_tried_on_plans_of_its_place_only(looking: Looking) -> None:
    await looking.planned("delete", module=await looking.rows.module())
    path = "web"
    await change_modules(looking.rows.db, looking.module, path=path)
    await looking.planned("delete")
    made = await looking.policy(place=path, is_active=False)
    found = await trials(looking).try_version(looking.who, made.path, PolicyVersionTrial())
    assert [each.module_path for each in found.plans] == [path]


async def test_plans_for_which_it_cannot_be_evaluated_are_counted(looking: Looking) -> None:
    for action in ("create", "delete", "create"):
        await looking.planned(action, module=await looking.rows.module())
    found = await trials(looking).try_rego(looking.who, PolicyTrial(rego=FAILS))
    assert (found.tried, found.failed) == (3, 3)
    assert "3 of them because it could not be evaluated" in policy_words.trial(found)


async def test_a_trial_takes_the_right_to_change_the_place(looking: Looking) -> None:
    stranger = Principal("user", "usr_2", "mallory", looking.rows.organization)
    with pytest.raises((Forbidden, NotFound)):
        await trials(looking).try_rego(stranger, PolicyTrial(rego=NO_DELETE))
    made = await looking.policy()
    with pytest.raises((Forbidden, NotFound)):
        await trials(looking).try_version(stranger, made.path, PolicyVersionTrial())
