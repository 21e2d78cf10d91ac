"""The test of a connection: every check is made, and each one that failed says how to mend it."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from terracrew.api.cloud_identities import Way
from terracrew.api.deployments import DeploymentSettings
from terracrew.clouds.aws import api as aws_api
from terracrew.clouds.aws import checking
from terracrew.clouds.aws.api import AwsApi
from terracrew.clouds.contract import Canceled
from terracrew.clouds.model import AwsAccount, CloudIdentity, Deployment
from terracrew.clouds.web import Fetched, fetch
from tests.clouds.recorded_steps import RecordedSteps
from tests.machine import aws_service, oidc_issuer
from tests.machine.aws_service import ACCOUNT, AwsService, Refusal, Role

pytestmark = pytest.mark.feature("W1.identities")
ROLE = f"arn:aws:iam::{ACCOUNT}:role/fleet"
WHO = {"Arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/fleet/terracrew", "UserId": "A", "Account": ACCOUNT}
IMAGE = f"{ACCOUNT}.dkr.ecr.eu-central-1.amazonaws.com/terracrew:1.5"


class Account:
    """An account in which everything is right, until a test changes something."""

    def __init__(
        self, aws: AwsService, issuer: oidc_issuer.Issuer, way: Way, address: str = "https://crew.test"
    ) -> None:
        self.aws, self.issuer = aws, issuer
        cloud = AwsAccount(role_arn=ROLE, external_id="tc-right", region="eu-central-1", way=way)
        self.identity = CloudIdentity(
            id="cid_1",
            organization_id="org_1",
            name="production",
            subject="organization:acme:cloud-identity:production:x1",
            audience="sts.amazonaws.com",
            issuer=address,
            cloud=cloud,
        )
        is_web = way == "web_identity"
        self.role = aws.add(
            Role(
                arn=ROLE,
                external_id="" if is_web else "tc-right",
                issuer=issuer.url if is_web else "",
                audience=self.identity.audience,
                subject=self.identity.subject,
            )
        )
        issuer.document = {"issuer": self.identity.issuer, "jwks_uri": issuer.url + "/keys"}
        self.settings = DeploymentSettings(image=IMAGE)
        aws.answers["GetCallerIdentity"] = [WHO]
        aws.answers["GetServiceQuota"] = [{"Quota": {"Value": 6.0}}]
        aws.answers["DescribeSubnets"] = [subnets(250, 3)]
        aws.answers["DescribeImages"] = [{"imageDetails": [{"imageSizeInBytes": 87_000_000}]}]
        self.deny()

    def deny(self, *actions: str) -> None:
        """Let the role have all permissions but these."""

        class Simulated(list[Any]):
            def __len__(self) -> int:
                return 1

            def __getitem__(self, index: Any) -> Any:
                _, asked = outer.aws.asked[-1]
                names = [value for name, value in asked.items() if name.startswith("ActionNames.member")]
                decided = ((name, "implicitDeny" if name in actions else "allowed") for name in names)
                return {"EvaluationResults": [{"EvalActionName": n, "EvalDecision": d} for n, d in decided]}

        outer = self
        self.aws.answers["SimulatePrincipalPolicy"] = Simulated()

    async def check(self) -> RecordedSteps:
        steps = RecordedSteps()
        api = AwsApi(self.identity, self.sign)
        deployment = Deployment(
            runner_id="run_1",
            runner_path="acme/burst",
            organization_id="org_1",
            server_url="https://crew.test",
            region="eu-central-1",
            version="1.5",
            settings=self.settings,
        )
        passed = await checking.check(api, steps, deployment, self._read)
        assert passed == (not steps.refused)
        assert set(steps.begun) == set(steps.passed) | set(steps.refused), "a step never ended"
        assert all(remedy for _, remedy in steps.refused.values()), "a failed check does not say how to mend it"
        api.close()
        return steps

    async def sign(self, is_probe: bool = False, /) -> str:
        return self.issuer.token(self.identity.audience, sub="nobody" if is_probe else self.identity.subject)

    async def _read(self, url: str, headers: dict[str, str]) -> Fetched:
        """Read from the issuer of the test what is published at an address of its own."""
        return await fetch(url.replace(self.identity.issuer, self.issuer.url), headers)


def subnets(free: int, count: int, networks: int = 1) -> str:
    items = "".join(
        f"<item><subnetId>subnet-{n}</subnetId><vpcId>vpc-{n % networks}</vpcId>"
        f"<availableIpAddressCount>{free}</availableIpAddressCount></item>"
        for n in range(count)
    )
    return f"<DescribeSubnetsResponse><subnetSet>{items}</subnetSet></DescribeSubnetsResponse>"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[AwsService]:
    with aws_service.running() as service:
        monkeypatch.setenv("AWS_ENDPOINT_URL", service.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAWORKLOAD")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-key-of-the-machine")
        monkeypatch.setattr(aws_api, "FIRST_PAUSE_SECONDS", 0.01)
        yield service


@pytest.fixture
async def workload(aws: AwsService) -> AsyncIterator[Account]:
    with oidc_issuer.running() as issuer:
        yield Account(aws, issuer, "workload")


async def test_a_good_connection_passes_every_check_and_says_the_numbers(workload: Account) -> None:
    steps = await workload.check()
    assert steps.refused == {}
    assert steps.passed["sign_in"] == WHO["Arn"]
    assert steps.passed["account"] == ACCOUNT
    assert steps.passed["others"] == "tried and refused"
    assert steps.passed["may_GiveRoles"] == "1 permission"
    assert steps.passed["quota"] == "6 vCPUs, needs 4"
    assert steps.passed["subnets"] == "750 free in 3 subnets, needs 4"
    assert steps.passed["image"] == "87 MB"
    changes = {"Create", "Delete", "Put", "Run", "Stop", "Register", "Update", "Tag"}
    assert not [action for action, _ in workload.aws.asked if action.startswith(tuple(changes))]


async def test_each_missing_permission_is_named_in_its_group_and_the_other_checks_are_made(workload: Account) -> None:
    workload.deny("iam:PassRole", "logs:CreateLogGroup", "logs:DeleteLogGroup")
    steps = await workload.check()
    assert set(steps.refused) == {"may_GiveRoles", "may_Logs"}
    assert steps.refused["may_GiveRoles"][0] == "iam:PassRole is missing"
    assert "`GiveRoles`" in steps.refused["may_GiveRoles"][1]
    assert steps.refused["may_Logs"][0] == "logs:CreateLogGroup, logs:DeleteLogGroup are missing"
    assert "image" in steps.passed


async def test_a_role_that_may_not_ask_about_itself_is_said_once(workload: Account) -> None:
    workload.aws.answers["SimulatePrincipalPolicy"] = [Refusal("AccessDenied", "not authorized", 403)]
    steps = await workload.check()
    assert list(steps.refused) == ["may_CheckItself"]
    assert "iam:SimulatePrincipalPolicy is missing" in steps.refused["may_CheckItself"][0]
    assert {"quota", "subnets", "image"} <= set(steps.passed)


async def test_a_role_that_lets_others_in_fails_although_everything_works(workload: Account) -> None:
    workload.role.accepts_all = True
    steps = await workload.check()
    assert list(steps.refused) == ["others"]
    assert "wrong external id" in steps.refused["others"][0]


async def test_a_role_that_trusts_every_subject_of_the_issuer_fails(aws: AwsService) -> None:
    with oidc_issuer.running() as issuer:
        made = Account(aws, issuer, "web_identity")
        made.role.accepts_all = True
        assert list((await made.check()).refused) == ["others"]
        made.role.accepts_all = False
        assert (await made.check()).refused == {}


@pytest.mark.parametrize(
    ("change", "words"),
    [("keys", "none of the keys"), ("document", "is of the issuer"), ("away", "status 404"), ("port", "no port")],
)
async def test_an_issuer_that_publishes_something_else_is_found_before_aws_says_so(
    aws: AwsService, change: str, words: str
) -> None:
    with oidc_issuer.running() as issuer:
        made = Account(aws, issuer, "web_identity")
        match change:
            case "keys":
                issuer.keys = [oidc_issuer.new_key("other").as_dict(private=False)]
            case "document":
                issuer.document["issuer"] = "https://another.test"
            case "away":
                issuer.answers["/.well-known/openid-configuration"] = (404, {}, b"")
            case _:
                made = Account(aws, issuer, "web_identity", "https://crew.test:8443")
        steps = await made.check()
        found, remedy = steps.refused["issuer"]
        assert words in found
        assert "issuer_url" in remedy


async def test_without_a_sign_in_the_rest_is_said_to_be_unchecked(workload: Account) -> None:
    workload.role.external_id = "another"
    steps = await workload.check()
    assert list(steps.refused) == ["sign_in"]
    assert "trust policy" in steps.refused["sign_in"][1]
    assert "cannot be checked without a sign-in" in steps.lines[-1]


@pytest.mark.parametrize(
    ("quota", "words"),
    [(0.0, "blocked"), (0.5, "one instance needs 1"), (3.0, "4 instances need 4")],
)
async def test_a_quota_that_is_too_small_says_which_number_to_ask_for(
    workload: Account, quota: float, words: str
) -> None:
    workload.aws.answers["GetServiceQuota"] = [{"Quota": {"Value": quota}}]
    found, remedy = (await workload.check()).refused["quota"]
    assert words in found
    assert "L-3032A538" in remedy


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (subnets(1, 2), "have 2 free addresses, and 4 instances need one each"),
        (subnets(9, 2, networks=2), "different networks"),
        (subnets(9, 0), "no default network"),
    ],
)
async def test_subnets_that_cannot_hold_the_runner_are_said(workload: Account, answer: str, words: str) -> None:
    workload.aws.answers["DescribeSubnets"] = [answer]
    assert words in (await workload.check()).refused["subnets"][0]


async def test_an_image_that_ecr_does_not_have_is_said(workload: Account) -> None:
    workload.aws.answers["DescribeImages"] = [Refusal("ImageNotFoundException", "no such image")]
    assert "ECR has no" in (await workload.check()).refused["image"][0]


async def test_a_canceled_check_stops(workload: Account) -> None:
    steps = RecordedSteps()
    steps.is_canceled = True
    with pytest.raises(Canceled):
        await checking.check(AwsApi(workload.identity, workload.sign), steps, None)
