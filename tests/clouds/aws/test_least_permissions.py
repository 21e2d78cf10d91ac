"""The permissions that are shown are the least: without any one of them, something that a runner needs fails and names it.

An implementation of AWS that is not ours enforces them. What fails half-way leaves nothing behind, or says what is left.
"""

import secrets
from collections.abc import Iterator

import msgspec
import pytest

from terracrew.api.deployments import DeploymentSettings
from terracrew.clouds.aws import permissions
from terracrew.clouds.aws.api import AwsApi
from terracrew.clouds.aws.cloud import AwsCloud
from terracrew.clouds.aws.names import names_of
from terracrew.clouds.aws.steps.work import Waits
from terracrew.clouds.contract import CloudRefused
from terracrew.clouds.model import AwsAccount, CloudIdentity, Deployment, InstanceRefused, StartRequest
from tests.clouds.aws.enforced_account import ACCOUNT, REGION, EnforcedAccount, no_token
from tests.clouds.recorded_steps import RecordedSteps
from tests.machine import platforms

pytestmark = [pytest.mark.platform("ministack"), pytest.mark.feature("W1.identities", "W2.deploy", "W5.destroy")]
ROLE = AwsAccount(role_arn=f"arn:aws:iam::{ACCOUNT}:role/x", region=REGION)
NOT_ENFORCED = {
    "ec2:CreateTags": "MiniStack checks no permission for tags that a thing is made with",
    "ecs:TagResource": "the same",
    "iam:TagRole": "the same",
    "logs:TagResource": "the same",
    "secretsmanager:TagResource": "the same",
    "iam:PassRole": "MiniStack does not check to whom a role is given",
    "iam:CreateServiceLinkedRole": "MiniStack has no role of ECS itself",
    "servicequotas:GetServiceQuota": "MiniStack has no quotas",
    "logs:GetLogEvents": "without it, the last lines of an instance that died are missing, and nothing else fails",
}
ACTIONS = sorted({action for statement in permissions.needed(ROLE) for action in statement.actions})
IMAGE = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/terracrew:1"


class Stay:
    """One account, and one role in it whose permissions change from test to test."""

    def __init__(self, account: EnforcedAccount, identity: CloudIdentity) -> None:
        self.account, self.identity = account, identity
        self.api: AwsApi = account.open(identity)
        waits = Waits(propagation_seconds=0, stopping_seconds=5, emptying_seconds=5, detaching_seconds=5)
        self.cloud = AwsCloud(identity, no_token, api=self.api, waits=waits)
        self.stage = ""
        self._iam = account.client("iam")
        ecr = account.client("ecr")
        ecr.create_repository(repositoryName="terracrew")
        ecr.put_image(repositoryName="terracrew", imageManifest="{}", imageTag="1")

    async def live(self, deployment: Deployment) -> None:
        """Do everything that is ever done with a runner. Raises CloudRefused or AssertionError with what went wrong."""
        self.stage = "first deployment"
        facts = await self.cloud.deploy(deployment, "token-1", "fjb_1", RecordedSteps())
        self.stage = "later"
        settings = msgspec.structs.replace(deployment.settings, memory_mb=4096)
        changed = msgspec.structs.replace(deployment, facts=facts, settings=settings)
        facts = await self.cloud.deploy(changed, "token-2", "fjb_2", RecordedSteps())
        deployed = msgspec.structs.replace(changed, facts=facts)
        (answer,) = await self.cloud.start(deployed, [StartRequest(f"i-{deployment.runner_id[-6:]}")])
        assert not isinstance(answer, InstanceRefused), answer
        assert len(await self.cloud.watch(deployed, [answer.reference])) == 1
        await self.cloud.stop(deployed, answer.reference, "it is a test")
        checked = RecordedSteps()
        await self.cloud.check(checked, deployed)
        wrong = {
            step: said for step, said in checked.refused.items() if step in ("image", "may_CheckItself", "subnets")
        }
        assert wrong == {}, wrong
        assert len(await self.left(deployment)) > 5
        # Somebody has attached a policy to a role of ours, which must not keep it from being removed.
        self._iam.attach_role_policy(
            RoleName=names_of(deployment.runner_id).task_role, PolicyArn="arn:aws:iam::aws:policy/ReadOnlyAccess"
        )
        await self.cloud.destroy(deployed, "fjb_3", RecordedSteps())
        assert await self.left(deployment) == []

    async def left(self, deployment: Deployment) -> list[str]:
        """Return what is in the account for this runner. Other tests may have left something of theirs."""
        return [each.reference for each in await self.cloud.found() if each.runner_id == deployment.runner_id]


@pytest.fixture(scope="module")
def stay() -> Iterator[Stay]:
    account = EnforcedAccount(platforms.need("ministack"), "least")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in account.variables.items():
            patch.setenv(name, value)
        identity = account.identity()
        account.make_role(identity)
        opened = Stay(account, identity)
        yield opened
        opened.api.close()


def new_deployment() -> Deployment:
    return Deployment(
        runner_id="run_" + secrets.token_hex(13),
        runner_path="acme/burst",
        organization_id="org_1",
        server_url="https://crew.test",
        region=REGION,
        version="1",
        settings=DeploymentSettings(image=IMAGE),
    )


async def test_with_the_permissions_that_are_shown_everything_works(stay: Stay) -> None:
    stay.account.allow(stay.identity)
    await stay.live(new_deployment())


@pytest.mark.parametrize("action", [action for action in ACTIONS if action not in NOT_ENFORCED])
async def test_without_one_of_them_something_fails_and_names_it(stay: Stay, action: str) -> None:
    deployment = new_deployment()
    stay.account.allow(stay.identity, without=action)
    with pytest.raises((CloudRefused, AssertionError), match=rf"{action}\b") as caught:
        await stay.live(deployment)
    stay.account.allow(stay.identity)
    if stay.stage == "first deployment" and "left in the account" not in str(caught.value):
        assert await stay.left(deployment) == [], (
            "a deployment that failed half-way has left something and does not say so"
        )
    await stay.cloud.destroy(deployment, "fjb_4", RecordedSteps())
    assert await stay.left(deployment) == []
