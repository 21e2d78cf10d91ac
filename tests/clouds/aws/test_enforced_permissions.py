"""The permissions that are shown are enough, and the test of a connection names each one that is missing.

An implementation of AWS that is not ours evaluates the policies.
"""

import pytest

from terracrew.clouds.aws import checking, permissions, policies
from tests.clouds.aws.enforced_account import EnforcedAccount
from tests.clouds.recorded_steps import RecordedSteps
from tests.machine import platforms

pytestmark = [pytest.mark.platform("ministack"), pytest.mark.feature("W1.identities")]


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> EnforcedAccount:
    made = EnforcedAccount(platforms.need("ministack"), "permissions")
    for name, value in made.variables.items():
        monkeypatch.setenv(name, value)
    return made


async def test_the_test_of_a_connection_names_each_permission_that_is_taken_away(account: EnforcedAccount) -> None:
    identity = account.identity()
    account.make_role(identity)
    api = account.open(identity)
    statements = permissions.needed(policies.account_of(identity))
    for statement in statements:
        assert await checking.find_missing(api, statement) == []
    for statement in statements:
        for action in statement.actions:
            if action == "iam:SimulatePrincipalPolicy":
                continue
            account.allow(identity, without=action)
            assert await checking.find_missing(api, statement) == [action]
    api.close()


async def test_a_role_that_may_not_ask_about_itself_says_so(account: EnforcedAccount) -> None:
    identity = account.identity()
    account.make_role(identity, without="iam:SimulatePrincipalPolicy")
    api = account.open(identity)
    steps = RecordedSteps()
    assert not await checking.check(api, steps, None)
    assert "iam:SimulatePrincipalPolicy is missing" in steps.refused["may_CheckItself"][0]
    assert not [step for step in steps.begun if step.startswith("may_") and step != "may_CheckItself"]
    assert {"sign_in", "account", "others", "subnets"} <= set(steps.passed)
    api.close()
