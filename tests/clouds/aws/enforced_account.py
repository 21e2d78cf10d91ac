"""An account of AWS in MiniStack, in which a role has exactly the policies that a test gives it."""

import contextlib
import importlib
import json
import secrets
from typing import Any

import msgspec

from terracrew.api.cloud_identities import Way
from terracrew.clouds.aws import policies
from terracrew.clouds.aws.api import AwsApi
from terracrew.clouds.model import AwsAccount, CloudIdentity

ACCOUNT = "000000000000"
REGION = "eu-central-1"
NOT_NARROWED = {
    "ecs": "MiniStack evaluates most actions of ECS on the cluster or on everything, where AWS has task definitions and tasks",
    "ec2": "MiniStack evaluates actions of EC2 on everything",
    "iam:CreateServiceLinkedRole": "MiniStack does not read the conditions of a simulated request",
    "iam:PassRole": "MiniStack does not read the conditions of a simulated request",
    "iam:SimulatePrincipalPolicy": "MiniStack evaluates it on everything, and AWS on the role",
}
"""Where MiniStack differs from AWS. In these statements every resource is allowed, without a condition."""
SERVER = f"arn:aws:iam::{ACCOUNT}:user/server"


async def no_token(is_probe: bool = False) -> str:
    raise AssertionError("a workload needs no token")


class EnforcedAccount:
    """`server` is the user that the server runs as; it may assume roles, and nothing else."""

    def __init__(self, url: str, name: str) -> None:
        self.url, self._name = url, name
        self._iam = self.client("iam")
        keys = self._server_keys()
        self.variables = {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": keys["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": keys["SecretAccessKey"],
        }

    def client(self, service: str) -> Any:
        """Return a client that may do everything."""
        library: Any = importlib.import_module("boto3")
        return library.session.Session("test", "test", region_name=REGION).client(service, endpoint_url=self.url)

    def identity(self, way: Way = "workload", issuer: str = "") -> CloudIdentity:
        role = f"fleet-{self._name}-{secrets.token_hex(3)}"
        cloud = AwsAccount(
            role_arn=f"arn:aws:iam::{ACCOUNT}:role/{role}",
            external_id="tc-" + secrets.token_hex(8),
            region=REGION,
            way=way,
        )
        return CloudIdentity(
            id="cid_1",
            organization_id="org_1",
            name="production",
            subject="organization:acme:cloud-identity:production:" + secrets.token_hex(4),
            audience="sts.amazonaws.com",
            issuer=issuer,
            cloud=cloud,
        )

    def make_role(self, identity: CloudIdentity, *, without: str = "") -> None:
        """Make the role as the page of the identity says, without one action."""
        trust = policies.trust_policy(identity, SERVER)
        name = policies.account_of(identity).role_arn.rpartition("/")[2]
        self._iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))
        self.allow(identity, without=without)

    def allow(self, identity: CloudIdentity, *, without: str = "") -> None:
        """Give the role the permissions that the page of the identity says, without one action."""
        policy = policies.permission_policy(identity)
        for statement in policy["Statement"]:
            statement["Action"] = [action for action in statement["Action"] if action != without]
            if any(
                action in NOT_NARROWED or action.partition(":")[0] in NOT_NARROWED for action in statement["Action"]
            ):
                statement["Resource"] = "*"
                statement.pop("Condition", None)
        policy["Statement"] = [each for each in policy["Statement"] if each["Action"]]
        name = policies.account_of(identity).role_arn.rpartition("/")[2]
        self._iam.put_role_policy(RoleName=name, PolicyName="terracrew", PolicyDocument=json.dumps(policy))

    def open(self, identity: CloudIdentity, **changes: Any) -> AwsApi:
        cloud = msgspec.structs.replace(policies.account_of(identity), **changes)
        return AwsApi(msgspec.structs.replace(identity, cloud=cloud), no_token)

    def _server_keys(self) -> dict[str, str]:
        with contextlib.suppress(self._iam.exceptions.EntityAlreadyExistsException):
            self._iam.create_user(UserName="server")
        policy = {"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": "*"}
        document = json.dumps({"Version": policies.POLICY_VERSION, "Statement": [policy]})
        self._iam.put_user_policy(UserName="server", PolicyName="assume", PolicyDocument=document)
        return self._iam.create_access_key(UserName="server")["AccessKey"]
