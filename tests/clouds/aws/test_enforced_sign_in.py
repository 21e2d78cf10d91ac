"""Who is let into an account that enforces trust, by an implementation of AWS that is not ours."""

import pytest

from terracrew.clouds.aws import policies
from terracrew.clouds.aws.errors import AwsRefused, SignInRefused
from tests.clouds.aws.enforced_account import EnforcedAccount
from tests.machine import platforms

pytestmark = [pytest.mark.platform("ministack"), pytest.mark.feature("W1.identities")]


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> EnforcedAccount:
    made = EnforcedAccount(platforms.need("ministack"), "sign-in")
    for name, value in made.variables.items():
        monkeypatch.setenv(name, value)
    return made


async def test_the_trust_policy_lets_in_whom_it_names_and_nobody_else(account: EnforcedAccount) -> None:
    identity = account.identity()
    account.make_role(identity)
    api = account.open(identity)
    who = await api.call("sts", "get_caller_identity")
    assert ":assumed-role/fleet-sign-in-" in who["Arn"]
    for wrong in ("", "tc-of-another"):
        with pytest.raises(SignInRefused, match=r"AccessDenied.*external id"):
            await account.open(identity, external_id=wrong).sign_in()
        with pytest.raises(SignInRefused):
            await api.probe(external_id=wrong)
    with pytest.raises(SignInRefused):
        await account.open(identity, role_arn=policies.account_of(identity).role_arn + "-missing").sign_in()


async def test_what_the_role_may_not_do_is_refused_with_the_name_of_the_action(account: EnforcedAccount) -> None:
    identity = account.identity()
    account.make_role(identity, without="ecs:ListClusters")
    api = account.open(identity)
    with pytest.raises(AwsRefused, match="ecs:ListClusters") as caught:
        await api.call("ecs", "list_clusters")
    assert caught.value.is_denied
    await api.call("ec2", "describe_subnets")
    with pytest.raises(AwsRefused, match="logs:CreateLogGroup"):
        await api.call("logs", "create_log_group", logGroupName="/of/somebody-else")
    with pytest.raises(AwsRefused, match="iam:CreateRole"):
        await api.call("iam", "create_role", RoleName="administrator", AssumeRolePolicyDocument="{}")
